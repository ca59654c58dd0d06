package phasetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Walker walks the flows of phases, over one store: a world without labels,
// queue and worker.
type Walker struct {
	t         testing.TB
	Store     *memory.Store
	Clock     *clock.Fake
	Artifacts *memory.Artifacts
	// BeforeEffect and KillSwitch are the engine's hooks of that name.
	BeforeEffect func(ctx context.Context, run checkpoints.Run) error
	KillSwitch   func(ctx context.Context, run checkpoints.Run) (bool, string, error)
	// CrashAfter makes the store fail after so many commits, once, as a crash
	// does; 0 never.
	CrashAfter int

	events int
}

// NewWalker begins on 2 January 2026.
func NewWalker(t testing.TB) *Walker {
	c := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &Walker{t: t, Clock: c, Store: memory.New(memory.Options{Clock: c}), Artifacts: &memory.Artifacts{}}
}

// Phase is a phase's flow with its actions.
type Phase struct {
	Flow *flows.Flow
	reg  *flows.Registry
}

// Load loads a phase's flow with its actions.
func Load(t testing.TB, name string, src []byte, actions []flows.Action) Phase {
	t.Helper()
	reg := &flows.Registry{}
	if err := reg.Add(actions...); err != nil {
		t.Fatal(err)
	}
	f, problems := flows.Load(name, src, reg)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return Phase{f, reg}
}

// Start starts a run of issue 7. before, if it has an id, is the run whose
// state it inherits and whose lineage it goes on; input is added to that.
func (w *Walker) Start(p Phase, before checkpoints.Run, input map[string]any) checkpoints.Run {
	w.t.Helper()
	in, err := flows.DecodeState(before.State)
	if err != nil {
		w.t.Fatal(err)
	}
	add, err := flows.StateOf(input)
	if err != nil {
		w.t.Fatal(err)
	}
	in = in.With(add.Values())
	req := checkpoints.StartReq{
		Key: fmt.Sprintf("%s/%s/%d", Ref(), p.Flow.Phase(), w.Clock.Now().UnixNano()), Repo: Repo().String(), Issue: 7,
		Phase: p.Flow.Phase(), Round: 1, Lineage: before.Lineage,
	}
	if before.Lineage != "" {
		earlier, err := w.Store.List(w.t.Context(), checkpoints.Filter{Lineage: before.Lineage, Phase: req.Phase})
		if err != nil {
			w.t.Fatal(err)
		}
		req.Round = len(earlier) + 1
	}
	if req, err = w.engine(p).Freeze(p.Flow, req, p.Flow.InputOf(in)); err != nil {
		w.t.Fatal(err)
	}
	w.Clock.Advance(time.Second)
	run, err := w.Store.Start(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// Walk claims the run and walks it until it parks or ends. An ended run is
// finished.
func (w *Walker) Walk(p Phase, id string) engine.Outcome { return w.WalkCtx(w.t.Context(), p, id) }

// WalkCtx is Walk with a context, whose cause may halt or cancel the run.
func (w *Walker) WalkCtx(ctx context.Context, p Phase, id string) engine.Outcome {
	w.t.Helper()
	store := context.WithoutCancel(ctx) // the walk may be ended, not the test's bookkeeping
	run, err := w.Store.Get(store, id)
	if err != nil {
		w.t.Fatal(err)
	}
	run, lease, err := w.Store.Claim(store, id, run.Epoch, "tester", time.Hour)
	if err != nil {
		w.t.Fatalf("claiming run %s (%s): %v", id, run.Status, err)
	}
	out, err := w.engine(p).Walk(ctx, run, lease)
	if errors.Is(err, errCrash) {
		// The process is gone: its lease runs out.
		if err := w.Store.ExpireAll(store); err != nil {
			w.t.Fatal(err)
		}
		return out
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if out.Finally != nil {
		w.t.Errorf("finally: %v", out.Finally)
	}
	if out.How == engine.Ended || out.How == engine.Cancelled {
		if _, err := w.Store.Finish(store, lease, checkpoints.Done, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	return out
}

// Deliver resolves a wait of the run.
func (w *Walker) Deliver(id, kind string, data map[string]any) {
	w.t.Helper()
	w.events++
	raw, err := json.Marshal(data)
	if err != nil {
		w.t.Fatal(err)
	}
	ev := checkpoints.Event{Key: fmt.Sprintf("event/%d", w.events), Kind: kind, Data: raw, At: w.Clock.Now()}
	if fresh, err := w.Store.Deliver(w.t.Context(), id, ev); err != nil || !fresh {
		w.t.Fatalf("delivering %s: fresh %t, %v", kind, fresh, err)
	}
}

// State is a run's state.
func (w *Walker) State(id string) flows.State {
	w.t.Helper()
	s, err := flows.DecodeState(w.Run(id).State)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Run reads a run.
func (w *Walker) Run(id string) checkpoints.Run {
	w.t.Helper()
	run, err := w.Store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *Walker) engine(p Phase) *engine.Engine {
	return engine.New(engine.Options{
		Store: &crashing{Store: w.Store, w: w}, Registry: p.reg, Artifacts: w.Artifacts, Clock: w.Clock,
		Hooks: engine.Hooks{BeforeEffect: w.BeforeEffect, KillSwitch: w.KillSwitch},
	})
}

var errCrash = errors.New("the process is gone")

// crashing is a store whose process dies after a number of commits.
type crashing struct {
	*memory.Store
	w  *Walker
	mu sync.Mutex
}

// Commit implements checkpoints.Progress.
func (c *crashing) Commit(ctx context.Context, l checkpoints.Lease, commit checkpoints.Commit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.w.CrashAfter > 0 {
		if c.w.CrashAfter--; c.w.CrashAfter == 0 {
			return errCrash
		}
	}
	return c.Store.Commit(ctx, l, commit)
}
