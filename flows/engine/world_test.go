package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the instant at which every test's clock stands.
func start() time.Time { return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC) }

// world is a store, a clock and a script for each node.
type world struct {
	t      testing.TB
	clock  *clock.Fake
	memory *memory.Store
	store  engine.Store // memory unless a test wraps it
	reg    *flows.Registry
	hooks  engine.Hooks
	limits checkpoints.Limits
	scrub  func(string) string
	told   clock.Clock // instead of clock, for the engine

	mu     sync.Mutex
	script map[string]func(context.Context, flows.Call) (flows.Result, error)
	calls  []string
}

type raw = json.RawMessage

type action = func(context.Context, flows.Call) (flows.Result, error)

// newWorld has the actions t.step, t.gate, t.read, t.effect, t.last and that of
// commands, which run the script of their node.
func newWorld(t testing.TB, script map[string]action) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewFake(start()), reg: &flows.Registry{}, script: script}
	w.memory = memory.New(memory.Options{Clock: w.clock})
	w.store = w.memory
	w.register("1")
	return w
}

func (w *world) register(version string) {
	w.t.Helper()
	w.reg = &flows.Registry{}
	anything := func(json.RawMessage) error { return nil }
	outcomes := []flows.Outcome{flows.Denied}
	if err := w.reg.Add(
		flows.Action{Name: "t.step", Version: version, Run: w.run, CheckWith: anything, Outcomes: outcomes},
		flows.Action{Name: "t.gate", Version: version, Run: w.run, ReadOnly: true, Outcomes: outcomes},
		flows.Action{Name: "t.effect", Version: version, Run: w.run, Effects: true},
		flows.Action{Name: "t.last", Version: version, Run: w.run, Effects: true},
		flows.Action{Name: "t.read", Version: version, Run: w.run, ReadOnly: true, CheckWith: anything, Outcomes: outcomes},
		flows.Action{Name: flows.CommandAction, Version: version, Run: w.run, CheckWith: anything, Outcomes: []flows.Outcome{flows.Failed, flows.Timeout}},
	); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(ctx context.Context, c flows.Call) (flows.Result, error) {
	w.mu.Lock()
	w.calls = append(w.calls, c.Node)
	fn := w.script[c.Node]
	w.mu.Unlock()
	if fn == nil {
		return flows.Result{}, nil
	}
	return fn(ctx, c)
}

func (w *world) called() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *world) engine() *engine.Engine {
	var clk clock.Clock = w.clock
	if w.told != nil {
		clk = w.told
	}
	return engine.New(engine.Options{
		Store: w.store, Registry: w.reg, Clock: clk, Hooks: w.hooks, Scrub: w.scrub,
		Limits: func(checkpoints.Run) checkpoints.Limits { return w.limits },
	})
}

func (w *world) load(src string) *flows.Flow {
	w.t.Helper()
	f, problems := flows.Load("test.yaml", []byte(src), w.reg)
	if err := problems.Err(); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// begin starts a run of a flow and returns its id.
func (w *world) begin(src string) string {
	w.t.Helper()
	req, err := w.engine().Freeze(w.load(src), checkpoints.StartReq{Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7}, flows.State{})
	if err != nil {
		w.t.Fatal(err)
	}
	run, err := w.memory.Start(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return run.ID
}

func (w *world) get(id string) checkpoints.Run {
	w.t.Helper()
	run, err := w.memory.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) history(id string) []checkpoints.NodeRecord {
	w.t.Helper()
	h, err := w.memory.History(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) claim(id string) (checkpoints.Run, checkpoints.Lease) {
	w.t.Helper()
	run, lease, err := w.memory.Claim(w.t.Context(), id, w.get(id).Epoch, "worker", time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return run, lease
}

// walk claims a run and walks it, with ctx.
func (w *world) walkCtx(ctx context.Context, id string) (engine.Outcome, error) {
	w.t.Helper()
	run, lease := w.claim(id)
	return w.engine().Walk(ctx, run, lease)
}

// walk is walkCtx with the test's context and no store error.
func (w *world) walk(id string) engine.Outcome {
	w.t.Helper()
	out, err := w.walkCtx(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// want compares how a walk ended: "how result code: path".
func (w *world) want(out engine.Outcome, want string) {
	w.t.Helper()
	got := strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", out.How, out.Result, out.Code, strings.Join(out.Path, " ")))
	got = strings.ReplaceAll(strings.Join(strings.Fields(got), " "), " :", ":")
	if got != want {
		w.t.Errorf("outcome = %q, want %q (%v, %s)", got, want, out.Err, out.Reason)
	}
}

// sets is a script that changes the state.
func sets(kv ...any) action {
	return func(context.Context, flows.Call) (flows.Result, error) {
		d := flows.Delta{}
		for i := 0; i < len(kv); i += 2 {
			d[kv[i].(string)] = kv[i+1]
		}
		return flows.Result{Delta: d}, nil
	}
}

// counts is a script that adds one to n.
func counts(_ context.Context, c flows.Call) (flows.Result, error) {
	return flows.Result{Delta: flows.Delta{"n": c.In.Int("n") + 1}}, nil
}

// header is the beginning of every test flow.
const header = `
apiVersion: flows/v1
name: test
phase: test
entry: a
sink: done
state:
  n: {type: int, default: 0}
  s: {type: string, default: "", max_len: 100}
  note: {type: string}
  tags: {type: list, of: string, default: []}
  ref: {type: artifact}
  result: {type: enum, values: [none, ok, needs_human], default: none}
`

// three is a, b, c, done.
const three = header + `
stop: {to: done}
nodes:
  - {id: a, kind: step, uses: t.step, in: [n, s], writes: [n, s, note, tags, ref, result]}
  - {id: b, kind: step, uses: t.step, in: [n, s], writes: [n, s, note, tags, ref, result]}
  - {id: c, kind: step, uses: t.step, in: [n, s], writes: [n, s, note, tags, ref, result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: b}
  - {from: b, to: c}
  - {from: c, to: done}
finally: [t.last]
`

// still is a clock whose timers never fire.
type still struct{ clock.Clock }

func (s still) NewTimer(time.Duration) clock.Timer { return noTimer{} }

type noTimer struct{}

func (noTimer) C() <-chan time.Time { return nil }
func (noTimer) Stop() bool          { return true }
