package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// forgetful is a store that loses the record of one branch.
type forgetful struct {
	engine.Store
	branch string
}

func (f forgetful) PutBranch(ctx context.Context, l checkpoints.Lease, b checkpoints.BranchRecord) error {
	if b.Branch == f.branch {
		return nil
	}
	return f.Store.PutBranch(ctx, l, b)
}

// A join that lacks a branch fails the run. The double has nothing more to do
// and is therefore done.
//
// Covers: CN13, CN15.
func TestWrongUnsatisfiedJoin(t *testing.T) {
	t.Parallel()
	check := func(join func(lost string) (completed bool, reason string)) error {
		if completed, reason := join(""); !completed {
			return fmt.Errorf("with all branches: %s", reason)
		}
		if completed, reason := join("r"); completed || !strings.Contains(reason, "join unsatisfied") {
			return fmt.Errorf("without a branch: completed %t, %q", completed, reason)
		}
		return nil
	}
	ours := func(lost string) (bool, string) {
		w := newWorld(t, nil)
		w.store = forgetful{w.memory, lost}
		out := w.walk(w.begin(fans("t.gate", "", ", join: m", "")))
		return out.Result == "ok", out.Reason
	}
	bites(t, check, ours, func(lost string) (bool, string) {
		arrived, frontier := 0, []string{"l", "r"}
		for len(frontier) > 0 {
			if frontier[0] != lost {
				arrived++
			}
			frontier = frontier[1:]
			if arrived == 2 {
				arrived = 0 // the join runs
			}
		}
		return len(frontier) == 0, ""
	})
}

// A branch that is not required leaves a partial report. The double skips the
// merge when anything before it has failed.
//
// Covers: VK6, VK7, VK19.
func TestWrongSkippedMerge(t *testing.T) {
	t.Parallel()
	check := func(merge func() (report []string, s string, completed bool)) error {
		report, s, completed := merge()
		if !completed || len(report) != 2 || report[0] != "l: ok" || !strings.HasPrefix(report[1], "r: unavailable") || s != "from l" {
			return fmt.Errorf("report %q, what l found %q, completed %t", report, s, completed)
		}
		return nil
	}
	ours := func() ([]string, string, bool) {
		w := newWorld(t, map[string]action{"l": sets("s", "from l"), "r": fails})
		out := w.walk(w.begin(fans("t.gate", ", required: false", ", join: m", "")))
		state, err := flows.DecodeState(out.Run.State)
		return state.Strings("tags"), state.Str("s"), err == nil && out.Result == "ok"
	}
	bites(t, check, ours, func() ([]string, string, bool) {
		status := map[string]string{"l": "completed", "r": "failed"}
		if slices.Contains(slices.Collect(maps.Values(status)), "failed") {
			status["m"] = "skipped"
			return nil, "", false
		}
		return []string{"l: ok", "r: ok"}, "from l", true
	})
}

// What runs beside a failed branch is ended and recorded. The double returns
// and leaves it pending.
//
// Covers: VK17, VK18.
func TestWrongDroppedSibling(t *testing.T) {
	t.Parallel()
	check := func(fan func() (records map[string]string, completed bool)) error {
		records, completed := fan()
		if completed || records["r"] != "failed" || records["l"] != "cancelled" {
			return fmt.Errorf("completed %t, records %v", completed, records)
		}
		return nil
	}
	ours := func() (map[string]string, bool) {
		began := make(chan struct{})
		w := newWorld(t, map[string]action{
			"l": func(ctx context.Context, _ flows.Call) (flows.Result, error) {
				close(began)
				<-ctx.Done()
				return flows.Result{}, context.Cause(ctx)
			},
			"r": func(context.Context, flows.Call) (flows.Result, error) {
				<-began
				return flows.Result{}, errors.New("scripted failure")
			},
		})
		id := w.begin(fans("t.gate", "", ", join: m", ""))
		out := w.walk(id)
		rows, err := w.memory.Branches(t.Context(), id)
		records := map[string]string{}
		for _, row := range rows {
			records[row.Branch] = row.Outcome
		}
		return records, err != nil || out.Result != "error"
	}
	bites(t, check, ours, func() (map[string]string, bool) {
		records := map[string]string{"l": "pending", "r": "pending"}
		for _, done := range []string{"r", "l"} { // as they come back
			if records[done] = "failed"; done == "r" {
				return records, false
			}
		}
		return records, true
	})
}
