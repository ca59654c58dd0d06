package implement

import (
	"context"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

// checkDiff judges the changes before anything of them runs. It reads
// work_ref, diff_ref, plan_ref and report_ref; it writes problems_ref
// ([]gates.Finding) and blocked, or ends the flow.
func (p phase) checkDiff() flows.Action {
	return flows.Action{
		Name: "implement.check_diff", Version: "1", ReadOnly: true,
		Reads: []string{"work_ref", "diff_ref", "plan_ref", "report_ref"}, Writes: []string{"blocked", "problems_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			d, err := tree.LoadDiff(ctx, c.Artifacts, c.In.Artifact("work_ref"), c.In.Artifact("diff_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			doc, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			report, err := writer.LoadReport(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			rules := p.Rules
			rules.Scope = doc.Paths()
			return delivery.Judge(ctx, c.Artifacts, d, rules, report.Unfinished)
		}),
	}
}

// noProgress keeps the history of attempts and stops before another is paid
// for when the last leads nowhere. It reads diff_ref, blocked, passed,
// problems_ref, evidence_ref, attempts_ref and signatures; it writes
// attempts_ref ([]gates.Attempt) and signatures.
func (p phase) noProgress() flows.Action {
	return flows.Action{
		Name: "implement.no_progress", Version: "1", ReadOnly: true,
		Reads:  []string{"diff_ref", "blocked", "passed", "problems_ref", "evidence_ref", "attempts_ref", "signatures"},
		Writes: []string{"attempts_ref", "signatures", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			sum, err := blob.GetJSON[tree.Summary](ctx, c.Artifacts, "summary of the changes", c.In.Artifact("diff_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			history, err := blob.GetJSON[[]gates.Attempt](ctx, c.Artifacts, "history of attempts", c.In.Artifact("attempts_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			failing, findings, err := failures(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			last := gates.Attempt{Tree: sum.Tree, Failing: append(slices.Clone(failing), findings...)}
			history = append(history, last)
			a, err := blob.PutJSON(ctx, c.Artifacts, "history of attempts", history)
			if err != nil {
				return flows.Result{}, err
			}
			sig := gates.Signature(sum.Tree, failing, findings)
			before := c.In.Strings("signatures")
			after := append(slices.Clone(before), sig)
			if len(after) > 64 {
				after = after[len(after)-64:]
			}
			var stuck bool
			var what string
			if c.In.Bool("passed") {
				// Green content that an earlier round had reviewed already.
				stuck = slices.Contains(before, sig)
				what = "the changes went back to exactly what an earlier round had"
			} else {
				stuck, what = gates.NoProgress(history)
			}
			r := flows.Result{Note: fmt.Sprintf("attempt %d differs from those before", len(history))}
			if stuck {
				r = issue.End("no_progress", "no-progress", "Stopped after %s, since %s.", markdown.Count(len(history), "attempt"), what)
			}
			if r.Delta == nil {
				r.Delta = flows.Delta{}
			}
			r.Delta["attempts_ref"], r.Delta["signatures"] = a, after
			return r, nil
		}),
	}
}

// failures are what failed in the last attempt: tests, or findings.
func failures(ctx context.Context, c flows.Call) (failing, findings []string, err error) {
	switch {
	case c.In.Bool("passed"):
		return nil, nil, nil
	case c.In.Bool("blocked"):
		found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
		for _, f := range found {
			if f.Fatal {
				findings = append(findings, f.Code+" "+f.Path)
			}
		}
		return nil, findings, err
	}
	ev, err := evidence(ctx, c, "evidence_ref")
	if len(ev.Failing) == 0 && err == nil {
		// Nothing is named, e.g. after a timeout: the verdict itself fails.
		return []string{string(ev.Code)}, nil, nil
	}
	return ev.Failing, nil, err
}

// giveUp ends the flow when the attempts are used up. It reads evidence_ref,
// problems_ref, blocked and attempt.
func (p phase) giveUp() flows.Action {
	return flows.Action{
		Name: "implement.give_up", Version: "1", ReadOnly: true,
		Reads: []string{"evidence_ref", "problems_ref", "blocked", "attempt"}, Writes: []string{"result"},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			var why string
			if c.In.Bool("blocked") {
				found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
				if err != nil {
					return flows.Result{}, err
				}
				why = delivery.Summary(found)
			} else {
				ev, err := evidence(ctx, c, "evidence_ref")
				if err != nil {
					return flows.Result{}, err
				}
				why = ev.Reason
			}
			return issue.End(issue.NeedsHuman, "attempts-used-up", "%s did not get there; the last one: %s.", markdown.Count(c.In.Int("attempt"), "attempt"), why), nil
		},
	}
}
