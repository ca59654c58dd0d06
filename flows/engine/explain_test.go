package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// explained is the nodes that did not run, and why.
func (w *world) explained(src, id string) []string {
	w.t.Helper()
	rows, err := w.memory.Branches(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range engine.Explain(w.load(src), w.history(id), rows...) {
		if e.Visits == 0 {
			out = append(out, e.Node+": "+strings.Join(e.Why, "; "))
		} else if len(e.Why) > 0 {
			w.t.Errorf("%s ran and is explained: %q", e.Node, e.Why)
		}
	}
	return out
}

// Every node that did not run is explained by what the records say of each
// way to it.
//
// Covers: NX14, NX17, VK17.
func TestExplain(t *testing.T) {
	t.Parallel()
	const src = header + `
stop: {to: done}
nodes:
  - {id: a, kind: step, uses: t.step, writes: [n, result]}
  - {id: low, kind: step, uses: t.step}
  - {id: mid, kind: step, uses: t.step}
  - {id: rescue, kind: step, uses: t.step}
  - {id: last, kind: step, uses: t.step}
  - {id: done, kind: sink}
edges:
  - {from: a, to: low, when: "state.n < 1"}
  - {from: a, to: mid, when: "state.n < 5"}
  - {from: a, to: last}
  - {from: a, to: rescue, on: [failed]}
  - {from: low, to: last}
  - {from: mid, to: last}
  - {from: rescue, to: last}
  - {from: last, to: done, set: {result: ok}}
`
	w := newWorld(t, map[string]action{"a": sets("n", 3)})
	id := w.begin(src)
	w.want(w.walk(id), "ended ok: a mid last done")
	if diff := cmp.Diff([]string{
		`low: the guard "state.n < 1" did not hold after a`,
		`rescue: a ended with ok, the edge takes failed`,
	}, w.explained(src, id)); diff != "" {
		t.Errorf("ok (-want +got):\n%s", diff)
	}
	w = newWorld(t, map[string]action{"a": func(context.Context, flows.Call) (flows.Result, error) {
		return flows.Result{Delta: flows.Delta{"result": "needs_human"}, Stop: &flows.Stop{Code: "gap", Reason: "nothing to build"}}, nil
	}})
	id = w.begin(src)
	w.want(w.walk(id), "ended needs_human gap: a done")
	stopped := "a stopped the flow: nothing to build"
	if diff := cmp.Diff([]string{
		"low: " + stopped, "mid: " + stopped, "rescue: " + stopped,
		"last: " + stopped + "; low, from which an edge leads here, did not run; mid, from which an edge leads here, did not run; rescue, from which an edge leads here, did not run",
	}, w.explained(src, id)); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	w = newWorld(t, map[string]action{"mid": func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") }})
	w.script["a"] = sets("n", 3)
	id = w.begin(src)
	w.want(w.walk(id), "ended error failed: a")
	if diff := cmp.Diff([]string{
		`low: the guard "state.n < 1" did not hold after a`,
		"mid: the run stands before it",
		"rescue: a ended with ok, the edge takes failed",
		"last: a went to mid, whose edge stands before; low, from which an edge leads here, did not run; mid, from which an edge leads here, did not run; rescue, from which an edge leads here, did not run",
		"done: last, from which an edge leads here, did not run; no node stopped the flow",
	}, w.explained(src, id)); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
}

// Branches and merges are explained by their fanout.
//
// Covers: NX14, VK17, VK18.
func TestExplainFanout(t *testing.T) {
	t.Parallel()
	w := fannedWorld(t)
	entered := make(chan string, 1)
	w.script["y"] = hangs(entered)
	w.script["x"] = func(context.Context, flows.Call) (flows.Result, error) {
		<-entered
		return flows.Result{}, errors.New("boom")
	}
	id := w.begin(fanned)
	w.want(w.walk(id), "ended needs_human: a fan done")
	if diff := cmp.Diff([]string{
		"y: branch of fan: cancelled, since branch x failed",
		"z: branch of fan: cancelled, since branch x failed",
		"m: fan, which it joins, ended with failed (branch x: failed: boom)",
	}, w.explained(fanned, id)); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	w = fannedWorld(t)
	w.script["a"] = func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") }
	id = w.begin(fanned)
	w.want(w.walk(id), "ended error failed:")
	got := fmt.Sprint(w.explained(fanned, id))
	for _, want := range []string{"a: the run stands before it", "x: fan, whose branch it is, did not run", "m: fan, which it joins, did not run"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %q", got, want)
		}
	}
}
