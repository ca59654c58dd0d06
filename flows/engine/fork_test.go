package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// stoppedRun is a run of three that b has stopped.
func stoppedRun(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t, map[string]action{"a": counts, "b": func(context.Context, flows.Call) (flows.Result, error) {
		return flows.Result{Delta: flows.Delta{"result": "needs_human", "note": "gap"}, Stop: &flows.Stop{Code: "gap", Reason: "nothing to build"}}, nil
	}})
	id := w.begin(three)
	w.want(w.walk(id), "ended needs_human gap: a b done")
	return w, id
}

func (w *world) fork(id, node string, edits map[string]json.RawMessage) string {
	w.t.Helper()
	req, err := w.engine().Fork(w.t.Context(), w.get(id), node, edits)
	if err != nil {
		w.t.Fatal(err)
	}
	run, err := w.memory.Start(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return run.ID
}

// A fork begins at a node with the state it had then, edited; what was before
// does not run, and the source stays as it was.
//
// Covers: NX1, HF7, VK35.
func TestFork(t *testing.T) {
	t.Parallel()
	w, id := stoppedRun(t)
	w.final(id)
	before := []any{w.get(id), w.history(id)}
	w.calls = nil
	w.script["b"], w.script["c"] = counts, sets("result", "ok")
	forked := w.fork(id, "b", map[string]json.RawMessage{"s": raw(`"edited"`)})
	run := w.get(forked)
	if run.Forked != id || run.ForkedAt != "b" || run.Next != "b" || string(run.State) != `{"n":1,"result":"none","s":"edited","tags":[]}` || run.DefinitionHash != w.get(id).DefinitionHash {
		t.Errorf("fork = %+v, state %s", run, run.State)
	}
	w.want(w.walk(forked), "ended ok: b c done")
	if w.called() != "b c t.last" {
		t.Errorf("called %q", w.called())
	}
	if diff := cmp.Diff(before, []any{w.get(id), w.history(id)}); diff != "" {
		t.Errorf("the source has changed (-before +after):\n%s", diff)
	}
	// A fork can be forked.
	w.final(forked)
	w.calls = nil
	w.want(w.walk(w.fork(forked, "c", nil)), "ended ok: c done")
}

// The state is that of the last entry, or of now where the run stands.
//
// Covers: NX1.
func TestForkState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts})
	src := strings.NewReplacer("KIND", "step", "MAX", "5").Replace(looping)
	w.script["check"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		if c.Visit == 3 {
			return flows.Result{}, errors.New("boom")
		}
		return flows.Result{}, nil
	}
	id := w.begin(src)
	w.want(w.walk(id), "ended error failed: a check again a check again a")
	for node, want := range map[string]string{"a": `"n":2`, "check": `"n":3`, "again": `"n":2`} {
		req, err := w.engine().Fork(t.Context(), w.get(id), node, nil)
		if err != nil || !strings.Contains(string(req.State), want) {
			t.Errorf("%s: state %s, want %s in it; %v", node, req.State, want, err)
		}
	}
}

// Covers: NX1, NX6, CN27.
func TestForkRefuses(t *testing.T) {
	t.Parallel()
	w, id := stoppedRun(t)
	good := w.get(id)
	spoilt := func(fn func(*checkpoints.Run)) checkpoints.Run {
		run := good
		fn(&run)
		return run
	}
	fan := fannedWorld(t)
	fanID := fan.begin(fanned)
	fan.want(fan.walk(fanID), "ended ok: a fan m done")
	for name, tc := range map[string]struct {
		w     *world
		run   checkpoints.Run
		node  string
		edits map[string]json.RawMessage
		want  error
	}{
		"no such node":   {w, good, "ghost", nil, engine.ErrFork},
		"never entered":  {w, good, "c", nil, engine.ErrFork},
		"the sink":       {w, good, "done", nil, engine.ErrFork},
		"a branch":       {fan, fan.get(fanID), "x", nil, engine.ErrFork},
		"a merge":        {fan, fan.get(fanID), "m", nil, engine.ErrFork},
		"no such field":  {w, good, "b", map[string]json.RawMessage{"ghost": raw(`1`)}, flows.ErrInvalidState},
		"wrong type":     {w, good, "b", map[string]json.RawMessage{"n": raw(`"x"`)}, flows.ErrInvalidState},
		"taken away":     {w, good, "b", map[string]json.RawMessage{"n": raw(`null`)}, flows.ErrInvalidState},
		"no first state": {w, spoilt(func(r *checkpoints.Run) { r.Initial = nil }), "b", nil, engine.ErrFork},
		"tampered":       {w, spoilt(func(r *checkpoints.Run) { r.Initial = raw(`{"n":7}`) }), "b", nil, flows.ErrCorrupt},
		"definition":     {w, spoilt(func(r *checkpoints.Run) { r.Definition = []byte("x") }), "b", nil, flows.ErrCorrupt},
	} {
		_, err := tc.w.engine().Fork(t.Context(), tc.run, tc.node, tc.edits)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	// From a fanout on, all of it runs again.
	fan.final(fanID)
	fan.calls = nil
	fan.want(fan.walk(fan.fork(fanID, "fan", nil)), "ended ok: fan m done")
	if got := len(strings.Fields(fan.called())); got != 4 {
		t.Errorf("called %q", fan.called())
	}
}

// A run whose actions have changed is forked to go on with those of now.
//
// Covers: NX6, VK24.
func TestForkAfterDrift(t *testing.T) {
	t.Parallel()
	w, id := halfway(t)
	w.register("2")
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "halted drift:")
	if err := w.memory.Cancel(t.Context(), id, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: "forked"}); err != nil {
		t.Fatal(err)
	}
	w.final(id)
	w.calls = nil
	w.want(w.walk(w.fork(id, "b", nil)), "ended ok: b c done")
}
