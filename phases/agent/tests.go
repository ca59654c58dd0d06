package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

type testsWith struct {
	// Times is how often they are run; 1 when 0.
	Times int `json:"times"`
}

const (
	maxTimes = 50
	// maxNamed and maxName bound the tests that the state names; all are in
	// the evidence.
	maxNamed = 50
	maxName  = 200
)

func checkTests(raw json.RawMessage) error {
	w, err := flows.With[testsWith](raw)
	if err == nil && (w.Times < 0 || w.Times > maxTimes) {
		err = fmt.Errorf("times must be 1 to %d", maxTimes)
	}
	return err
}

func (k kit) testCommand(repo string) gates.TestCommand {
	if k.TestFor == nil {
		return gates.TestCommand{}
	}
	return k.TestFor(repo)
}

// tests runs the repository's own tests on the work so far. It reads base_sha
// and work_ref; it writes evidence_ref (gates.Evidence: of the first run that
// failed, else of the last), passed, failing (what failed in any run) and flaky
// (what failed in some runs and passed in others). Zero tests is not a pass.
func (k kit) tests() flows.Action {
	return flows.Action{
		Name: "tests.run", Version: "1", CheckWith: checkTests,
		Reads: []string{"base_sha", "work_ref"}, Writes: []string{"evidence_ref", "passed", "failing", "flaky", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[testsWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			at, err := position(c)
			if err != nil {
				return flows.Result{}, err
			}
			test := k.testCommand(c.Run.Repo)
			if len(test.Argv) == 0 {
				// Detected where no change can have touched it.
				w, err := k.Trees.Open(ctx, c, tree.At{Base: at.Base})
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
			runs, err := k.runs(ctx, c, at, test, max(with.Times, 1))
			if err != nil {
				return flows.Result{}, err
			}
			if last := runs[len(runs)-1]; last.Code == gates.NotFound {
				return issue.End(issue.NeedsHuman, "test-program-missing", "The tests can't be run: %s.", last.Reason), nil
			}
			return judged(ctx, c, runs)
		}),
	}
}

// runs are the evidence of each run. Where the program is missing, or the run
// hangs, no other follows.
func (k kit) runs(ctx context.Context, c flows.Call, at tree.At, test gates.TestCommand, times int) ([]gates.Evidence, error) {
	w, err := k.Trees.Open(ctx, c, at)
	if err != nil {
		return nil, err
	}
	d, err := w.Diff(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the changes: %w", err)
	}
	if times > 1 {
		test.Reruns = 0 // each run speaks for itself
	}
	var runs []gates.Evidence
	for i := range times {
		c.Beat(fmt.Sprintf("running the tests, %d of %d", i+1, times))
		ev, err := gates.Verify(ctx, k.Runner, w.Dir(), d.Tree, test, func(ctx context.Context, b []byte) (flows.Artifact, error) {
			return blob.Put(ctx, c.Artifacts, "test output", b)
		})
		if err != nil {
			return nil, err
		}
		runs = append(runs, ev)
		if ev.Code == gates.NotFound || ev.Code == gates.TimedOut {
			break
		}
	}
	return runs, nil
}

// judged turns runs into what the state keeps.
func judged(ctx context.Context, c flows.Call, runs []gates.Evidence) (flows.Result, error) {
	failed := map[string]int{}
	kept, passed := runs[len(runs)-1], 0
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Passed {
			passed++
		} else {
			kept = runs[i]
		}
		for _, name := range runs[i].Failing {
			failed[clipName(name)]++
		}
	}
	failing, flaky := []string{}, []string{}
	for name, n := range failed {
		failing = append(failing, name)
		if n < len(runs) {
			flaky = append(flaky, name)
		}
	}
	slices.Sort(failing)
	slices.Sort(flaky)
	note := kept.Reason
	if len(runs) > 1 {
		note = fmt.Sprintf("%d of %s passed", passed, markdown.Count(len(runs), "run"))
		if len(flaky) > 0 {
			note += ", flaky: " + strings.Join(flaky[:min(len(flaky), 5)], ", ")
		}
	}
	a, err := blob.PutJSON(ctx, c.Artifacts, "test evidence", kept)
	if err != nil {
		return flows.Result{}, err
	}
	return flows.Result{Note: note, Delta: flows.Delta{
		"evidence_ref": a, "passed": passed == len(runs),
		"failing": failing[:min(len(failing), maxNamed)], "flaky": flaky[:min(len(flaky), maxNamed)],
	}}, nil
}

func clipName(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName-3], "") + "…"
}
