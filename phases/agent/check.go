package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

// checkWith tightens the operator's rules.
type checkWith struct {
	// Scope are globs; a change elsewhere is refused, and another attempt may
	// settle it. Empty means everywhere.
	Scope []string `json:"scope"`
	// MaxFiles and MaxLines bound the changes; 0 leaves the operator's.
	MaxFiles int `json:"max_files"`
	MaxLines int `json:"max_lines"`
}

func checkCheck(raw json.RawMessage) error {
	w, err := flows.With[checkWith](raw)
	if err == nil && (w.MaxFiles < 0 || w.MaxLines < 0) {
		err = errors.New("max_files and max_lines must be positive")
	}
	return err
}

// tighter is the smaller of two limits, of which the operator's may be
// gates.Unlimited.
func tighter(operators, flows int) int {
	if flows > 0 && (operators == gates.Unlimited || flows < operators) {
		return flows
	}
	return operators
}

// check judges the changes before anything of them runs or leaves. It reads
// work_ref, diff_ref and report_ref; it writes problems_ref ([]gates.Finding)
// and blocked, or ends the flow when only a person can settle it.
func (k kit) check() flows.Action {
	return flows.Action{
		Name: "workspace.check", Version: "1", ReadOnly: true, CheckWith: checkCheck,
		Reads: []string{"work_ref", "diff_ref", "report_ref"}, Writes: []string{"blocked", "problems_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[checkWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			d, err := tree.LoadDiff(ctx, c.Artifacts, c.In.Artifact("work_ref"), c.In.Artifact("diff_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			report, err := writer.LoadReport(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			rules := k.Rules
			rules.Scope = with.Scope
			rules.MaxFiles, rules.MaxLines = tighter(rules.MaxFiles, with.MaxFiles), tighter(rules.MaxLines, with.MaxLines)
			return delivery.Judge(ctx, c.Artifacts, d, rules, report.Unfinished)
		}),
	}
}

// maxAttempts is how many attempts are remembered.
const maxAttempts = 64

// noProgress keeps the history of attempts and ends the flow before another is
// paid for when the last leads nowhere: the same content again, content of an
// earlier attempt, or nothing that failed before passing now. It reads
// diff_ref, passed, blocked, problems_ref, failing and attempts_ref; it writes
// attempts_ref ([]gates.Attempt).
func (k kit) noProgress() flows.Action {
	return flows.Action{
		Name: "gates.no_progress", Version: "1", ReadOnly: true,
		Reads:  []string{"diff_ref", "passed", "blocked", "problems_ref", "failing", "attempts_ref"},
		Writes: []string{"attempts_ref", "result"},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			sum, err := blob.GetJSON[tree.Summary](ctx, c.Artifacts, "summary of the changes", c.In.Artifact("diff_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			history, err := blob.GetJSON[[]gates.Attempt](ctx, c.Artifacts, "history of attempts", c.In.Artifact("attempts_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			failing := c.In.Strings("failing")
			if c.In.Bool("blocked") {
				found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
				if err != nil {
					return flows.Result{}, err
				}
				for _, f := range found {
					if f.Fatal {
						failing = append(failing, f.Code+" "+f.Path)
					}
				}
			}
			history = append(history, gates.Attempt{Tree: sum.Tree, Failing: failing})
			history = history[max(0, len(history)-maxAttempts):]
			a, err := blob.PutJSON(ctx, c.Artifacts, "history of attempts", history)
			if err != nil {
				return flows.Result{}, err
			}
			r := flows.Result{Note: fmt.Sprintf("attempt %d differs from those before", len(history))}
			if stuck, what := gates.NoProgress(history); stuck && !c.In.Bool("passed") {
				r = issue.End("no_progress", "no-progress", "Stopped after %s, since %s.", markdown.Count(len(history), "attempt"), what)
			}
			if r.Delta == nil {
				r.Delta = flows.Delta{}
			}
			r.Delta["attempts_ref"] = a
			return r, nil
		},
	}
}
