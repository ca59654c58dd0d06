package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// caching asks the same in a loop: look sees only s.
const caching = header + `
nodes:
  - {id: a, kind: step, uses: t.step, in: [n, s], writes: [n, s]}
  - {id: look, kind: step, uses: t.read, in: [s], writes: [note], with: {aim: "of {{state.s}}"}, cache: run}
  - {id: again, kind: loop, back_to: a, max: 3}
  - {id: done, kind: sink}
edges:
  - {from: a, to: look}
  - {from: look, to: again}
  - {from: look, to: again, on: [failed, denied]}
  - {from: again, to: a}
  - {from: again, to: done, on: [exhausted], set: {result: ok}}
`

// An unchanged node is paid for once a run, over restarts too; what it saw or
// was told differently it is asked again.
//
// Covers: NX15.
func TestCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{})
	w.script["a"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		d := flows.Delta{"n": c.In.Int("n") + 1}
		if c.Visit == 4 {
			d["s"] = "other"
		}
		return flows.Result{Delta: d}, nil
	}
	asked := 0
	w.script["look"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		asked++
		return flows.Result{Delta: flows.Delta{"note": "seen hunter2" + c.In.Str("s")}, Note: "looked"}, spend(ctx, c, 2)
	}
	w.scrub = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	id := w.begin(caching)
	eng := w.engine()
	w.hooks.OnNode = func(_ context.Context, ev engine.NodeEvent) {
		if ev.Node == "again" && ev.Stage == engine.End {
			eng.Drain() // a process a turn
		}
	}
	for turn := range 3 {
		run, lease := w.claim(id)
		eng = w.engine()
		out, err := eng.Walk(t.Context(), run, lease)
		if err != nil || out.How != engine.Released {
			t.Fatalf("turn %d: %+v, %v", turn, out, err)
		}
	}
	w.hooks.OnNode = nil
	w.want(w.walk(id), "ended ok: a look again done")
	var got []string
	var hashes []string
	for _, rec := range w.history(id) {
		if rec.Node == "look" {
			got = append(got, strings.TrimSpace(rec.Note+" "+string(rec.Delta)))
			hashes = append(hashes, rec.InputHash)
			if paid := rec.Usage.Tokens() > 0; paid != !strings.HasPrefix(rec.Note, "cached") {
				t.Errorf("record = %+v", rec)
			}
		}
	}
	if asked != 2 || strings.Join(got, "\n") != `looked {"note":"seen ***"}
cached: as in visit 1: looked
cached: as in visit 1: looked
looked {"note":"seen ***other"}` {
		t.Errorf("asked %d times:\n%s", asked, strings.Join(got, "\n"))
	}
	if hashes[0] == "" || hashes[0] != hashes[1] || hashes[0] == hashes[3] {
		t.Errorf("hashes = %v", hashes)
	}
	kept, err := w.memory.Effect(t.Context(), "run/"+id+"/look/.cache/"+hashes[0])
	if err != nil || strings.Contains(string(kept), "hunter2") {
		t.Errorf("kept %s, %v", kept, err)
	}
}

// A failure is no answer: it is tried again. What the action decided is one.
//
// Covers: NX15.
func TestCacheKeepsNoFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		res   flows.Result
		err   error
		calls int
	}{
		"error":  {flows.Result{}, errors.New("boom"), 4},
		"failed": {flows.Result{Outcome: flows.Failed}, nil, 4},
		"bad":    {flows.Result{Delta: flows.Delta{"note": 1}}, nil, 4},
		"denied": {flows.Result{Outcome: flows.Denied}, nil, 1},
		"ok":     {flows.Result{}, nil, 1},
	} {
		calls := 0
		w := newWorld(t, map[string]action{"a": counts, "look": func(context.Context, flows.Call) (flows.Result, error) {
			calls++
			return tc.res, tc.err
		}})
		id := w.begin(caching)
		w.walk(id)
		if calls != tc.calls || w.get(id).Result != "ok" {
			t.Errorf("%s: %d calls, want %d; run %s %s", name, calls, tc.calls, w.get(id).Result, w.get(id).Reason)
		}
	}
}

// Branches are cached like other nodes, and what is used again is merged.
//
// Covers: NX15.
func TestCacheOfBranches(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: fan, kind: fanout, branches: [x, y], join: m}
  - {id: x, kind: step, uses: t.read, in: [s], writes: [note], cache: run}
  - {id: y, kind: step, uses: t.read, in: [s], writes: [n]}
  - {id: m, kind: merge, of: [x, y]}
  - {id: again, kind: loop, back_to: fan, max: 2}
  - {id: done, kind: sink}
edges:
  - {from: fan, to: m}
  - {from: m, to: again}
  - {from: again, to: fan}
  - {from: again, to: done, on: [exhausted], set: {result: ok}}
`
	x, y := 0, 0
	w := newWorld(t, map[string]action{})
	w.script["x"] = func(context.Context, flows.Call) (flows.Result, error) {
		x++
		return flows.Result{Delta: flows.Delta{"note": "x"}}, nil
	}
	w.script["y"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		y++
		return flows.Result{Delta: flows.Delta{"n": c.Visit}}, nil
	}
	id := w.begin(strings.Replace(src, "entry: a", "entry: fan", 1))
	w.want(w.walk(id), "ended ok: fan m again fan m again fan m again done")
	if x != 1 || y != 3 || !strings.Contains(string(w.get(id).State), `"n":3,"note":"x"`) {
		t.Errorf("x ran %d times, y %d, state %s", x, y, w.get(id).State)
	}
}
