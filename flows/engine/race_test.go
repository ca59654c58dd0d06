package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// Fifty resumes of one parked run at once, round after round: one wins, the
// others are told that it is busy, and each node is completed once.
//
// Covers: NX4, BL10, BL11, CN29.
func TestOneResumeWins(t *testing.T) {
	t.Parallel()
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	var runs atomic.Int32
	w := newWorld(t, map[string]action{
		"c":  sets("result", "ok"),
		"fx": func(context.Context, flows.Call) (flows.Result, error) { runs.Add(1); return flows.Result{}, nil },
	})
	f := w.load(rich)
	eng := w.engine()
	for round := range rounds {
		runs.Store(0)
		req, err := eng.Freeze(f, checkpoints.StartReq{Key: fmt.Sprint("k", round), Repo: "acme/widgets", Issue: 7}, flows.State{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := w.memory.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		id := run.ID
		w.want(w.walk(id), "parked: a fx again a fx again a fx again")
		w.approve(id, "comment/1", map[string]any{"by": "ann"})
		epoch := w.get(id).Epoch
		var won, busy atomic.Int32
		var group sync.WaitGroup
		begin := make(chan struct{})
		for i := range 50 {
			group.Go(func() {
				<-begin
				run, lease, err := w.memory.Claim(t.Context(), id, epoch, fmt.Sprint("worker", i), time.Hour)
				if errors.Is(err, checkpoints.ErrBusy) {
					busy.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				won.Add(1)
				if out, err := eng.Walk(t.Context(), run, lease); err != nil || out.Result != "ok" {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		close(begin)
		group.Wait()
		if won.Load() != 1 || busy.Load() != 49 || runs.Load() != 3 || len(w.history(id)) != 12 {
			t.Fatalf("round %d: %d won, %d were busy, fx ran %d times, %d records", round, won.Load(), busy.Load(), runs.Load(), len(w.history(id)))
		}
	}
}

// A parked run holds no goroutine, however it came to be parked.
//
// Covers: BL22.
func TestParkedRunsHoldNoGoroutine(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	for name, src := range map[string]string{"wait": waiting, "approval": asking, "subflow": parentFlow(waits), "fanout": fanned, "back-off": three} {
		w := fannedWorld(t)
		later := func(context.Context, flows.Call) (flows.Result, error) {
			return flows.Result{}, &flows.Retry{Cause: "rate-limited", After: time.Hour, Err: errors.New("429")}
		}
		w.script["y"], w.script["b"] = later, later
		if out := w.walk(w.begin(src)); out.How != engine.Parked {
			t.Errorf("%s: %+v", name, out)
		}
		if n := w.clock.Waiting(); n != 0 {
			t.Errorf("%s: %d timers are left", name, n)
		}
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
