package implement

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// codeConflict is the finding that the work does not fit the base of today.
const codeConflict = "base-conflict"

// moved looks, before the first push, whether the work still fits the default
// branch. Where it does, nobody minds that the base is older. Where it does
// not, one more attempt begins on the new base, with what it has to settle; the
// second time a person must look. sha is the commit that is about to be pushed.
func (p phase) moved(ctx context.Context, c flows.Call, sha string) (flows.Result, bool, error) {
	base := c.In.Str("work_base")
	if base != c.In.Str("base_sha") {
		return flows.Result{}, false, nil // a later round builds on its own branch
	}
	pushed, err := p.Trees.Resolve(ctx, c, c.In.Str("branch"))
	switch {
	case err == nil && pushed == sha:
		return flows.Result{}, false, nil // a crash came after the push
	case err != nil && !errors.Is(err, workspace.ErrNotFound):
		return flows.Result{}, false, err
	}
	head, err := p.Trees.Resolve(ctx, c, c.In.Str("default_branch"))
	if err != nil || head == base {
		return flows.Result{}, false, err
	}
	_, done, err := p.Trees.OpenCopy(ctx, c, tree.At{Base: head, Patch: c.In.Artifact("work_ref")})
	switch {
	case err == nil:
		return flows.Result{}, false, done(ctx)
	case !errors.Is(err, workspace.ErrConflict):
		return flows.Result{}, false, err
	case c.In.Int("conflicts") > 0:
		return issue.End(issue.NeedsHuman, codeConflict,
			"The changes conflict with what came to %s meanwhile (%s), and did so again after they were made anew.",
			c.In.Str("default_branch"), tree.Short(head)), true, nil
	}
	r, err := p.anew(ctx, c, head)
	return r, true, err
}

// anew is the state in which the next attempt begins on the new base: without
// changes, and told why.
func (p phase) anew(ctx context.Context, c flows.Call, head string) (flows.Result, error) {
	none, err := blob.Put(ctx, c.Artifacts, "empty patch", nil)
	if err != nil {
		return flows.Result{}, err
	}
	text := fmt.Sprintf("the base moved from %s to %s, where the last changes do not apply any more. The checkout is at the new base "+
		"and holds none of them: carry out the plan on it", tree.Short(c.In.Str("work_base")), tree.Short(head))
	problems, err := blob.PutJSON(ctx, c.Artifacts, "problems", []gates.Finding{{Code: codeConflict, Text: text, Fatal: true}})
	if err != nil {
		return flows.Result{}, err
	}
	return flows.Result{
		Delta: flows.Delta{
			"base_sha": head, "work_base": head, "work_ref": none, "passed": false, "blocked": true, "problems_ref": problems,
			"conflicts": c.In.Int("conflicts") + 1,
		},
		Note: fmt.Sprintf("the base moved to %s and conflicts with the changes: they are made anew on it", tree.Short(head)),
	}, nil
}
