package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// spend reserves and settles n calls of 100 tokens, 1 cent and a tool call.
func spend(ctx context.Context, c flows.Call, n int) error {
	one := flows.Usage{InputTokens: 80, OutputTokens: 20, ToolCalls: 1, MicroUSD: 10_000}
	for range n {
		held, err := c.Meter.Reserve(ctx, one)
		if err != nil {
			return err
		}
		if err := held.Settle(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func spends(n int) action {
	return func(ctx context.Context, c flows.Call) (flows.Result, error) { return flows.Result{}, spend(ctx, c, n) }
}

// withBudget is three, with a budget for b and perhaps an edge on it.
func withBudget(budget, edge string) string {
	src := strings.Replace(three, "- {id: b, kind: step, uses: t.step,", "- {id: b, kind: step, uses: t.step, budget: {"+budget+"},", 1)
	return strings.Replace(src, "edges:\n", "edges:\n"+edge, 1)
}

// A used-up budget hands over to a person only where the flow has not said
// itself what became of the run.
func TestBudgetLeavesTheResult(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"none", "ok"} {
		w := newWorld(t, map[string]action{"a": sets("result", result), "b": spends(9)})
		want := map[string]string{"none": "needs_human", "ok": "ok"}[result]
		w.want(w.walk(w.begin(withBudget("tokens: 350", ""))), "ended "+want+" budget: a b done")
	}
}

// Covers: CN30, CN31, CN32, CN35, NX16.
func TestNodeBudget(t *testing.T) {
	t.Parallel()
	for _, budget := range []string{"tokens: 350", "tool_calls: 3", "cost_usd: 0.035"} {
		calls := 0
		w := newWorld(t, map[string]action{
			"a": spends(10), // another node's budget is its own
			"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
				for {
					if err := spend(ctx, c, 1); err != nil {
						return flows.Result{}, err
					}
					calls++
				}
			},
			"c": sets("result", "ok"),
		})
		id := w.begin(withBudget(budget, ""))
		out := w.walk(id)
		w.want(out, "ended needs_human budget: a b done")
		if calls != 3 {
			t.Errorf("%s: %d calls were let through, want 3", budget, calls)
		}
		rec := w.history(id)[1]
		if rec.Outcome != "budget-exhausted" || rec.Usage.ToolCalls != 3 || !strings.Contains(rec.Note, "limit of") {
			t.Errorf("%s: record = %+v", budget, rec)
		}
		w = newWorld(t, map[string]action{"b": spends(10), "c": sets("result", "ok")})
		w.want(w.walk(w.begin(withBudget(budget, "  - {from: b, to: c, on: [budget-exhausted]}\n"))), "ended ok: a b c done")
	}
}

// What is settled after the end of its node counts at once for those that
// follow.
func TestBudgetCountsWhatComesLate(t *testing.T) {
	t.Parallel()
	var held flows.Reservation
	w := newWorld(t, map[string]action{
		"a": func(ctx context.Context, c flows.Call) (_ flows.Result, err error) {
			held, err = c.Meter.Reserve(ctx, flows.Usage{InputTokens: 1})
			return flows.Result{}, err
		},
		"b": func(ctx context.Context, _ flows.Call) (flows.Result, error) {
			return flows.Result{}, held.Settle(ctx, flows.Usage{InputTokens: 500})
		},
	})
	src := strings.Replace(three, "\nnodes:", "\nlimits: {tokens: 400}\nnodes:", 1)
	w.want(w.walk(w.begin(src)), "ended needs_human budget: a b c done")
	if got := w.called(); strings.Contains(got, "c") {
		t.Errorf("called %s, want c left out", got)
	}
}

// An action that goes on after it was refused does not make it a success.
//
// Covers: CN31.
func TestBudgetIsNeverSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_ = spend(ctx, c, 10)
		return flows.Result{Delta: flows.Delta{"s": "partial"}}, nil
	}})
	id := w.begin(withBudget("tokens: 300", ""))
	w.want(w.walk(id), "ended needs_human budget: a b done")
	if got := string(w.get(id).State); !strings.Contains(got, "partial") {
		t.Errorf("state = %s, want what was done kept", got)
	}
}

// What a visit has used comes back after a resume, a call that never settled
// in full.
//
// Covers: AR19, CN31, NX16.
func TestBudgetIsNotRefilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": spends(7), "c": sets("result", "ok")})
	id := w.begin(withBudget("tokens: 1000", ""))
	entered := make(chan string, 1)
	w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if err := spend(ctx, c, 8); err != nil {
			t.Error(err)
		}
		if _, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 100}); err != nil {
			t.Error(err)
		}
		return blocks(entered)(ctx, c)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-entered; cancel(engine.ErrShutdown) }()
	out, err := w.walkCtx(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	w.want(out, "released: a")
	w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if left := c.Meter.Left(); left.InputTokens != 100 || left.ToolCalls != -1 {
			t.Errorf("left = %+v, want 100 tokens of 1000", left)
		}
		if err := spend(ctx, c, 1); err != nil {
			t.Errorf("the last call: %v", err)
		}
		if err := spend(ctx, c, 1); !errors.Is(err, flows.ErrBudget) {
			t.Errorf("one more: %v, want ErrBudget", err)
		}
		return flows.Result{Outcome: flows.Budget}, nil
	}
	w.want(w.walk(id), "ended needs_human budget: b done")
	var tokens []int64
	for _, rec := range w.history(id) {
		tokens = append(tokens, rec.Usage.Tokens())
	}
	if diff := cmp.Diff([]int64{700, 1000, 0}, tokens); diff != "" {
		t.Errorf("tokens a node (-want +got):\n%s", diff)
	}
}

// A limit of the flow is reached by a node, and the next is not entered.
//
// Covers: AR15, AR16, AR18.
func TestFlowLimits(t *testing.T) {
	t.Parallel()
	for limit, unit := range map[string]string{"tokens: 1000": "tokens", "cost_usd: 0.1": "micro-USD", "tool_calls: 10": "tool calls"} {
		w := newWorld(t, map[string]action{"a": spends(10)})
		var events []engine.BudgetEvent
		w.hooks.OnBudget = func(_ context.Context, ev engine.BudgetEvent) { events = append(events, ev) }
		id := w.begin(strings.Replace(three, "nodes:\n", "limits: {"+limit+"}\nnodes:\n", 1))
		w.want(w.walk(id), "ended needs_human budget: a b done")
		if got := w.called(); got != "a t.last" {
			t.Errorf("%s: called %q", limit, got)
		}
		if rec := w.history(id)[1]; !strings.Contains(rec.Note, unit) || !strings.Contains(rec.Note, "not entered") {
			t.Errorf("%s: note = %q", limit, rec.Note)
		}
		if len(events) != 1 || !events[0].Exhausted || events[0].Unit != unit {
			t.Errorf("%s: events = %+v", limit, events)
		}
	}
}

// Without a result for it, a spent budget is an error that says so.
//
// Covers: AR15.
func TestFlowLimitIsTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": spends(10)})
	src := strings.Replace(strings.Replace(three, "nodes:\n", "limits: {tokens: 1000}\nnodes:\n", 1), "stop: {to: done}\n", "", 1)
	out := w.walk(w.begin(src))
	w.want(out, "ended error budget: a")
	if !errors.Is(out.Err, flows.ErrBudget) || !strings.Contains(out.Err.Error(), "tokens") {
		t.Errorf("error = %v", out.Err)
	}
}

// Limits from outside are checked in the store, with what other runs spent.
//
// Covers: NX16.
func TestOutsideLimits(t *testing.T) {
	t.Parallel()
	zero, some := int64(0), int64(450)
	for name, tc := range map[string]struct {
		limits checkpoints.Limits
		calls  int64
	}{
		"run":      {checkpoints.Limits{Run: checkpoints.Limit{Tokens: &some}}, 4},
		"issue":    {checkpoints.Limits{Issue: checkpoints.Limit{Tokens: &some}}, 4},
		"day zero": {checkpoints.Limits{Day: checkpoints.Limit{MicroUSD: &zero}}, 0},
	} {
		w := newWorld(t, map[string]action{"a": spends(10)})
		w.limits = tc.limits
		id := w.begin(three)
		w.want(w.walk(id), "ended needs_human budget: a done")
		if got := w.get(id).Spent.ToolCalls; got != tc.calls {
			t.Errorf("%s: %d calls, want %d", name, got, tc.calls)
		}
	}
}

// Many calls at once never pass a limit: each is reserved first.
//
// Covers: NX16.
func TestReserveIsAtomic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { _ = spend(ctx, c, 1) })
		}
		group.Wait()
		return flows.Result{}, nil
	}})
	id := w.begin(withBudget("tokens: 500", ""))
	w.want(w.walk(id), "ended needs_human budget: a b done")
	if got := w.get(id).Spent.Tokens(); got != 500 {
		t.Errorf("spent %d tokens, want 500", got)
	}
}

// A gate decides without a model.
//
// Covers: CN11, HF16.
func TestGateMayNotSpend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": spends(1)})
	src := strings.Replace(three, "{id: a, kind: step, uses: t.step", "{id: a, kind: gate, uses: t.step", 1)
	out := w.walk(w.begin(src))
	w.want(out, "ended needs_human budget: a done")
}

// Covers: AR18.
func TestWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": spends(9), "c": sets("result", "ok")})
	var got []engine.BudgetEvent
	w.hooks.OnBudget = func(_ context.Context, ev engine.BudgetEvent) {
		ev.Run = checkpoints.Run{}
		got = append(got, ev)
	}
	w.want(w.walk(w.begin(withBudget("tokens: 1000", ""))), "ended ok: a b c done")
	if diff := cmp.Diff([]engine.BudgetEvent{{Node: "b", Scope: "node", Unit: "tokens", Used: 800, Limit: 1000}}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Working time counts over a resume; time between the walks does not.
//
// Covers: AR17, AR19.
func TestWallOverResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	work := func(d time.Duration) action {
		return func(context.Context, flows.Call) (flows.Result, error) {
			w.clock.Advance(d)
			return flows.Result{}, nil
		}
	}
	w.script["a"] = work(9 * time.Minute)
	id := w.begin(strings.Replace(three, "nodes:\n", "limits: {wall: 10m}\nnodes:\n", 1))
	w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 1, "", nil }
	w.want(w.walk(id), "halted halted: a")
	w.clock.Advance(48 * time.Hour)
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.hooks.KillSwitch = nil
	w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		w.clock.Advance(61 * time.Second)
		<-ctx.Done()
		return flows.Result{}, ctx.Err()
	}
	w.want(w.walk(id), "ended needs_human budget: b done")
}
