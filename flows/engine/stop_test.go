package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// The kill switch is asked before each node; on, or unreadable, it halts the
// run where it stands, and the run goes on when it is woken.
//
// Covers: HF8, HF13, HF29, NX7.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(context.Context, checkpoints.Run) (bool, string, error){
		"on": func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Next == "b", "by ann", nil },
		"error": func(_ context.Context, r checkpoints.Run) (bool, string, error) {
			return false, "", failAt(r.Next, "b")
		},
		"panic": func(_ context.Context, r checkpoints.Run) (bool, string, error) {
			if r.Next == "b" {
				panic("no switch")
			}
			return false, "", nil
		},
	} {
		w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
		w.hooks.KillSwitch = hook
		id := w.begin(three)
		out := w.walk(id)
		w.want(out, "halted halted: a")
		run := w.get(id)
		if run.Status != checkpoints.Halted || run.Next != "b" || run.Seq != 1 || run.Reason == "" || out.Run.Next != "b" {
			t.Errorf("%s: run = %+v", name, run)
		}
		if got := w.called(); got != "a t.last" {
			t.Errorf("%s: called %q", name, got)
		}
		w.hooks.KillSwitch = nil
		if err := w.memory.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.want(w.walk(id), "ended ok: b c done")
	}
}

func failAt(next, node string) error {
	if next == node {
		return errors.New("store is down")
	}
	return nil
}

// blocks waits in node b until its context ends, and says so.
func blocks(entered chan<- string) action {
	return func(ctx context.Context, c flows.Call) (flows.Result, error) {
		entered <- c.Key
		<-ctx.Done()
		return flows.Result{Delta: flows.Delta{"s": "cut"}}, nil
	}
}

// A cancelled context cuts the node in flight; its cause decides what becomes
// of the run.
//
// Covers: NX7, NX9, VK29, AR36.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cause  error
		want   string
		status checkpoints.Status
		calls  string
		again  string
	}{
		{engine.Halt{Reason: "stop"}, "halted halted: a", checkpoints.Halted, "a b t.last", "ended ok: b c done"},
		{&engine.Halt{Reason: "stop"}, "halted halted: a", checkpoints.Halted, "a b t.last", "ended ok: b c done"},
		{engine.Cancel{Reason: "closed"}, "cancelled cancelled cancelled: a", checkpoints.Ending, "a b t.last", ""},
		{&engine.Cancel{Result: "closed", Code: "issue-closed"}, "cancelled closed issue-closed: a", checkpoints.Ending, "a b t.last", ""},
		{engine.ErrShutdown, "released: a", checkpoints.Ready, "a b", "ended ok: b c done"},
		{context.Canceled, "released: a", checkpoints.Ready, "a b", "ended ok: b c done"},
		{fmt.Errorf("renewing: %w", checkpoints.ErrLost), "lost: a", checkpoints.Running, "a b", ""},
	} {
		t.Run(fmt.Sprintf("%T %v", tc.cause, tc.cause), func(t *testing.T) {
			t.Parallel()
			entered := make(chan string, 1)
			w := newWorld(t, map[string]action{"a": counts, "b": blocks(entered), "c": sets("result", "ok")})
			id := w.begin(three)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan engine.Outcome, 1)
			run, lease := w.claim(id)
			go func() {
				out, err := w.engine().Walk(ctx, run, lease)
				if err != nil {
					t.Error(err)
				}
				ended <- out
			}()
			key := <-entered
			cancel(tc.cause)
			out := <-ended
			w.want(out, tc.want)
			stored := w.get(id)
			if stored.Status != tc.status || stored.Seq != 1 || stored.Next != "b" || strings.Contains(string(stored.State), "cut") {
				t.Errorf("run = %+v", stored)
			}
			if got := w.called(); got != tc.calls {
				t.Errorf("called %q, want %q", got, tc.calls)
			}
			if tc.again == "" {
				return
			}
			if tc.status == checkpoints.Halted {
				if err := w.memory.Wake(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			w.script["b"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
				if c.Key != key || c.Visit != 1 {
					t.Errorf("key = %s (visit %d) after resume, %s before", c.Key, c.Visit, key)
				}
				return flows.Result{}, nil
			}
			w.want(w.walk(id), tc.again)
		})
	}
}

// Drain lets the node in work end and starts no other.
//
// Covers: NX9.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	eng := w.engine()
	w.script["a"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		eng.Drain()
		eng.Drain()
		return counts(t.Context(), c)
	}
	id := w.begin(three)
	run, lease := w.claim(id)
	out, err := eng.Walk(t.Context(), run, lease)
	if err != nil {
		t.Fatal(err)
	}
	w.want(out, "released: a")
	w.want(w.walk(id), "ended ok: b c done")
}

// An action that does not end when told is left behind, and what it does then
// reaches nothing.
func TestActionLeftBehind(t *testing.T) {
	t.Parallel()
	entered, release, after := make(chan string, 1), make(chan struct{}), make(chan error, 2)
	w := newWorld(t, map[string]action{"a": func(_ context.Context, c flows.Call) (flows.Result, error) {
		entered <- c.Key
		<-release
		_, err := c.Effects.Once(context.Background(), "late", nil, func(context.Context) (raw, error) { return nil, nil })
		after <- err
		_, err = c.Meter.Reserve(context.Background(), flows.Usage{InputTokens: 1})
		after <- err
		return flows.Result{}, nil
	}})
	id := w.begin(strings.Replace(three, "uses: t.step", "uses: t.effect", 1))
	ctx, cancel := context.WithCancelCause(t.Context())
	run, lease := w.claim(id)
	ended := make(chan engine.Outcome, 1)
	go func() {
		out, err := w.engine().Walk(ctx, run, lease)
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	<-entered
	before := w.clock.Waiting()
	cancel(engine.Halt{Reason: "stop"})
	for w.clock.Waiting() == before {
		select {
		case out := <-ended:
			t.Fatalf("walk ended before the action: %+v", out)
		default:
		}
	}
	for {
		w.clock.Advance(engine.Grace)
		select {
		case out := <-ended:
			w.want(out, "halted halted:")
		default:
			continue
		}
		break
	}
	close(release)
	for range 2 {
		if err := <-after; err == nil {
			t.Error("an action that was left behind could still act")
		}
	}
}

// finally runs on every ending, in order, and its error never replaces the
// cause.
//
// Covers: NX7.
func TestFinally(t *testing.T) {
	t.Parallel()
	var got []string
	w := newWorld(t, map[string]action{
		"a": counts, "c": sets("result", "ok"),
		"t.last": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			_, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: 1})
			got = append(got, fmt.Sprintf("%s %s n=%d ctx=%v %v", c.Ended.How, c.Ended.Result, c.In.Int("n"), ctx.Err(), errors.Is(err, flows.ErrBudget)))
			_, err = c.Effects.Once(ctx, "save", nil, func(context.Context) (raw, error) { return raw(`"ref"`), nil })
			return flows.Result{Delta: flows.Delta{"n": 99}}, errors.Join(err, errors.New("could not save"))
		},
	})
	w.hooks.BeforeEffect = func(context.Context, checkpoints.Run) error { return flows.ErrLabelGone }
	out := w.walk(w.begin(three))
	w.want(out, "ended ok: a b c done")
	if out.Err != nil || out.Finally == nil || !strings.Contains(out.Finally.Error(), "could not save") {
		t.Errorf("err %v, finally %v", out.Err, out.Finally)
	}
	w.memory = nil
	w2 := newWorld(t, w.script)
	boom := errors.New("boom")
	w2.script["b"] = func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, boom }
	out = w2.walk(w2.begin(three))
	w2.want(out, "ended error failed: a")
	if !errors.Is(out.Err, boom) || out.Finally == nil {
		t.Errorf("err %v, finally %v", out.Err, out.Finally)
	}
	if diff := cmp.Diff([]string{"sink ok n=1 ctx=<nil> true", "error  n=1 ctx=<nil> true"}, got); diff != "" {
		t.Errorf("finally (-want +got):\n%s", diff)
	}
}

// An action that fails because it was cancelled has not failed: whichever the
// engine sees first, the run is halted and can be woken.
//
// Covers: HF13, NX9.
func TestHaltIsNoFailure(t *testing.T) {
	t.Parallel()
	for range 200 {
		entered := make(chan struct{})
		w := newWorld(t, map[string]action{
			"a": func(ctx context.Context, _ flows.Call) (flows.Result, error) {
				close(entered)
				<-ctx.Done()
				return flows.Result{}, ctx.Err()
			},
		})
		run, lease := w.claim(w.begin(three))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-entered
			cancel(engine.Halt{Reason: "stop"})
		}()
		out, err := w.engine().Walk(ctx, run, lease)
		if err != nil || out.How != engine.Halted {
			t.Fatalf("outcome %s %q, error %v", out.How, out.Reason, err)
		}
	}
}

// What a finally action did becomes part of the stored reason, so that people
// are told where the work was saved.
func TestFinallyNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{
		"a": func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom.") },
		"t.last": func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{Note: "the work is on branch wip/1"}, nil
		},
	})
	out := w.walk(w.begin(three))
	if want := "boom; the work is on branch wip/1"; !strings.HasSuffix(out.Reason, want) || out.Run.Reason != out.Reason {
		t.Errorf("reason %q, in the run %q, want one that ends with %q", out.Reason, out.Run.Reason, want)
	}
}

// Telemetry sees every node and edge in order, and neither its absence nor
// its panic changes the run.
//
// Covers: HF9, HF22, HF23, AR21, AR22, NX17.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{
		"a": func(_ context.Context, c flows.Call) (flows.Result, error) {
			c.Beat("half way")
			return flows.Result{}, nil
		},
		"c": sets("result", "ok"),
	})
	var nodes, routes []string
	w.hooks.OnNode = func(_ context.Context, ev engine.NodeEvent) {
		nodes = append(nodes, fmt.Sprintf("%s %s %s", ev.Node, ev.Stage, ev.Kind))
		panic("telemetry is broken")
	}
	w.hooks.OnRoute = func(_ context.Context, ev engine.RouteEvent) {
		routes = append(routes, ev.From+"→"+ev.To)
		panic("telemetry is broken")
	}
	w.want(w.walk(w.begin(three)), "ended ok: a b c done")
	if diff := cmp.Diff([]string{
		"a start step", "a beat step", "a end step", "b start step", "b end step", "c start step", "c end step", "done start sink", "done end sink",
	}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a→b", "b→c", "c→done"}, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// An action that hangs is left behind at its timeout, and the walk goes on
// without it, whatever it does when it comes back at last.
//
// Covers: VK4, NX8, VK29.
func TestHungActionIsLeftBehind(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(){"returns": func() {}, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaveBehind(t, last)
		})
	}
}

// leaveBehind leaves an action behind that comes back with last.
func leaveBehind(t *testing.T, last func()) {
	t.Helper()
	entered, release, back := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	w.script["b"] = func(context.Context, flows.Call) (flows.Result, error) {
		defer close(back)
		close(entered)
		<-release
		last()
		return flows.Result{Delta: flows.Delta{"n": 99}}, nil
	}
	w.script["c"] = func(context.Context, flows.Call) (flows.Result, error) {
		close(release) // it comes back while the next node is at work
		<-back
		for range 1000 {
			runtime.Gosched() // let it come all the way
		}
		return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
	}
	id := w.begin(strings.Replace(timed("timeout: 2m"), "edges:\n", "edges:\n  - {from: b, to: c, on: [timeout]}\n", 1))
	ended := w.goWalk(t.Context(), id)
	<-entered
	w.clock.Advance(2 * time.Minute)
	for left := false; !left; {
		select {
		case <-release:
			left = true
		default:
			w.clock.Advance(engine.Grace)
		}
	}
	w.want(<-ended, "ended ok: a b c done")
	if h := w.history(id); h[1].Outcome != "timeout" || !strings.Contains(string(w.get(id).State), `"n":1`) {
		t.Errorf("record %+v, state %s", h[1], w.get(id).State)
	}
}

// An action that ends its goroutine has failed, and nothing else.
//
// Covers: VK25.
func TestActionEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts, "b": func(context.Context, flows.Call) (flows.Result, error) {
		runtime.Goexit()
		return flows.Result{}, nil
	}, "c": sets("result", "ok")})
	src := strings.Replace(three, "edges:\n", "edges:\n  - {from: b, to: c, on: [failed]}\n", 1)
	w.want(w.walk(w.begin(src)), "ended ok: a b c done")
	w = fannedWorld(t)
	w.script["z"] = func(context.Context, flows.Call) (flows.Result, error) { runtime.Goexit(); return flows.Result{}, nil }
	id := w.begin(fanned)
	w.want(w.walk(id), "ended ok: a fan m done")
	if got := w.rows(id); !slices.Contains(got, "z/1 failed") {
		t.Errorf("rows = %v", got)
	}
}
