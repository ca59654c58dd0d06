package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// fanned has three branches, the last of which the merge can do without.
const fanned = header + `
stop: {to: done}
nodes:
  - {id: a, kind: step, uses: t.step, in: [n], writes: [n]}
  - {id: fan, kind: fanout, branches: [x, y, z], join: m, max_parallel: 2}
  - {id: x, kind: step, uses: t.read, in: [n], writes: [n], budget: {tokens: 1000}}
  - {id: y, kind: step, uses: t.read, in: [n], writes: [s], with: {text: "y of {{run.repo}}"}}
  - {id: z, kind: step, uses: t.read, in: [n], writes: [note], required: false}
  - {id: m, kind: merge, of: [z, y, x], uses: t.step, in: [n, s, note], writes: [result], report: tags}
  - {id: done, kind: sink}
edges:
  - {from: a, to: fan}
  - {from: fan, to: done, on: [failed], set: {result: needs_human}}
  - {from: m, to: done}
`

// fannedWorld has branches that change what is theirs.
func fannedWorld(t testing.TB) *world {
	return newWorld(t, map[string]action{
		"a": counts, "x": sets("n", 10), "y": sets("s", "why"), "z": sets("note", "zed"), "m": sets("result", "ok"),
	})
}

// rows are the stored branches, "branch outcome delta".
func (w *world) rows(id string) []string {
	w.t.Helper()
	rows, err := w.memory.Branches(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s/%d %s %s", r.Branch, r.Visit, r.Outcome, r.Delta)))
	}
	slices.Sort(out)
	return out
}

// Each branch sees the same state, the merge sees what all of them changed,
// in its own order, and says who was there.
//
// Covers: CN13, CN18, CN25, VK6, VK15, AR3.
func TestFanout(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	for _, id := range []string{"x", "y", "z"} {
		inner := w.script[id]
		w.script[id] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
			if got := fmt.Sprint(c.In.Keys(), c.In.Int("n"), " "+string(c.With)); !strings.HasPrefix(got, "[n] 1") || id == "y" && got != `[n] 1 {"text":"y of acme/widgets"}` {
				t.Errorf("%s was given %s", id, got)
			}
			return inner(ctx, c)
		}
	}
	var seen string
	w.script["m"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		seen = fmt.Sprint(c.In.Int("n"), c.In.Str("s"), c.In.Str("note"))
		return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
	}
	id := w.begin(fanned)
	w.want(w.walk(id), "ended ok: a fan m done")
	if seen != "10whyzed" && seen != "10 why zed" {
		t.Errorf("the merge saw %q", seen)
	}
	if diff := cmp.Diff([]string{`x/1 ok {"n":10}`, `y/1 ok {"s":"why"}`, `z/1 ok {"note":"zed"}`}, w.rows(id)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	h := w.history(id)
	if h[1].Delta != nil || string(h[2].Delta) != `{"n":10,"note":"zed","result":"ok","s":"why","tags":["z: ok","y: ok","x: ok"]}` {
		t.Errorf("fanout %+v\nmerge %s", h[1], h[2].Delta)
	}
}

// Never more at once than the flow says, and those at once.
//
// Covers: AR3, AR18, VK15.
func TestFanoutParallel(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	var now, most atomic.Int32
	both := make(chan struct{})
	meet := sync.OnceFunc(func() { close(both) })
	for _, id := range []string{"x", "y", "z"} {
		inner := w.script[id]
		w.script[id] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
			n := now.Add(1)
			defer now.Add(-1)
			if most.Store(max(most.Load(), n)); n == 2 {
				meet()
			}
			<-both // the first waits for a second: they are there at once
			return inner(ctx, c)
		}
	}
	w.want(w.walk(w.begin(fanned)), "ended ok: a fan m done")
	if got := most.Load(); got != 2 {
		t.Errorf("%d branches at once, want 2", got)
	}
}

// The merge goes on without an optional branch and says why.
//
// Covers: VK7, VK19, AR23.
func TestOptionalBranch(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]action{
		"failed: boom":                    func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") },
		"failed: the action panicked: oh": func(context.Context, flows.Call) (flows.Result, error) { panic("oh") },
		"failed: a branch can't stop the flow, and it wants to: x: y": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Stop: &flows.Stop{Code: "x", Reason: "y"}}, nil
		},
		"failed: it ended with denied": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Outcome: flows.Denied}, nil
		},
		"failed: invalid state: n is not among the keys that the node writes": sets("n", 4),
	} {
		w := fannedWorld(t)
		w.script["z"] = fail
		id := w.begin(fanned)
		w.want(w.walk(id), "ended ok: a fan m done")
		want := []string{"z: unavailable (" + name + ")", "y: ok", "x: ok"}
		if len(want[0]) > 4096 {
			t.Fatal("too long")
		}
		state, err := flows.DecodeState(w.get(id).State)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, state.Strings("tags")); diff != "" || state.Int("n") != 10 || state.Has("note") {
			t.Errorf("%s: state %v, report (-want +got):\n%s", name, state, diff)
		}
	}
}

// A required branch that fails, also by a panic, cancels those beside it; all
// of them are recorded, none stays pending, and the merge does not run.
//
// Covers: VK17, VK18, VK25, CN15.
func TestRequiredBranchFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]action{
		"failed": func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") },
		"panic":  func(context.Context, flows.Call) (flows.Result, error) { panic("oh") },
		"timeout": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Outcome: flows.Timeout, Note: "slow"}, nil
		},
	} {
		w := fannedWorld(t)
		entered := make(chan struct{})
		w.script["y"] = func(ctx context.Context, _ flows.Call) (flows.Result, error) {
			close(entered)
			<-ctx.Done()
			return flows.Result{}, ctx.Err()
		}
		w.script["x"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
			<-entered
			return fail(ctx, c)
		}
		id := w.begin(fanned)
		w.want(w.walk(id), "ended needs_human: a fan done")
		outcome := "failed"
		if name == "timeout" {
			outcome = name
		}
		if diff := cmp.Diff([]string{"x/1 " + outcome, "y/1 cancelled", "z/1 cancelled"}, w.rows(id)); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", name, diff)
		}
		if rec := w.history(id)[1]; rec.Outcome != "failed" || !strings.HasPrefix(rec.Note, "branch x: ") {
			t.Errorf("%s: record = %+v", name, rec)
		}
		if strings.Contains(w.called(), "m") || strings.Contains(w.called(), "z") {
			t.Errorf("called %q", w.called())
		}
	}
}

// Without an edge for it, a failed branch fails the run.
//
// Covers: VK17, VK23.
func TestRequiredBranchFailsTheRun(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	w.script["x"] = func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") }
	out := w.walk(w.begin(strings.Replace(fanned, "on: [failed]", "on: [budget-exhausted]", 1)))
	w.want(out, "ended error failed: a")
	if !strings.Contains(out.Reason, "boom") {
		t.Errorf("reason = %q", out.Reason)
	}
}

// A fanout whose flow has nothing left is not entered; a branch that it needs
// and that uses up its own budget fails it, and the error says how.
//
// Covers: VK17, AR15.
func TestFanoutAndBudgets(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	w.script["a"] = spends(10)
	id := w.begin(strings.Replace(fanned, "nodes:\n", "limits: {tokens: 1000}\nnodes:\n", 1))
	w.want(w.walk(id), "ended needs_human budget: a fan done")
	if rows := w.rows(id); w.called() != "a" || len(rows) != 0 {
		t.Errorf("called %q, rows %v", w.called(), rows)
	}
	w = fannedWorld(t)
	w.script["x"] = spends(20)
	id = w.begin(strings.Replace(fanned, "on: [failed]", "on: [budget-exhausted]", 1))
	out := w.walk(id)
	w.want(out, "ended error budget: a")
	if rows := w.rows(id); !slices.Contains(rows, "x/1 budget-exhausted") || !strings.Contains(out.Reason, "branch x") {
		t.Errorf("rows %v, reason %q", rows, out.Reason)
	}
}

// Whatever write the process dies at, a branch that is stored never runs
// again, the others do, and the merge runs over all of them once.
//
// Covers: CN20, CN25, VK22, NX4.
func TestFanoutCrash(t *testing.T) {
	t.Parallel()
	play := func(plan func(*storetest.Faulty)) (path []string, state string, rows []string, writes int) {
		w := fannedWorld(t)
		id := w.begin(fanned)
		for _, b := range []string{"x", "y", "z"} {
			inner := w.script[b]
			w.script[b] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
				for _, row := range w.rows(id) {
					if strings.HasPrefix(row, b+"/") {
						t.Errorf("%s runs again, though it is stored", b)
					}
				}
				return inner(ctx, c)
			}
		}
		f := storetest.NewFaulty(w.memory)
		plan(f)
		w.store = f
		run := w.drive(id)
		for _, rec := range w.history(id) {
			path = append(path, fmt.Sprintf("%s/%d %s %s", rec.Node, rec.Visit, rec.Outcome, rec.Delta))
		}
		return path, string(run.State), w.rows(id), f.Writes()
	}
	path, state, rows, writes := play(func(*storetest.Faulty) {})
	if writes != 7 {
		t.Errorf("%d writes, want 7: a, three branches, fan, m, done", writes)
	}
	for n := 1; n <= writes; n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			gotPath, gotState, gotRows, _ := play(func(f *storetest.Faulty) { f.CrashAt(n, when) })
			if diff := cmp.Diff([]any{path, state, rows}, []any{gotPath, gotState, gotRows}); diff != "" {
				t.Errorf("crash at write %d, %v (-want +got):\n%s", n, when, diff)
			}
		}
	}
}

// hangs is blocks, but fails when its context ends.
func hangs(entered chan<- string) action {
	return func(ctx context.Context, c flows.Call) (flows.Result, error) {
		entered <- c.Key
		<-ctx.Done()
		return flows.Result{}, context.Cause(ctx)
	}
}

// A stop in the middle leaves what is done, and the rest runs when the run
// goes on.
//
// Covers: CN25, NX9, VK29.
func TestFanoutHalt(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	entered := make(chan string, 1)
	w.script["x"] = hangs(entered)
	id := w.begin(fanned)
	ctx, cancel := context.WithCancelCause(t.Context())
	stored := make(chan struct{})
	w.hooks.OnNode = func(_ context.Context, ev engine.NodeEvent) {
		if ev.Node == "z" && ev.Stage == engine.End {
			close(stored)
		}
	}
	ended := w.goWalk(ctx, id)
	<-entered
	<-stored
	for len(w.rows(id)) < 2 { // told before it is stored
	}
	cancel(engine.Halt{Reason: "stop"})
	w.want(<-ended, "halted halted: a")
	if diff := cmp.Diff([]string{`y/1 ok {"s":"why"}`, `z/1 ok {"note":"zed"}`}, w.rows(id)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	w.hooks.OnNode, w.script["x"], w.calls = nil, sets("n", 10), nil
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "ended ok: fan m done")
	if w.called() != "x m" {
		t.Errorf("called %q", w.called())
	}
}

// A branch that must wait long parks the run, once the others are done, and
// is tried again when its time has come.
//
// Covers: NX8, BL22.
func TestFanoutParks(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	w.script["y"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		if c.Attempt == 1 {
			return flows.Result{}, &flows.Retry{Cause: "rate-limited", After: time.Hour, Err: errors.New("429")}
		}
		return flows.Result{Delta: flows.Delta{"s": fmt.Sprint("attempt ", c.Attempt)}}, nil
	}
	id := w.begin(fanned)
	w.want(w.walk(id), "parked: a")
	run := w.get(id)
	if run.Status != checkpoints.Waiting || run.Wait.Node != "fan" || !run.Wait.Until.Equal(start().Add(time.Hour)) || len(w.rows(id)) != 2 {
		t.Errorf("wait %+v, rows %v", run.Wait, w.rows(id))
	}
	w.calls = nil
	w.clock.Advance(time.Hour)
	w.want(w.walk(id), "ended ok: fan m done")
	if w.called() != "y m" || !strings.Contains(string(w.get(id).State), "attempt 2") {
		t.Errorf("called %q, state %s", w.called(), w.get(id).State)
	}
}

// hidden is a store that has lost a branch.
type hidden struct{ engine.Store }

func (h hidden) Branches(ctx context.Context, id string) ([]checkpoints.BranchRecord, error) {
	rows, err := h.Store.Branches(ctx, id)
	return slices.DeleteFunc(rows, func(r checkpoints.BranchRecord) bool { return r.Branch == "y" }), err
}

// A merge that lacks a branch is an error, whatever edges there are; it never
// looks completed.
//
// Covers: CN15, CN13.
func TestJoinUnsatisfied(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	w.store = hidden{w.memory}
	src := strings.Replace(fanned, "  - {from: m, to: done}\n", "  - {from: m, to: done}\n  - {from: m, to: done, on: [failed], set: {result: ok}}\n", 1)
	out := w.walk(w.begin(src))
	w.want(out, "ended error join-unsatisfied: a fan")
	if !errors.Is(out.Err, engine.ErrJoin) || !strings.Contains(out.Reason, "lacks y") {
		t.Errorf("error = %v", out.Err)
	}
}

// A merge whose action fails changes nothing.
//
// Covers: CN3, NX7.
func TestMergeFails(t *testing.T) {
	t.Parallel()
	for _, fail := range []action{
		func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") },
		sets("result", "no such"),
	} {
		w := fannedWorld(t)
		w.script["m"] = fail
		src := strings.Replace(fanned, "  - {from: m, to: done}\n", "  - {from: m, to: done}\n  - {from: m, to: done, on: [failed], set: {result: needs_human}}\n", 1)
		id := w.begin(src)
		w.want(w.walk(id), "ended needs_human: a fan m done")
		if got := string(w.get(id).State); got != `{"n":1,"result":"needs_human","s":"","tags":[]}` {
			t.Errorf("state = %s", got)
		}
	}
}

// Branches have budgets of their own; what one has used before a crash it has
// used, and the run's limit holds over all of them.
//
// Covers: NX16, AR19, CN35.
func TestFanoutBudgets(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	entered := make(chan string, 1)
	w.script["x"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if err := spend(ctx, c, 6); err != nil {
			t.Error(err)
		}
		if _, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 100}); err != nil {
			t.Error(err)
		}
		return hangs(entered)(ctx, c)
	}
	w.script["y"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		return flows.Result{Delta: flows.Delta{"s": "why"}}, spend(ctx, c, 20)
	}
	id := w.begin(fanned)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := w.goWalk(ctx, id)
	<-entered
	for len(w.rows(id)) < 2 {
	}
	cancel(engine.ErrShutdown)
	w.want(<-ended, "released: a")
	w.script["x"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if left := c.Meter.Left(); left.InputTokens != 300 {
			t.Errorf("left = %+v, want 300 tokens", left)
		}
		return flows.Result{Delta: flows.Delta{"n": 10}}, spend(ctx, c, 3)
	}
	w.want(w.walk(id), "ended ok: fan m done")
	h := w.history(id)
	if got := h[1].Usage.Tokens(); got != 3000 || h[2].Usage.Tokens() != 0 {
		t.Errorf("fanout used %d tokens, merge %d, want 3000 and 0", got, h[2].Usage.Tokens())
	}

	limit := int64(1000)
	w = fannedWorld(t)
	w.limits.Run.Tokens = &limit
	for _, b := range []string{"x", "y", "z"} {
		w.script[b] = spends(10)
	}
	id = w.begin(strings.Replace(fanned, "max_parallel: 2", "max_parallel: 3", 1))
	w.want(w.walk(id), "ended needs_human: a fan done")
	if got := w.get(id).Spent.Tokens(); got != 1000 {
		t.Errorf("spent %d tokens, want 1000", got)
	}
}

// What branches had spent when the process died, and nobody knows which, is
// charged to one of them and not to each.
//
// Covers: AR19, NX16.
func TestFanoutLeftoverIsChargedOnce(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	entered := make(chan string, 2)
	w.script["x"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if _, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 300}); err != nil {
			t.Error(err)
		}
		return hangs(entered)(ctx, c)
	}
	w.script["y"] = hangs(entered)
	id := w.begin(fanned)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := w.goWalk(ctx, id)
	<-entered
	<-entered
	cancel(checkpoints.ErrLost)
	w.want(<-ended, "lost: a")
	w.clock.Advance(2 * time.Hour)
	w.script["x"], w.script["y"] = spends(1), sets("s", "why")
	w.want(w.walk(id), "ended ok: fan m done")
	rows, err := w.memory.Branches(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, row := range rows {
		got[row.Branch] = row.Usage.Tokens()
	}
	if diff := cmp.Diff(map[string]int64{"x": 400, "y": 0, "z": 0}, got); diff != "" {
		t.Errorf("tokens a branch (-want +got):\n%s", diff)
	}
}

// Branches may look at the run while the next one is begun, which asks what
// the run has spent; for the race detector.
func TestFanoutBranchLooksWhileNextBegins(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	beats := func(inner action) action {
		return func(ctx context.Context, c flows.Call) (flows.Result, error) {
			c.Beat("at work")
			return inner(ctx, c)
		}
	}
	for _, id := range []string{"x", "y", "z"} {
		w.script[id] = beats(w.script[id])
	}
	w.hooks.OnNode = func(context.Context, engine.NodeEvent) {}
	limited := strings.Replace(fanned, "nodes:\n", "limits: {tokens: 1000}\nnodes:\n", 1)
	for range 20 {
		id := w.begin(limited)
		w.want(w.walk(id), "ended ok: a fan m done")
		w.finish(id)
	}
}
