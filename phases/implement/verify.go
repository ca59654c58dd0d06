package implement

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// baseline settles how tests are run and, in the first round, records what
// fails before anything is changed. It reads base_sha and work_base; it writes
// test_argv and baseline_ref (gates.Evidence).
func (p phase) baseline() flows.Action {
	return flows.Action{
		Name: "implement.baseline", Version: "1",
		Reads: []string{"base_sha", "work_base"}, Writes: []string{"test_argv", "baseline_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("work_base")})
			if err != nil {
				return flows.Result{}, err
			}
			test := p.testCommand(c.Run.Repo)
			if len(test.Argv) == 0 {
				found, ok := gates.Detect(w.Dir())
				if !ok {
					return issue.End(issue.NeedsHuman, "test-command-missing",
						"It is not known how this repository runs its tests: none is configured and none was recognised."), nil
				}
				test.Argv = found.Argv
			}
			if c.In.Str("work_base") != c.In.Str("base_sha") {
				return flows.Result{Delta: flows.Delta{"test_argv": test.Argv}, Note: "tests are run with " + strings.Join(test.Argv, " ")}, nil
			}
			d, err := w.Diff(ctx)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading the base's content: %w", err)
			}
			c.Beat("running the tests before any change")
			ev, err := gates.Verify(ctx, p.Runner, w.Dir(), d.Tree, test, putter(c))
			if err != nil {
				return flows.Result{}, err
			}
			if ev.Code == gates.NotFound {
				return issue.End(issue.NeedsHuman, "test-program-missing", "The tests can't be run: %s.", ev.Reason), nil
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "baseline evidence", ev)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"test_argv": test.Argv, "baseline_ref": a},
				Note:  "before any change: " + ev.Reason,
			}, nil
		}),
	}
}

// verify runs the tests on the attempt. It reads work_base, work_ref and
// test_argv; it writes evidence_ref (gates.Evidence) and passed.
func (p phase) verify() flows.Action {
	return flows.Action{
		Name: "implement.verify", Version: "1",
		Reads: []string{"work_base", "work_ref", "test_argv"}, Writes: []string{"evidence_ref", "passed", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("work_base"), Patch: c.In.Artifact("work_ref")})
			if err != nil {
				return flows.Result{}, err
			}
			d, err := w.Diff(ctx)
			if err != nil {
				return flows.Result{}, fmt.Errorf("reading the changes: %w", err)
			}
			test := p.testCommand(c.Run.Repo)
			test.Argv = c.In.Strings("test_argv")
			c.Beat("running the tests")
			ev, err := gates.Verify(ctx, p.Runner, w.Dir(), d.Tree, test, putter(c))
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "test evidence", ev)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{Delta: flows.Delta{"evidence_ref": a, "passed": ev.Passed}, Note: ev.Reason}, nil
		}),
	}
}

func putter(c flows.Call) gates.Put {
	return func(ctx context.Context, content []byte) (flows.Artifact, error) {
		return blob.Put(ctx, c.Artifacts, "test output", content)
	}
}

// evidence reads the evidence that a state key refers to; the zero Evidence
// when there is none.
func evidence(ctx context.Context, c flows.Call, key string) (gates.Evidence, error) {
	return blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", c.In.Artifact(key))
}
