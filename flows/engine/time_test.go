package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// timed is three, with keys for b.
func timed(keys string) string {
	return strings.Replace(three, "- {id: b, kind: step, uses: t.step,", "- {id: b, kind: step, uses: t.step, "+keys+",", 1)
}

// goWalk walks in the background.
func (w *world) goWalk(ctx context.Context, id string) <-chan engine.Outcome {
	run, lease := w.claim(id)
	ended := make(chan engine.Outcome, 1)
	go func() {
		out, err := w.engine().Walk(ctx, run, lease)
		if err != nil {
			w.t.Error(err)
		}
		ended <- out
	}()
	return ended
}

// Covers: NX8, AR17, AR23, VK4.
func TestTimeout(t *testing.T) {
	t.Parallel()
	entered := make(chan string, 1)
	w := newWorld(t, map[string]action{"b": blocks(entered)})
	ended := w.goWalk(t.Context(), w.begin(timed("timeout: 2m")))
	<-entered
	w.untilWaiting(1)
	w.clock.Advance(2 * time.Minute)
	out := <-ended
	w.want(out, "ended error timeout: a")
	if !errors.Is(out.Err, engine.ErrTimeout) {
		t.Errorf("error = %v", out.Err)
	}
}

// untilWaiting polls until code under test waits on the clock.
func (w *world) untilWaiting(n int) {
	w.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for w.clock.Waiting() < n {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d timers, want %d", w.clock.Waiting(), n)
		}
	}
}

// A node that is alive says so; silence ends it long before its timeout.
//
// Covers: NX8.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	beat, beaten := make(chan struct{}), make(chan struct{})
	entered := make(chan struct{})
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		close(entered)
		for {
			select {
			case <-beat:
				c.Beat("alive")
				beaten <- struct{}{}
			case <-ctx.Done():
				return flows.Result{}, context.Cause(ctx)
			}
		}
	}})
	id := w.begin(timed("timeout: 10m, idle: 1m"))
	clk := told{w.clock, make(chan time.Duration, 100)}
	w.told = clk
	ended := w.goWalk(t.Context(), id)
	<-entered
	for d := time.Duration(0); d != time.Minute; d = <-clk.set { // the idle timer
	}
	for range 4 {
		w.clock.Advance(50 * time.Second)
		beat <- struct{}{}
		<-beaten
		if d := <-clk.set; d != time.Minute {
			t.Errorf("a timer of %s was set, not the idle timer", d)
		}
	}
	select {
	case out := <-ended:
		t.Fatalf("ended although alive: %+v", out)
	default:
	}
	w.clock.Advance(time.Minute)
	out := <-ended
	w.want(out, "ended error timeout: a")
	if !errors.Is(out.Err, engine.ErrTimeout) || !strings.Contains(out.Err.Error(), "silent") {
		t.Errorf("error = %v", out.Err)
	}
}

// told is a clock that tells of each timer that is set.
type told struct {
	*clock.Fake
	set chan time.Duration
}

func (c told) NewTimer(d time.Duration) clock.Timer {
	t := c.Fake.NewTimer(d)
	c.set <- d
	return t
}

// Typed errors are tried again with a growing delay, not before Retry-After.
//
// Covers: NX8, AR23.
func TestRetry(t *testing.T) {
	t.Parallel()
	var at []time.Duration
	var keys []string
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	w.script["b"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		at = append(at, w.clock.Now().Sub(start()))
		keys = append(keys, fmt.Sprintf("%s %d", c.Key, c.Attempt))
		switch len(at) {
		case 1:
			return flows.Result{}, fmt.Errorf("asking: %w", &flows.Retry{Cause: "overloaded", Err: errors.New("busy")})
		case 2:
			return flows.Result{}, &flows.Retry{Cause: "rate-limited", After: 7 * time.Second, Err: errors.New("429")}
		case 3:
			return flows.Result{}, &flows.Retry{Cause: "transient", Err: errors.New("502")}
		}
		return flows.Result{}, nil
	}
	var retries int
	w.hooks.OnNode = func(_ context.Context, ev engine.NodeEvent) {
		if ev.Stage == engine.Retry {
			retries++
		}
	}
	id := w.begin(timed("retry: {max: 3, backoff: 2s, factor: 3, max_backoff: 10s, jitter: none}"))
	clk := told{w.clock, make(chan time.Duration, 100)}
	w.told = clk
	ended := w.goWalk(t.Context(), id)
	for _, d := range []time.Duration{2 * time.Second, 7 * time.Second, 10 * time.Second} {
		for set := time.Duration(0); set != d; set = <-clk.set { // the back-off
		}
		w.clock.Advance(d - time.Millisecond)
		w.clock.Advance(time.Millisecond)
	}
	w.want(<-ended, "ended ok: a b c done")
	if got := fmt.Sprint(at); got != "[0s 2s 9s 19s]" {
		t.Errorf("attempts at %s", got)
	}
	if retries != 3 || w.history(id)[1].Attempt != 4 {
		t.Errorf("%d retries, attempt %d", retries, w.history(id)[1].Attempt)
	}
	for i, key := range keys {
		if want := fmt.Sprintf("run/%s/b/1 %d", id, i+1); key != want {
			t.Errorf("call %d has key %q, want %q", i, key, want)
		}
	}
}

// Long delays, and delays beyond the policy, park the run at the node; what
// never comes good fails after a bounded number of pauses.
//
// Covers: NX8, BL22.
func TestRetryParks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	attempts := 0
	w.script["b"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		if attempts++; c.Attempt != attempts || c.Visit != 1 {
			t.Errorf("attempt %d (visit %d), want %d", c.Attempt, c.Visit, attempts)
		}
		return flows.Result{}, &flows.Retry{Cause: "rate-limited", After: time.Hour, Err: errors.New("429")}
	}
	id := w.begin(timed("retry: {max: 3, backoff: 1s}"))
	for i := range engine.MaxParks {
		out := w.walk(id)
		path := ": a"
		if i > 0 {
			path = ":"
		}
		w.want(out, "parked"+path)
		run := w.get(id)
		if run.Status != checkpoints.Waiting || run.Next != "b" || run.Wait.Event != "" || !run.Wait.Until.Equal(w.clock.Now().Add(time.Hour)) {
			t.Fatalf("pause %d: %+v", i, run.Wait)
		}
		w.clock.Advance(time.Hour)
	}
	out := w.walk(id)
	w.want(out, "ended error rate-limited:")
	var retry *flows.Retry
	if !errors.As(out.Err, &retry) || attempts != engine.MaxParks+1 {
		t.Errorf("%d attempts, error %v", attempts, out.Err)
	}
}

// Only a run that looks says so in its wait: news must not end a pause that a
// server has asked for.
func TestParkSaysWhatLooks(t *testing.T) {
	t.Parallel()
	for _, looks := range []bool{true, false} {
		w := newWorld(t, map[string]action{})
		w.script["b"] = func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{}, &flows.Retry{Cause: "transient", After: time.Hour, Looks: looks, Err: errors.New("not yet")}
		}
		id := w.begin(timed("retry: {max: 3, backoff: 1s}"))
		w.want(w.walk(id), "parked: a")
		if wait := w.get(id).Wait; wait == nil || wait.Looks != looks {
			t.Errorf("wait = %+v, want looks %t", wait, looks)
		}
	}
}

// Without a policy a typed error parks at once, and it can come good.
func TestParkAndRecover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	w.script["b"] = func(_ context.Context, c flows.Call) (flows.Result, error) {
		if c.Attempt < 3 {
			return flows.Result{}, &flows.Retry{Cause: "transient", Err: errors.New("502")}
		}
		return flows.Result{}, nil
	}
	id := w.begin(three)
	w.want(w.walk(id), "parked: a")
	w.clock.Advance(engine.Longest)
	w.want(w.walk(id), "parked:")
	w.clock.Advance(2 * engine.Longest)
	w.want(w.walk(id), "ended ok: b c done")
}

// A halt while a retry waits halts, it does not wait.
func TestHaltDuringBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(context.Context, flows.Call) (flows.Result, error) {
		return flows.Result{}, &flows.Retry{Cause: "transient", Err: errors.New("502")}
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	retried := make(chan struct{}, 1)
	w.hooks.OnNode = func(_ context.Context, ev engine.NodeEvent) {
		if ev.Stage == engine.Retry {
			retried <- struct{}{}
		}
	}
	ended := w.goWalk(ctx, w.begin(timed("retry: {max: 3, backoff: 20s, jitter: none}")))
	<-retried
	cancel(engine.Halt{Reason: "stop"})
	w.want(<-ended, "halted halted: a")
}
