package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
)

// Critique is the critic's form.
type Critique struct {
	OK       bool      `json:"ok" jsonschema:"the plan can be carried out as it is"`
	Findings []Finding `json:"findings" jsonschema:"what would go wrong"`
}

// Finding is one objection.
type Finding struct {
	Severity string `json:"severity" enum:"nit,minor,major,blocker" jsonschema:"how bad it is"`
	Text     string `json:"text" jsonschema:"what would go wrong, in one or two sentences"`
}

// Check implements the rules that a schema can't say.
func (q Critique) Check() error {
	for i, f := range q.Findings {
		if !slices.Contains([]string{"nit", "minor", "major", "blocker"}, f.Severity) {
			return fmt.Errorf("findings[%d].severity is %q, want nit, minor, major or blocker", i, f.Severity)
		}
		if strings.TrimSpace(f.Text) == "" {
			return fmt.Errorf("findings[%d].text is empty", i)
		}
	}
	return nil
}

// problems are the objections that forbid the plan. A critic who says no
// without a reason still says no.
func (q Critique) problems() []string {
	var out []string
	for _, f := range q.Findings {
		if f.Severity == "major" || f.Severity == "blocker" {
			out = append(out, f.Severity+": "+strings.Join(strings.Fields(f.Text), " "))
		}
	}
	if len(out) == 0 && !q.OK {
		out = append(out, "major: the critic does not accept the plan and gave no reason")
		for _, f := range q.Findings {
			out = append(out, f.Severity+": "+strings.Join(strings.Fields(f.Text), " "))
		}
	}
	return out
}

// critique asks a second model call to object. It reads issue_ref, notes_ref
// and plan_ref; it writes problems and problems_ref.
func (p phase) critique() flows.Action {
	return flows.Action{
		Name: "plan.critique", Version: "1", ReadOnly: true, Spends: true,
		Reads: []string{"issue_ref", "notes_ref", "plan_ref"}, Writes: []string{"problems", "problems_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			s, err := issue.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			notes, err := blob.GetJSON[plandoc.Notes](ctx, c.Artifacts, "notes", c.In.Artifact("notes_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			d, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			q, err := actuators.Ask[Critique](ctx, c, p.Models, critiqueRequest(s, notes, d))
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("criticising the plan: %w", err)
			}
			problems := q.problems()
			return withProblems(ctx, c, problems, fmt.Sprintf("%s, %d of them serious", markdown.Count(len(q.Findings), "finding"), len(problems)))
		}),
	}
}

func critiqueRequest(s issue.Snapshot, n plandoc.Notes, d plandoc.Document) actuators.Prompt {
	return actuators.Prompt{ID: "plan/critique@1", System: critiquePrompt, Sections: []actuators.Section{
		{Title: "The issue", Text: s.Text(), Untrusted: true},
		{Title: "Notes about the repository", Text: n.Text(), Untrusted: true},
		{Title: "The plan", Text: d.Text(), Untrusted: true},
	}}
}

// unsettled ends the flow when revising did not settle the problems. It reads
// problems_ref.
func (p phase) unsettled() flows.Action {
	return flows.Action{
		Name: "plan.unsettled", Version: "1", ReadOnly: true,
		Reads: []string{"problems_ref"}, Writes: []string{"result"},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			problems, err := loadProblems(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			if len(problems) > 3 {
				problems = append(problems[:3:3], fmt.Sprintf("and %d more", len(problems)-3))
			}
			return issue.End(issue.NeedsHuman, "plan-unsettled", "The plan still has problems after its revisions: %s.", strings.Join(problems, "; ")), nil
		},
	}
}
