package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
)

// going is how a flow went: the nodes that ran, and whether it says that all
// is well.
type going struct {
	ran string
	ok  bool
}

// goes walks a flow once.
func (w *world) goes(src string) going {
	w.t.Helper()
	out := w.walk(w.begin(src))
	return going{w.called(), out.Result != "error" && out.Result != ""}
}

// reviewed is a flow in which a may find a text rejected; what is not
// rejected is published.
const reviewed = header + `
nodes:
  - {id: a, kind: step, uses: t.step, writes: [note]}
  - {id: publish, kind: step, uses: t.effect}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done, when: "state.note == 'rejected'", set: {result: needs_human}}
  - {from: a, to: publish}
  - {from: a, to: done, on: [failed], when: "state.n > 5", set: {result: needs_human}}
  - {from: publish, to: done, set: {result: ok}}
`

// A guard that can't be evaluated is an error. The double takes it for false.
//
// Covers: AR7.
func TestWrongBrokenGuard(t *testing.T) {
	t.Parallel()
	bites(t, func(walk func() going) error {
		if got := walk(); got.ok || strings.Contains(got.ran, "publish") {
			return fmt.Errorf("a guard over nothing let it publish: %+v", got)
		}
		return nil
	}, func() going { return newWorld(t, nil).goes(reviewed) }, func() going {
		rejected := func() (bool, error) { return false, errors.New("no note") }
		if yes, err := rejected(); err == nil && yes {
			return going{"a", true}
		}
		return going{"a publish", true}
	})
}

// Without an edge that takes it an outcome is an error. The double ends well.
//
// Covers: AR8, HF12.
func TestWrongNoRoute(t *testing.T) {
	t.Parallel()
	bites(t, func(walk func() going) error {
		if got := walk(); got.ok {
			return fmt.Errorf("nowhere to go, and it says %+v", got)
		}
		return nil
	}, func() going { return newWorld(t, map[string]action{"a": fails}).goes(reviewed) }, func() going {
		next := map[string]string{} // no edge matched
		return going{"a", next["a"] == ""}
	})
}

// A position that is no node is an error. The double's loop is over then.
//
// Covers: AR9.
func TestWrongUnknownNext(t *testing.T) {
	t.Parallel()
	bites(t, func(walk func(next string) going) error {
		if got := walk("ghost"); got.ok {
			return fmt.Errorf("it stands nowhere, and says %+v", got)
		}
		return nil
	}, func(next string) going {
		w := newWorld(t, nil)
		run, lease := w.claim(w.begin(three))
		run.Next = next
		out, err := w.engine().Walk(t.Context(), run, lease)
		return going{w.called(), err == nil && out.Result != "error"}
	}, func(next string) going {
		nodes := map[string]bool{"a": true}
		for nodes[next] {
			next = ""
		}
		return going{"", true}
	})
}

// A person who says no, or nothing, is no ordinary output.
//
// Covers: AR29, VK5, NX11.
func TestWrongHumanCheckpoint(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: approval, message: "publish?", approvers: ["role:write"], expires: 1h, on_expire: exhausted}
  - {id: publish, kind: step, uses: t.effect}
  - {id: done, kind: sink}
edges:
  - {from: a, to: publish}
  - {from: a, to: done, on: [denied, exhausted], set: {result: needs_human}}
  - {from: publish, to: done, set: {result: ok}}
`
	check := func(answer func(word string) (ran string)) error {
		for word, publishes := range map[string]bool{"ok": true, "denied": false, "": false, "maybe": false} {
			if ran := answer(word); strings.Contains(ran, "publish") != publishes {
				return fmt.Errorf("the answer %q runs %q", word, ran)
			}
		}
		return nil
	}
	ours := func(word string) string {
		w := newWorld(t, nil)
		id := w.begin(src)
		if word != "" {
			w.approve(id, "comment/1", map[string]any{"by": "ann", "role": "write", "outcome": word})
		}
		if w.walk(id).How == "parked" {
			w.clock.Advance(2 * time.Hour)
			w.walk(id)
		}
		return w.called()
	}
	bites(t, check, ours, func(word string) string {
		output := map[string]any{"answer": word, "timeout": word == ""}
		if len(output) > 0 { // an output is an output: the default edge
			return "publish"
		}
		return ""
	})
}

// A gate decides without a model. The double runs whatever it is given.
//
// Covers: CN11, HF16.
func TestWrongRouterAsksModel(t *testing.T) {
	t.Parallel()
	type router func(ask func(reserve func() error) bool) (asked bool)
	check := func(route router) error {
		if route(func(reserve func() error) bool { return reserve() == nil }) {
			return errors.New("a router paid for a model's opinion")
		}
		return nil
	}
	ours := func(ask func(func() error) bool) (asked bool) {
		w := newWorld(t, map[string]action{"a": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			asked = ask(func() error {
				_, err := c.Meter.Reserve(ctx, flows.Usage{ModelCalls: 1})
				return err
			})
			return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
		}})
		w.walk(w.begin(header + "nodes:\n  - {id: a, kind: gate, uses: t.gate, writes: [result]}\n  - {id: done, kind: sink}\nedges:\n  - {from: a, to: done}\n"))
		return asked
	}
	bites(t, check, ours, func(ask func(func() error) bool) bool { return ask(func() error { return nil }) })
}

// A step sees what it declares. The double passes the whole state beside it.
//
// Covers: CN7, CN37.
func TestWrongUndeclaredInput(t *testing.T) {
	t.Parallel()
	check := func(look func(secret string) (seen string)) error {
		if seen := look("xyzzy"); strings.Contains(seen, "xyzzy") {
			return fmt.Errorf("a step that reads n sees %s", seen)
		}
		return nil
	}
	ours := func(secret string) (seen string) {
		w := newWorld(t, map[string]action{
			"a": sets("s", secret, "result", "ok"),
			"b": func(_ context.Context, c flows.Call) (flows.Result, error) {
				in, err := json.Marshal(c.In)
				seen = fmt.Sprintf("%s %s %+v %v", in, c.With, c.Run, c.In.Values())
				return flows.Result{}, err
			},
		})
		w.walk(w.begin(strings.ReplaceAll(three, "in: [n, s]", "in: [n]")))
		return seen
	}
	bites(t, check, ours, func(secret string) string {
		state := map[string]any{"n": 0, "s": secret}
		return fmt.Sprint(map[string]any{"inputs": state["n"], "context": state})
	})
}

// What can't be stored as it is fails the node. The double stores a text.
//
// Covers: HF10.
func TestWrongRecord(t *testing.T) {
	t.Parallel()
	check := func(store func(v any) (raw, error)) error {
		for _, v := range []any{func() {}, make(chan int), math.Inf(1), "\xff", struct{ F func() }{}, []any{"a"}} {
			stored, err := store(v)
			if err != nil {
				continue
			}
			var back any
			if json.Unmarshal(stored, &back); fmt.Sprint(back) != fmt.Sprint(v) || fmt.Sprintf("%T", back) != fmt.Sprintf("%T", v) {
				return fmt.Errorf("%T was stored as %s", v, stored)
			}
		}
		return nil
	}
	ours := func(v any) (raw, error) {
		w := newWorld(t, map[string]action{"a": sets("note", v)})
		out := w.walk(w.begin(three))
		state, err := flows.DecodeState(out.Run.State)
		return state.Raw("note"), errors.Join(err, out.Err)
	}
	bites(t, check, ours, func(v any) (raw, error) {
		if stored, err := json.Marshal(v); err == nil {
			return stored, nil
		}
		return json.Marshal(fmt.Sprint(v))
	})
}
