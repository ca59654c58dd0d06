package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows"
)

// buys is a script that makes calls of a size until one is refused.
func buys(size int64, calls int, spent *int64) action {
	return func(ctx context.Context, c flows.Call) (flows.Result, error) {
		for range calls {
			held, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: size})
			if err != nil {
				return flows.Result{}, err
			}
			*spent += size
			if err := held.Settle(ctx, flows.Usage{InputTokens: size}); err != nil {
				return flows.Result{}, err
			}
		}
		return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
	}
}

// frugal has a node with a budget, and a cheaper way when it is used up.
const frugal = header + `
nodes:
  - {id: a, kind: step, uses: t.step, writes: [result], budget: {tokens: 250}}
  - {id: small, kind: step, uses: t.step}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done}
  - {from: a, to: small, on: [budget-exhausted], set: {result: needs_human}}
  - {from: small, to: done}
`

// A limit holds within one visit. The double looks before each visit only.
//
// Covers: CN31, NX16.
func TestWrongLimitWithinACall(t *testing.T) {
	t.Parallel()
	check := func(run func(size int64, calls int) (spent int64, outcome string)) error {
		if spent, outcome := run(100, 10); spent > 250 || outcome != "budget-exhausted" {
			return fmt.Errorf("of 250 it spent %d, outcome %s", spent, outcome)
		}
		return nil
	}
	ours := func(size int64, calls int) (spent int64, outcome string) {
		w := newWorld(t, map[string]action{})
		w.script["a"] = buys(size, calls, &spent)
		id := w.begin(frugal)
		w.walk(id)
		return spent, w.history(id)[0].Outcome
	}
	bites(t, check, ours, func(size int64, calls int) (spent int64, outcome string) {
		if spent >= 250 {
			return spent, "budget-exhausted"
		}
		for range calls {
			spent += size
		}
		return spent, "ok"
	})
}

// A used-up budget can be an edge. The double ends the run for it.
//
// Covers: CN32.
func TestWrongTerminalBudget(t *testing.T) {
	t.Parallel()
	bites(t, func(walk func() going) error {
		if got := walk(); got.ran != "a small" || !got.ok {
			return fmt.Errorf("the edge was not taken: %+v", got)
		}
		return nil
	}, func() going {
		var spent int64
		w := newWorld(t, map[string]action{})
		w.script["a"] = buys(300, 1, &spent)
		return w.goes(frugal)
	}, func() going {
		if exhausted := true; exhausted {
			return going{"a", false}
		}
		return going{"a small", true}
	})
}

// A resume refills nothing. The double's counters begin at zero.
//
// Covers: AR19.
func TestWrongRefill(t *testing.T) {
	t.Parallel()
	const src = header + `
limits: {tokens: 100}
nodes:
  - {id: a, kind: step, uses: t.step, writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done}
`
	// buy spends 90 of 100, dies, and wants 20 more.
	check := func(buy func(first, second int64) (allowed bool)) error {
		if buy(90, 20) {
			return errors.New("after the resume 110 of 100 were spent")
		}
		if !buy(60, 20) {
			return errors.New("after the resume nothing was left of 40")
		}
		return nil
	}
	ours := func(first, second int64) bool {
		var spent int64
		w := newWorld(t, map[string]action{})
		w.script["a"] = buys(first, 1, &spent)
		id := w.begin(src)
		f := storetest.NewFaulty(w.memory)
		f.CrashAt(3, storetest.Before) // reserved, settled, not committed
		w.store = f
		if _, err := w.walkCtx(t.Context(), id); !errors.Is(err, storetest.ErrCrashed) || spent != first {
			t.Fatalf("spent %d, %v", spent, err)
		}
		w.store, w.script["a"] = w.memory, buys(second, 1, &spent)
		w.drive(id)
		return spent == first+second
	}
	bites(t, check, ours, func(first, second int64) bool {
		type engine struct{ used, limit int64 }
		e := engine{first, 100}
		e = engine{0, e.limit} // another process
		return e.used+second <= e.limit
	})
}

// Use that nobody reported counts as reserved. The double guesses it from the
// text.
//
// Covers: AR20, NX16.
func TestWrongGuess(t *testing.T) {
	t.Parallel()
	check := func(count func(text string, reserved int64) (counted int64)) error {
		if got := count("a short prompt", 4000); got != 4000 {
			return fmt.Errorf("of a call for which 4000 were reserved %d count", got)
		}
		return nil
	}
	ours := func(_ string, reserved int64) int64 {
		w := newWorld(t, map[string]action{"a": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			_, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: reserved}) // and never settles
			return flows.Result{Delta: flows.Delta{"result": "ok"}}, err
		}})
		id := w.begin(three)
		w.walk(id)
		return w.get(id).Spent.Tokens()
	}
	bites(t, check, ours, func(text string, _ int64) int64 { return int64(len(text)) / 4 })
}
