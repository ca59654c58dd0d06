package plan

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// maxNote is the most characters of what a person wants to be different.
const maxNote = 2000

// noteRevision makes what a person wants to be different the problem of the
// plan, so that the next draft answers it. It reads approved_by, and
// approved_hash, the id of the comment; it writes problems, problems_ref and
// drafts, which starts anew: a person's wish is not a draft that failed.
func (p phase) noteRevision() flows.Action {
	return flows.Action{
		Name: "plan.note_revision", Version: "1", ReadOnly: true,
		Reads:  []string{"approved_by", "approved_hash"},
		Writes: []string{"problems", "problems_ref", "drafts", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			by := c.In.Str("approved_by")
			comments, err := p.Reader.Comments(ctx, ref)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading the comments of %s: %w", ref, err)
			}
			wish := "They did not say what; the comment that did is gone."
			for _, m := range comments {
				if strconv.FormatInt(m.ID, 10) != c.In.Str("approved_hash") || !labels.Same(m.Author.Login, by) {
					continue
				}
				if cmd, ok := labels.ParseCommand(markdown.Visible(m.Body)); ok && cmd.Note() != "" {
					wish = bounded(cmd.Note(), maxNote)
				}
			}
			r, err := withProblems(ctx, c, []string{"major: a maintainer wants the plan to be different: " + wish}, by+" wants the plan revised")
			if err != nil {
				return r, err
			}
			r.Delta["drafts"] = 1
			return r, nil
		}),
	}
}
