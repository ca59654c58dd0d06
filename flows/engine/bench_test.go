package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

const benchNodes = 90 // a flow may complete 100

// chain is a flow of steps, each with a typed change of the state and a guard
// on the way to the next.
func chain(nodes int) string {
	var body strings.Builder
	for i := range nodes {
		fmt.Fprintf(&body, "  - {id: n%d, kind: step, uses: t.step, in: [n], writes: [n, result]}\n", i)
	}
	body.WriteString("  - {id: done, kind: sink}\nedges:\n")
	for i := range nodes - 1 {
		fmt.Fprintf(&body, "  - {from: n%d, to: n%d, when: \"state.n >= 0\"}\n  - {from: n%d, to: done}\n", i, i+1, i)
	}
	fmt.Fprintf(&body, "  - {from: n%d, to: done, set: {result: ok}}\n", nodes-1)
	return strings.Replace(header, "entry: a", "entry: n0", 1) + "nodes:\n" + body.String()
}

// nowhere is a store that keeps nothing, so that what remains is the engine.
type nowhere struct{ engine.Store }

func (nowhere) History(context.Context, string) ([]checkpoints.NodeRecord, error) { return nil, nil }
func (nowhere) Commit(context.Context, checkpoints.Lease, checkpoints.Commit) error {
	return nil
}
func (nowhere) Park(context.Context, checkpoints.Lease, checkpoints.Wait) error { return nil }
func (nowhere) Pending(context.Context, string, string) (checkpoints.Event, error) {
	return checkpoints.Event{}, checkpoints.ErrNotFound
}

func (nowhere) Effect(context.Context, string) (json.RawMessage, error) {
	return nil, checkpoints.ErrNotFound
}
func (nowhere) RecordEffect(context.Context, string, json.RawMessage) error { return nil }
func (nowhere) Spent(context.Context, string, string, int, time.Time) (run, issue, day checkpoints.Usage, err error) {
	return run, issue, day, nil
}

// frozen is a run of a flow that no store has seen.
func frozen(b testing.TB, eng *engine.Engine, f *flows.Flow) checkpoints.Run {
	b.Helper()
	req, err := eng.Freeze(f, checkpoints.StartReq{Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7}, flows.State{})
	if err != nil {
		b.Fatal(err)
	}
	return checkpoints.Run{
		ID: checkpoints.NewID(start()), Key: req.Key, Repo: req.Repo, Issue: req.Issue, Flow: req.Flow, Phase: req.Phase, Round: 1,
		Status: checkpoints.Running, Epoch: 2, Next: req.Entry, State: req.State, Initial: req.State,
		Definition: req.Definition, DefinitionHash: req.DefinitionHash, Actions: req.Actions, Created: start(),
	}
}

// BenchmarkWalkNoStore is the engine's own cost of a node: a call of an
// action, a typed change, a guard, and what a commit hands to the store.
func BenchmarkWalkNoStore(b *testing.B) {
	w := newWorld(b, nil)
	w.count(b)
	eng := engine.New(engine.Options{Store: nowhere{}, Registry: w.reg})
	run := frozen(b, eng, w.load(chain(benchNodes)))
	lease := checkpoints.Lease{RunID: run.ID, Owner: "bench", Fence: 2}
	walk := func() {
		out, err := eng.Walk(b.Context(), run, lease)
		if err != nil || out.Result != "ok" || len(out.Path) != benchNodes+1 {
			b.Fatal(out.How, out.Result, out.Reason, err)
		}
	}
	walk() // thaws the flow
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		walk()
	}
	runtime.ReadMemStats(&after)
	nodes := float64(b.N) * (benchNodes + 1)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/nodes, "ns/node")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/nodes, "allocs/node")
}

// BenchmarkWalkMemory is the same over the memory store.
func BenchmarkWalkMemory(b *testing.B) {
	w := newWorld(b, nil)
	w.count(b)
	eng := engine.New(engine.Options{Store: w.memory, Registry: w.reg})
	src := chain(benchNodes)
	req, err := eng.Freeze(w.load(src), checkpoints.StartReq{Repo: "acme/widgets", Issue: 7}, flows.State{})
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		req.Key = fmt.Sprint("k", i)
		started, err := w.memory.Start(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		run, lease, err := w.memory.Claim(b.Context(), started.ID, started.Epoch, "bench", time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if out, err := eng.Walk(b.Context(), run, lease); err != nil || out.Result != "ok" {
			b.Fatal(out, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(benchNodes+1), "ns/node")
}

// count registers actions that change the state without the world's script.
func (w *world) count(t testing.TB) {
	t.Helper()
	w.reg = &flows.Registry{}
	run := func(_ context.Context, c flows.Call) (flows.Result, error) {
		return flows.Result{Delta: flows.Delta{"n": len(c.In.Raw("n"))}}, nil
	}
	if err := w.reg.Add(flows.Action{Name: "t.step", Version: "1", Run: run}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkParked is what a parked run keeps in the engine's memory: nothing
// of its own, and no goroutine.
func BenchmarkParked(b *testing.B) {
	w := newWorld(b, nil)
	eng := engine.New(engine.Options{Store: nowhere{}, Registry: w.reg, Clock: w.clock})
	run := frozen(b, eng, w.load(waiting))
	lease := checkpoints.Lease{RunID: run.ID, Owner: "bench", Fence: 2}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	park := func() {
		if out, err := eng.Walk(b.Context(), run, lease); err != nil || out.How != engine.Parked {
			b.Fatal(out.How, err)
		}
	}
	park()
	goroutines, before := runtime.NumGoroutine(), heap()
	for b.Loop() {
		park()
	}
	after := heap()
	b.ReportMetric(max(0, float64(after)-float64(before))/float64(b.N), "bytes/run")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
}
