package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
)

// draft writes the plan, or writes it anew when the last one had problems. It
// reads issue_ref, notes_ref, base_sha, plan_ref, problems_ref and drafts; it
// writes plan_ref (plandoc.Document), plan_hash and drafts.
func (p phase) draft() flows.Action {
	return flows.Action{
		Name: "plan.draft", Version: "1", ReadOnly: true, Spends: true,
		Reads:  []string{"issue_ref", "notes_ref", "base_sha", "plan_ref", "problems_ref", "drafts"},
		Writes: []string{"plan_ref", "plan_hash", "drafts", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			s, err := issue.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			notes, err := blob.GetJSON[plandoc.Notes](ctx, c.Artifacts, "notes", c.In.Artifact("notes_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			var last *plandoc.Document
			var problems []string
			if c.In.Int("drafts") > 0 {
				d, err := plandoc.Load(ctx, c)
				if err != nil {
					return flows.Result{}, err
				}
				if problems, err = loadProblems(ctx, c); err != nil {
					return flows.Result{}, err
				}
				last = &d
			}
			d, err := actuators.Ask[plandoc.Document](ctx, c, p.Models, draftRequest(s, notes, last, problems))
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("drafting the plan: %w", err)
			}
			hash, err := d.Hash()
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "plan", d)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"plan_ref": a, "plan_hash": hash, "drafts": c.In.Int("drafts") + 1},
				Note: fmt.Sprintf("draft %d: %s, %s, %s", c.In.Int("drafts")+1,
					markdown.Count(len(d.Steps), "step"), markdown.Count(len(d.Files), "file"), markdown.Count(len(d.Tests), "test")),
			}, nil
		}),
	}
}

func draftRequest(s issue.Snapshot, n plandoc.Notes, last *plandoc.Document, problems []string) actuators.Prompt {
	sections := []actuators.Section{
		{Title: "The issue", Text: s.Text(), Untrusted: true},
		{Title: "Notes about the repository", Text: n.Text(), Untrusted: true},
	}
	if last != nil {
		sections = append(sections,
			actuators.Section{Title: "The earlier plan", Text: last.Text(), Untrusted: true},
			actuators.Section{Title: "Problems with it", Text: "- " + strings.Join(problems, "\n- "), Untrusted: true})
	}
	return actuators.Prompt{ID: "plan/draft@1", System: draftPrompt, Sections: sections}
}

func loadProblems(ctx context.Context, c flows.Call) ([]string, error) {
	return blob.GetJSON[[]string](ctx, c.Artifacts, "list of problems", c.In.Artifact("problems_ref"))
}

// withProblems is the delta that the two judges of a draft write.
func withProblems(ctx context.Context, c flows.Call, problems []string, note string) (flows.Result, error) {
	if problems == nil {
		problems = []string{}
	}
	a, err := blob.PutJSON(ctx, c.Artifacts, "list of problems", problems)
	if err != nil {
		return flows.Result{}, err
	}
	return flows.Result{Delta: flows.Delta{"problems": len(problems), "problems_ref": a}, Note: note}, nil
}
