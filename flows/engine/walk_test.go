package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// A node sees what the one before it returned, a commit a node, and the sink
// ends the run with its result.
//
// Covers: HF1, HF6, HF8, HF22, CN9, CN34.
func TestLinear(t *testing.T) {
	t.Parallel()
	seen := 0
	w := newWorld(t, map[string]action{
		"a": counts, "b": counts,
		"c": func(_ context.Context, c flows.Call) (flows.Result, error) {
			seen = c.In.Int("n")
			return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
		},
	})
	id := w.begin(three)
	out := w.walk(id)
	w.want(out, "ended ok: a b c done")
	if seen != 2 {
		t.Errorf("c saw n = %d, want 2", seen)
	}
	run := w.get(id)
	if diff := cmp.Diff(run.State, out.Run.State); diff != "" {
		t.Errorf("outcome's state is not the stored one:\n%s", diff)
	}
	if run.Status != checkpoints.Ending || run.Result != "ok" || run.Seq != 4 || run.Next != "" {
		t.Errorf("run = %+v", run)
	}
	var deltas []string
	for _, rec := range w.history(id) {
		deltas = append(deltas, rec.Node+" "+string(rec.Delta)+" "+rec.Next)
	}
	if diff := cmp.Diff([]string{`a {"n":1} b`, `b {"n":2} c`, `c {"result":"ok"} done`, "done  "}, deltas); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// Covers: HF3, HF4, AR4, AR5, NX17.
func TestFirstMatchWins(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: gate, uses: t.gate, writes: [n, result]}
  - {id: b, kind: gate, uses: t.gate}
  - {id: c, kind: gate, uses: t.gate}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done, when: "state.n > 5"}
  - {from: a, to: X, when: "state.n > 0"}
  - {from: a, to: Y, when: "state.n > 1"}
  - {from: a, to: done}
  - {from: b, to: done}
  - {from: c, to: done}
`
	for _, order := range []string{"b c", "c b"} {
		w := newWorld(t, map[string]action{"a": sets("n", 3, "result", "ok")})
		x, y, _ := strings.Cut(order, " ")
		id := w.begin(strings.NewReplacer("X", x, "Y", y).Replace(src))
		w.want(w.walk(id), "ended ok: a "+x+" done")
		want := []checkpoints.Guard{{To: "done", When: "state.n > 5"}, {To: x, When: "state.n > 0", Taken: true}}
		if diff := cmp.Diff(want, w.history(id)[0].Guards); diff != "" {
			t.Errorf("guards of a (-want +got):\n%s", diff)
		}
	}
}

// looping goes round by its loop until n is 3.
const looping = header + `
limits: {max_steps: 50}
nodes:
  - {id: a, kind: KIND, uses: t.step, in: [n], writes: [n, result]}
  - {id: check, kind: gate, uses: t.gate}
  - {id: again, kind: loop, back_to: a, max: MAX}
  - {id: done, kind: sink}
edges:
  - {from: a, to: check}
  - {from: check, to: again, when: "state.n < 3 && visits(a) < 10"}
  - {from: check, to: done}
  - {from: again, to: a}
  - {from: again, to: done, on: [exhausted], set: {result: needs_human}}
`

// Covers: HF2, HF5, HF21, CN12.
func TestLoop(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"step", "gate"} {
		w := newWorld(t, map[string]action{"a": func(_ context.Context, c flows.Call) (flows.Result, error) {
			return flows.Result{Delta: flows.Delta{"n": c.In.Int("n") + 1, "result": "ok"}}, nil
		}})
		src := strings.NewReplacer("KIND", kind, "MAX", "5").Replace(looping)
		w.want(w.walk(w.begin(src)), "ended ok: a check again a check again a check done")
	}
}

// Covers: HF5, BL14.
func TestLoopExhausted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil) // n stays 0
	src := strings.NewReplacer("KIND", "step", "MAX", "2").Replace(looping)
	id := w.begin(src)
	w.want(w.walk(id), "ended needs_human: a check again a check again a check again done")
	h := w.history(id)
	if last := h[len(h)-2]; last.Outcome != "exhausted" || last.Visit != 3 {
		t.Errorf("last loop = %+v", last)
	}
}

// Covers: HF15, CN40.
func TestMaxSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	src := strings.NewReplacer("KIND", "step", "MAX", "99", "max_steps: 50", "max_steps: 5").Replace(looping)
	out := w.walk(w.begin(src))
	w.want(out, "ended error max-steps: a check again a check")
	if !errors.Is(out.Err, engine.ErrMaxSteps) {
		t.Errorf("error = %v", out.Err)
	}
}

// A failing node is not checkpointed, its error reaches the caller, and the
// run never reports success.
//
// Covers: HF11, HF29, VK23, VK25, AR8.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for code, fail := range map[string]action{
		"failed": func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, boom },
		"panic":  func(context.Context, flows.Call) (flows.Result, error) { panic("at the disco") },
	} {
		w := newWorld(t, map[string]action{"a": counts, "b": fail})
		id := w.begin(three)
		out := w.walk(id)
		w.want(out, "ended error "+code+": a")
		if code == "failed" && !errors.Is(out.Err, boom) {
			t.Errorf("error = %v, want boom", out.Err)
		}
		var p *engine.PanicError
		if code == "panic" && !errors.As(out.Err, &p) {
			t.Errorf("error = %v, want a PanicError", out.Err)
		}
		run := w.get(id)
		if run.Seq != 1 || run.Node != "a" || run.Next != "b" || run.Result != "error" || run.Reason == "" {
			t.Errorf("run = %+v", run)
		}
		if got := w.called(); got != "a b t.last" {
			t.Errorf("called %q", got)
		}
	}
}

// Covers: NX7, AR23, CN32.
func TestCatchEdge(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: step, uses: t.step, writes: [n]}
  - {id: b, kind: step, uses: t.step, in: [n], writes: [n, result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done}
  - {from: a, to: b, on: [failed, denied], set: {s: caught}}
  - {from: b, to: done}
`
	for name, fail := range map[string]action{
		"failed": func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") },
		"denied": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Outcome: flows.Denied, Delta: flows.Delta{"n": 4}}, nil
		},
	} {
		w := newWorld(t, map[string]action{"a": fail, "b": sets("result", "ok")})
		id := w.begin(src)
		w.want(w.walk(id), "ended ok: a b done")
		if got := w.history(id)[0].Outcome; got != name {
			t.Errorf("outcome = %s, want %s", got, name)
		}
		if got := string(w.get(id).State); !strings.Contains(got, `"s":"caught"`) {
			t.Errorf("state = %s, want what the edge sets", got)
		}
	}
}

// Covers: HF12, AR7.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: gate, uses: t.gate, writes: [note]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done, when: "GUARD"}
  - {from: a, to: done, on: [denied], when: "state.n > 5"}
  - {from: a, to: done, set: {result: ok}}
`
	w := newWorld(t, map[string]action{"a": func(context.Context, flows.Call) (flows.Result, error) {
		return flows.Result{Outcome: flows.Denied}, nil
	}})
	out := w.walk(w.begin(strings.Replace(src, "GUARD", "state.n > 7", 1)))
	w.want(out, "ended error no-route:")
	if !errors.Is(out.Err, flows.ErrNoRoute) || !strings.Contains(out.Err.Error(), "node a") {
		t.Errorf("error = %v, want ErrNoRoute naming a", out.Err)
	}
	// The loader believes that a writes note; it does not, and the guard that
	// reads it is an error, not false.
	w = newWorld(t, nil)
	out = w.walk(w.begin(strings.Replace(src, "GUARD", "state.note == 'x'", 1)))
	w.want(out, "ended error guard:")
	if !errors.Is(out.Err, flows.ErrNoRoute) || !strings.Contains(out.Err.Error(), "note is not set") {
		t.Errorf("error = %v", out.Err)
	}
}

// Covers: HF18, HF20.
func TestStop(t *testing.T) {
	t.Parallel()
	stop := func(delta flows.Delta) action {
		return func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Delta: delta, Stop: &flows.Stop{Code: "gap", Reason: "nothing to build"}}, nil
		}
	}
	w := newWorld(t, map[string]action{"a": counts, "b": stop(flows.Delta{"result": "needs_human"})})
	id := w.begin(three)
	out := w.walk(id)
	w.want(out, "ended needs_human gap: a b done")
	run := w.get(id)
	if run.Reason != "nothing to build" || strings.Contains(string(run.State), "_stop") {
		t.Errorf("run = %+v, state %s", run, run.State)
	}
	w = newWorld(t, map[string]action{"b": stop(nil)})
	out = w.walk(w.begin(three))
	w.want(out, "ended error no-result: a")
	if strings.Contains(fmt.Sprint(out.Err), "the sink") && !strings.Contains(out.Err.Error(), "by the edge {from: ") {
		t.Errorf("the error names no edge: %v", out.Err)
	}
	if !errors.Is(out.Err, engine.ErrNoResult) {
		t.Errorf("error = %v", out.Err)
	}
}

// The sink refuses a run without a result.
//
// Covers: HF18.
func TestSinkNeedsResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.want(w.walk(w.begin(three)), "ended error no-result: a b c")
}

// Covers: CN3, CN4, CN7, CN33.
func TestInvalidState(t *testing.T) {
	t.Parallel()
	for name, delta := range map[string]flows.Delta{
		"type":        {"n": "three"},
		"undeclared":  {"ghost": 1},
		"not written": {"result": "ok"},
		"size":        {"note": strings.Repeat("x", 1<<20)},
		"not JSON":    {"n": func() {}},
		"fraction":    {"n": 1.5},
		"enum":        {"s": 1},
		"utf8":        {"note": "a\xff"},
		"artifact":    {"ref": map[string]any{"path": "x"}},
		"list":        {"tags": []int{1}},
	} {
		w := newWorld(t, map[string]action{"a": counts, "b": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Delta: delta}, nil
		}})
		id := w.begin(strings.Replace(three, "{id: b, kind: step, uses: t.step, in: [n, s], writes: [n, s, note, tags, ref, result]}",
			"{id: b, kind: step, uses: t.step, in: [s], writes: [n, s, note, tags, ref]}", 1))
		out := w.walk(id)
		w.want(out, "ended error invalid-state: a")
		if !errors.Is(out.Err, flows.ErrInvalidState) {
			t.Errorf("%s: error = %v", name, out.Err)
		}
		if got := w.get(id); got.Seq != 1 || !strings.Contains(string(got.State), `"n":1`) {
			t.Errorf("%s: the old state is not kept: %s", name, got.State)
		}
	}
}

// A node sees only what it declares.
//
// Covers: CN7, CN37.
func TestInIsNarrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": func(_ context.Context, c flows.Call) (flows.Result, error) {
		if diff := cmp.Diff([]string{"n", "s"}, c.In.Keys()); diff != "" {
			t.Errorf("in (-want +got):\n%s", diff)
		}
		return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
	}})
	w.want(w.walk(w.begin(three)), "ended ok: a b c done")
}

// Covers: HF10.
func TestScrub(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{
		"a": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Delta: flows.Delta{"note": "it is hunter2", "tags": []string{"hunter2"}}, Note: "used hunter2"}, nil
		},
		"b": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{}, errors.New("bad hunter2")
		},
	})
	w.scrub = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	id := w.begin(three)
	w.want(w.walk(id), "ended error failed: a")
	run, h := w.get(id), w.history(id)
	all := string(run.State) + run.Reason + string(h[0].Delta) + h[0].Note
	if strings.Contains(all, "hunter2") || strings.Count(all, "***") != 6 {
		t.Errorf("stored: %s", all)
	}
}
