package review

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// verify makes sure that the tests pass on exactly the content under review:
// evidence of the same content is used again, otherwise they are run. It reads
// base_sha, head_sha, diff_ref, evidence_ref and test_argv; it writes
// evidence_ref and green.
func (p phase) verify() flows.Action {
	return flows.Action{
		Name: "review.verify", Version: "1",
		Reads:  []string{"base_sha", "head_sha", "diff_ref", "evidence_ref", "test_argv"},
		Writes: []string{"evidence_ref", "green", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			sum, err := blob.GetJSON[tree.Summary](ctx, c.Artifacts, "summary of the changes", c.In.Artifact("diff_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			ev, err := blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", c.In.Artifact("evidence_ref"))
			if err != nil {
				return flows.Result{}, err
			}
			if ev.Passed && sum.Tree != "" && ev.Tree == sum.Tree {
				return flows.Result{Delta: flows.Delta{"green": true}, Note: "the tests passed on exactly this content: " + ev.Reason}, nil
			}
			test := p.testCommand(c.Run.Repo)
			if len(test.Argv) == 0 {
				test.Argv = c.In.Strings("test_argv")
			}
			if len(test.Argv) == 0 {
				// Detected where the change can't have touched it.
				w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha")})
				if err != nil {
					return flows.Result{}, err
				}
				found, ok := gates.Detect(w.Dir())
				if !ok {
					return issue.End(issue.NeedsHuman, "test-command-missing",
						"It is not known how this repository runs its tests: none is configured and none was recognised."), nil
				}
				test.Argv = found.Argv
			}
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha"), Parent: c.In.Str("head_sha")})
			if err != nil {
				return flows.Result{}, err
			}
			c.Beat("running the tests at the pull request's head")
			ev, err = gates.Verify(ctx, p.Runner, w.Dir(), sum.Tree, test, func(ctx context.Context, b []byte) (flows.Artifact, error) {
				return blob.Put(ctx, c.Artifacts, "test output", b)
			})
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "test evidence", ev)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{Delta: flows.Delta{"evidence_ref": a, "green": ev.Passed}, Note: ev.Reason}, nil
		}),
	}
}

// judgeCI is pure: success only when something ran and nothing failed; pending
// while something has not ended. Skipped and neutral results are no success.
func judgeCI(checks []forge.Check, required bool) (ci, note string, pending bool) {
	var failed, waiting, passed []string
	for _, c := range checks {
		switch {
		case c.Own:
		case !c.Done:
			waiting = append(waiting, c.Name)
		case c.Conclusion == "success":
			passed = append(passed, c.Name)
		case c.Conclusion == "skipped", c.Conclusion == "neutral":
		default:
			failed = append(failed, c.Name+" ("+c.Conclusion+")")
		}
	}
	others := len(failed) + len(waiting) + len(passed)
	switch {
	case len(failed) > 0:
		return "failure", "failed: " + strings.Join(failed, ", "), false
	case len(waiting) > 0:
		return "unknown", "not ended: " + strings.Join(waiting, ", "), true
	case len(passed) > 0:
		return "success", "passed: " + strings.Join(passed, ", "), false
	case required:
		return "unknown", "no CI result yet", true
	case others == 0 && hasForeign(checks):
		return "none", "every CI result was skipped", false
	}
	return "none", "the repository has no CI results", false
}

func hasForeign(checks []forge.Check) bool {
	for _, c := range checks {
		if !c.Own {
			return true
		}
	}
	return false
}

// ci waits, bounded, until CI at the commit has ended. It reads head_sha; it
// writes ci and ci_note.
func (p phase) ci() flows.Action {
	return flows.Action{
		Name: "review.ci", Version: "1", ReadOnly: true,
		Reads: []string{"head_sha"}, Writes: []string{"ci", "ci_note", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			sha := c.In.Str("head_sha")
			checks, err := p.Forge.Checks(ctx, ref.Repo, sha)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading the CI results of %s: %w", tree.Short(sha), err)
			}
			ci, note, pending := judgeCI(checks, p.RequireCI)
			if pending && c.Attempt < p.CITries {
				return flows.Result{}, &flows.Retry{Cause: "transient", After: p.CIPoll, Looks: true, Err: errors.New("waiting for CI: " + note)}
			}
			if pending {
				ci = "timeout"
			}
			if r := []rune(note); len(r) > 480 {
				note = string(r[:480]) + "…"
			}
			return flows.Result{Delta: flows.Delta{"ci": ci, "ci_note": note}, Note: "CI: " + note}, nil
		}),
	}
}
