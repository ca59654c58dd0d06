package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// rich has a loop, a wait that is resolved before, money, effects and
// retries.
const rich = header + `
stop: {to: done}
nodes:
  - {id: a, kind: step, uses: t.step, in: [n], writes: [n], budget: {tokens: 1000}}
  - {id: fx, kind: step, uses: t.effect, in: [n], writes: [tags]}
  - {id: again, kind: loop, back_to: a, max: 2}
  - {id: w, kind: wait, event: approval, expires: 1h, take: {s: by}}
  - {id: c, kind: gate, uses: t.gate, in: [n], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: fx}
  - {from: fx, to: again, when: "state.n < 3"}
  - {from: fx, to: w}
  - {from: again, to: a}
  - {from: again, to: w, on: [exhausted]}
  - {from: w, to: c}
  - {from: w, to: done, on: [timeout], set: {result: needs_human}}
  - {from: c, to: done}
finally: [t.last]
`

// richWorld counts effects in the world by key.
func richWorld(t testing.TB) (*world, map[string]int) {
	outside := map[string]int{}
	var mu sync.Mutex
	w := newWorld(t, nil)
	w.script = map[string]action{
		"a": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			held, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 100})
			if err != nil {
				return flows.Result{}, err
			}
			if err := held.Settle(ctx, flows.Usage{InputTokens: 60}); err != nil {
				return flows.Result{}, err
			}
			return counts(ctx, c)
		},
		"fx": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			key := c.Key
			v, err := c.Effects.Once(ctx, "comment",
				func(context.Context) (raw, bool, error) {
					mu.Lock()
					defer mu.Unlock()
					return raw(`"` + key + `"`), outside[key] > 0, nil
				},
				func(context.Context) (raw, error) {
					mu.Lock()
					defer mu.Unlock()
					outside[key]++
					return raw(`"` + key + `"`), nil
				})
			if err != nil {
				return flows.Result{}, err
			}
			var tag string
			if err := json.Unmarshal(v, &tag); err != nil {
				return flows.Result{}, err
			}
			return flows.Result{Delta: flows.Delta{"tags": []string{strings.TrimPrefix(tag, "run/"+c.Run.ID)}}}, nil
		},
		"c": sets("result", "ok"),
	}
	return w, outside
}

func (w *world) approve(id, key string, data map[string]any) {
	w.t.Helper()
	body, err := json.Marshal(data)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.memory.Deliver(w.t.Context(), id, checkpoints.Event{Key: key, Kind: "approval", Data: body}); err != nil {
		w.t.Fatal(err)
	}
}

// drive walks a run to its end over all crashes: a run that is nobody's, or
// whose lease was lost in a crash, is claimed again.
func (w *world) drive(id string) checkpoints.Run {
	w.t.Helper()
	for range 50 {
		run := w.get(id)
		if run.Status == checkpoints.Ending {
			return run
		}
		if run.Owner != "" {
			w.clock.Advance(2 * time.Hour) // the lease of the crashed process runs out
		}
		_, _ = w.walkCtx(w.t.Context(), id)
		w.store = w.memory // the fault strikes once
	}
	w.t.Fatal("the run does not end")
	return checkpoints.Run{}
}

// Whatever write the process dies at, before or after it, the resumed run
// ends in the same state by the same path, completes each node once and
// writes each effect once.
//
// Covers: CN20, CN28, VK21, VK22, AR11, AR13, NX4, BL7.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	play := func(plan func(*storetest.Faulty)) (path []string, state string, writes int) {
		w, outside := richWorld(t)
		id := w.begin(rich)
		w.approve(id, "comment/1", map[string]any{"by": "ann"})
		f := storetest.NewFaulty(w.memory)
		plan(f)
		w.store = f
		run := w.drive(id)
		for key, n := range outside {
			if n != 1 {
				t.Errorf("effect %s was done %d times", key, n)
			}
		}
		for _, rec := range w.history(id) {
			path = append(path, fmt.Sprintf("%s/%d %s %s", rec.Node, rec.Visit, rec.Outcome, rec.Delta))
		}
		return path, string(run.State), f.Writes()
	}
	path, state, writes := play(func(*storetest.Faulty) {})
	if writes < 15 || !strings.Contains(state, `"s":"ann"`) {
		t.Fatalf("%d writes, state %s, path %v", writes, state, path)
	}
	for n := 1; n <= writes; n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			for name, plan := range map[string]func(*storetest.Faulty){
				"crash": func(f *storetest.Faulty) { f.CrashAt(n, when) },
				"fault": func(f *storetest.Faulty) { f.FailAt(n, when) },
			} {
				gotPath, gotState, _ := play(plan)
				if diff := cmp.Diff(path, gotPath); diff != "" {
					t.Errorf("%s at write %d, %v: path (-want +got):\n%s", name, n, when, diff)
				}
				if diff := cmp.Diff(state, gotState); diff != "" {
					t.Errorf("%s at write %d, %v: state (-want +got):\n%s", name, n, when, diff)
				}
			}
		}
	}
}

// A store error stops the walk at once and is returned.
//
// Covers: VK21, AR11, HF29.
func TestStoreErrorStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts})
	id := w.begin(three)
	f := storetest.NewFaulty(w.memory)
	f.FailAt(1, storetest.Before)
	w.store = f
	out, err := w.walkCtx(t.Context(), id)
	if !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("error = %v", err)
	}
	if got := w.called(); got != "a" || len(out.Path) != 0 || w.get(id).Seq != 0 {
		t.Errorf("called %q, path %v", got, out.Path)
	}
}

// An action can't hide an error of the store.
//
// Covers: VK21.
func TestStoreErrorInMeter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		if _, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 1}); err == nil {
			t.Error("reserved")
		}
		return flows.Result{}, nil
	}})
	id := w.begin(three)
	f := storetest.NewFaulty(w.memory)
	f.FailAt(1, storetest.Before)
	w.store = f
	if _, err := w.walkCtx(t.Context(), id); !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("error = %v", err)
	}
	if w.get(id).Seq != 0 {
		t.Error("the node was committed")
	}
}

// Covers: HF7, CN20, CN23, VK22, AR13.
func TestResumeStartsAtTheNextNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	id := w.begin(three)
	w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 2, "", nil }
	w.want(w.walk(id), "halted halted: a b")
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.hooks.KillSwitch = nil
	w.want(w.walk(id), "ended ok: c done")
}

// Covers: CN26, VK35.
func TestEndedRunIsNotWalked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("result", "ok")})
	id := w.begin(three)
	run, lease := w.claim(id)
	first, err := w.engine().Walk(t.Context(), run, lease)
	if err != nil {
		t.Fatal(err)
	}
	before := w.called()
	again, err := w.engine().Walk(t.Context(), w.get(id), lease)
	if err != nil {
		t.Fatal(err)
	}
	if again.How != first.How || again.Result != first.Result || len(again.Path) != 0 || w.called() != before {
		t.Errorf("again = %+v after %q", again, before)
	}
}

// A definition or state that can't be trusted is refused, never begun anew.
//
// Covers: CN27, AR12, VK20, VK24, VK33, CN24.
func TestCorruptAndDrift(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*checkpoints.Run)
		want  error
		code  string
	}{
		"definition":  {func(r *checkpoints.Run) { r.Definition = append(r.Definition, ' ') }, flows.ErrCorrupt, "corrupt"},
		"no flow":     {func(r *checkpoints.Run) { r.Definition = nil }, flows.ErrCorrupt, "corrupt"},
		"state":       {func(r *checkpoints.Run) { r.State = raw(`{"n":"one"}`) }, flows.ErrCorrupt, "corrupt"},
		"state key":   {func(r *checkpoints.Run) { r.State = raw(`{"ghost":1}`) }, flows.ErrCorrupt, "corrupt"},
		"state bytes": {func(r *checkpoints.Run) { r.State = raw(`{"n":`) }, flows.ErrCorrupt, "corrupt"},
		"position":    {func(r *checkpoints.Run) { r.Next = "ghost" }, flows.ErrCorrupt, "corrupt"},
		"version":     {func(r *checkpoints.Run) { r.Actions["t.step"] = "0" }, flows.ErrDrift, "drift"},
		"first state": {func(r *checkpoints.Run) { r.Initial = raw(`{"n":1}`) }, flows.ErrCorrupt, "corrupt"},
		"visits":      {func(r *checkpoints.Run) { r.Visits = map[string]int{"a": 1} }, flows.ErrCorrupt, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			id := w.begin(three)
			run, lease := w.claim(id)
			tc.spoil(&run)
			out, err := w.engine().Walk(t.Context(), run, lease)
			if err != nil {
				t.Fatal(err)
			}
			how := "ended error "
			if tc.code == "drift" {
				how = "halted "
			}
			w.want(out, how+tc.code+":")
			if !errors.Is(out.Err, tc.want) {
				t.Errorf("error = %v", out.Err)
			}
			if got := strings.ReplaceAll(w.called(), "t.last", ""); strings.TrimSpace(got) != "" {
				t.Errorf("called %q", got)
			}
		})
	}
}

// A row that disagrees with its history is refused, although it fits the
// schema.
//
// Covers: AR12, CN27.
func TestTampered(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*checkpoints.Run){
		"state":    func(r *checkpoints.Run) { r.State = raw(strings.Replace(string(r.State), `"n":1`, `"n":2`, 1)) },
		"gone":     func(r *checkpoints.Run) { r.State = raw(`{"s":"","tags":[],"result":"none"}`) },
		"position": func(r *checkpoints.Run) { r.Next = "c" },
		"sequence": func(r *checkpoints.Run) { r.Seq = 7 },
	} {
		w := newWorld(t, map[string]action{"a": counts})
		id := w.begin(three)
		w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 1, "", nil }
		w.want(w.walk(id), "halted halted: a")
		if err := w.memory.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		run, lease := w.claim(id)
		spoil(&run)
		out, err := w.engine().Walk(t.Context(), run, lease)
		if err != nil {
			t.Fatal(err)
		}
		w.want(out, "ended error corrupt:")
		if !errors.Is(out.Err, flows.ErrCorrupt) || w.called() != "a t.last t.last" {
			t.Errorf("%s: error %v, called %q", name, out.Err, w.called())
		}
	}
}

// Covers: NX6, VK24.
func TestParkedOverAnUpgrade(t *testing.T) {
	t.Parallel()
	w, _ := richWorld(t)
	id := w.begin(rich)
	w.want(w.walk(id), "parked: a fx again a fx again a fx")
	w.approve(id, "comment/1", map[string]any{"by": "ann"})
	w.register("2")
	out := w.walk(id)
	w.want(out, "halted drift:")
	if !errors.Is(out.Err, flows.ErrDrift) || !strings.Contains(out.Err.Error(), "version") {
		t.Errorf("error = %v", out.Err)
	}
	run := w.get(id)
	if run.Status != checkpoints.Halted || run.Code != "drift" || run.Next != "w" || w.called() != "a fx a fx a fx" {
		t.Errorf("run = %+v, called %q", run, w.called())
	}
	// Waking it is no consent.
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "halted drift:")
	if err := w.memory.Accept(t.Context(), id, w.load(rich).Actions(), "ann"); err != nil {
		t.Fatal(err)
	}
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "ended ok: w c done")
}

// Of many who want a run one gets it, and each node is completed once.
//
// Covers: NX4, CN29, BL11.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	id := w.begin(three)
	eng := w.engine()
	epoch := w.get(id).Epoch
	var wins, busy, other sync.Map
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			run, lease, err := w.memory.Claim(t.Context(), id, epoch, fmt.Sprint("worker", i), time.Hour)
			if errors.Is(err, checkpoints.ErrBusy) {
				busy.Store(i, err)
				return
			}
			if err != nil {
				other.Store(i, err)
				return
			}
			out, err := eng.Walk(t.Context(), run, lease)
			if err != nil {
				other.Store(i, err)
			}
			wins.Store(i, out)
		})
	}
	group.Wait()
	size := func(m *sync.Map) (n int) { m.Range(func(any, any) bool { n++; return true }); return n }
	if size(&wins) != 1 || size(&busy) != 49 || size(&other) != 0 {
		t.Errorf("%d won, %d were busy, %d failed", size(&wins), size(&busy), size(&other))
	}
	if got := w.called(); got != "a b c t.last" {
		t.Errorf("called %q", got)
	}
}

// A walker whose run was taken over writes nothing more.
//
// Covers: NX4, BL9.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	id := w.begin(three)
	w.script["a"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		w.mu.Lock()
		w.script["a"] = nil
		w.mu.Unlock()
		w.clock.Advance(2 * time.Hour)
		w.want(w.walk(id), "ended ok: a b c done")
		return counts(t.Context(), c)
	}
	run, lease := w.claim(id)
	out, err := engine.New(engine.Options{Store: w.memory, Registry: w.reg, Clock: still{w.clock}}).Walk(t.Context(), run, lease)
	if err != nil {
		t.Fatal(err)
	}
	w.want(out, "lost:")
	if h := w.history(id); len(h) != 4 {
		t.Errorf("history has %d records", len(h))
	}
}

// Small random flows: any walk, cut anywhere, gives the same as an uncut one.
//
// Covers: CN10, CN19, CN20, BL7, BL30.
func TestAnyFlowSurvivesCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "nodes")
		var nodes, edges strings.Builder
		id := func(i int) string {
			if i >= n {
				return "done"
			}
			return fmt.Sprintf("a%d", i)
		}
		for i := range n {
			fmt.Fprintf(&nodes, "  - {id: %s, kind: step, uses: t.step, in: [n], writes: [n]}\n", id(i))
			if target := rapid.IntRange(i+1, n).Draw(rt, "jump"); target != i+1 {
				fmt.Fprintf(&edges, "  - {from: %s, to: %s, when: \"state.n > %d\", set: {result: ok}}\n", id(i), id(target), rapid.IntRange(0, 8).Draw(rt, "limit"))
			}
			if i > 0 && rapid.Bool().Draw(rt, "loop") {
				back := rapid.IntRange(0, i).Draw(rt, "back")
				fmt.Fprintf(&nodes, "  - {id: l%d, kind: loop, back_to: %s, max: %d}\n", i, id(back), rapid.IntRange(1, 3).Draw(rt, "max"))
				fmt.Fprintf(&edges, "  - {from: %s, to: l%d}\n  - {from: l%d, to: %s}\n  - {from: l%d, to: %s, on: [exhausted], set: {result: ok}}\n", id(i), i, i, id(back), i, id(i+1))
			} else {
				fmt.Fprintf(&edges, "  - {from: %s, to: %s, set: {result: ok}}\n", id(i), id(i+1))
			}
		}
		src := strings.Replace(header, "entry: a\n", "entry: a0\n", 1) + "limits: {max_steps: 200}\nnodes:\n" + nodes.String() +
			"  - {id: done, kind: sink}\nedges:\n" + edges.String()
		script := map[string]action{}
		for i := range n {
			script[id(i)] = counts
		}
		play := func(crash int, when storetest.When) (string, string, int) {
			w := newWorld(t, script)
			f, problems := flows.Load("random.yaml", []byte(src), w.reg)
			if err := problems.Err(); err != nil {
				if strings.Contains(err.Error(), "shadowed-edge") || strings.Contains(err.Error(), "unreachable") {
					rt.Skip()
				}
				rt.Fatalf("%v\n%s", err, src)
			}
			_ = f
			run := w.begin(src)
			faulty := storetest.NewFaulty(w.memory)
			if crash > 0 {
				faulty.CrashAt(crash, when)
			}
			w.store = faulty
			end := w.drive(run)
			var path []string
			for _, rec := range w.history(run) {
				path = append(path, fmt.Sprintf("%s/%d", rec.Node, rec.Visit))
			}
			return strings.Join(path, " "), string(end.State), faulty.Writes()
		}
		path, state, writes := play(0, storetest.Before)
		when := storetest.When(rapid.IntRange(0, 1).Draw(rt, "when"))
		crash := rapid.IntRange(1, writes).Draw(rt, "crash")
		gotPath, gotState, _ := play(crash, when)
		if path != gotPath || state != gotState {
			rt.Fatalf("crash at %d of %d: %s %s, want %s %s\n%s", crash, writes, gotPath, gotState, path, state, src)
		}
	})
}
