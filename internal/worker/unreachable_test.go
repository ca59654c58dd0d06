package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

func limited(d time.Duration) error {
	return &forge.Error{Kind: forge.KindRateLimited, Op: "reading", Status: 429, RetryAfter: d}
}

// waitsFor is how long the run is parked from now on.
func (w *world) waitsFor(id string) time.Duration {
	w.t.Helper()
	run := w.get(id)
	if run.Status != checkpoints.Waiting || run.Wait == nil || run.Wait.Event != "" {
		w.t.Fatalf("the run is %s, wait %+v", run.Status, run.Wait)
	}
	return run.Wait.Until.Sub(w.clock.Now())
}

// goOn lets time pass and sweeps.
func (w *world) goOn(d time.Duration) {
	w.t.Helper()
	w.clock.Advance(d)
	if _, err := w.memory.Sweep(w.t.Context(), time.Second); err != nil {
		w.t.Fatal(err)
	}
}

// A run parks for as long as the forge asks.
func TestParksAsLongAsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	w.forge.fail["issue"] = limited(7 * time.Minute)
	run := w.start(labels.Plan)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.waitsFor(run.ID); got != 7*time.Minute {
		t.Errorf("parked for %s", got)
	}
}

// A repository that was answered with 404 for an hour is gone: the run ends,
// with its `finally` actions, and says why.
func TestRepositoryGoneForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	w.forge.lost = true
	finally := false
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		finally = ctx.Err() != nil
		return w.interrupted(ctx, run, l)
	}
	run := w.start(labels.Plan)
	began := w.clock.Now()
	tries := 0
	for last := time.Duration(0); ; tries++ {
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		if w.get(run.ID).Status.Final() {
			break
		}
		rest := w.waitsFor(run.ID)
		if rest < last || rest > 10*time.Minute {
			t.Fatalf("try %d: parked for %s after %s", tries, rest, last)
		}
		last = rest
		w.goOn(rest)
		if tries > 50 {
			t.Fatal("it never ends")
		}
	}
	w.want(run.ID, checkpoints.Failed, "error", "repository-gone")
	if took := w.clock.Now().Sub(began); took < time.Hour || tries < 9 {
		t.Errorf("given up after %s, %d tries", took, tries)
	}
	if !finally || !strings.Contains(w.get(run.ID).Reason, "acme/widgets cannot be found since 2026-03-01 09:00 UTC") {
		t.Errorf("finally %v, reason %q", finally, w.get(run.ID).Reason)
	}
}

// One that comes back is no nearer to its end the next time.
func TestRepositoryComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	run := w.start(labels.Plan)
	lose := func(tries int) {
		w.forge.lost = true
		for range tries {
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.goOn(w.waitsFor(run.ID))
		}
		w.forge.lost = false
	}
	lose(8)
	w.walk = func(_ context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		return engine.Outcome{How: engine.Released, Run: run}, w.store.Release(t.Context(), l)
	}
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	lose(8)
	w.ends("approved")
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Done, "approved", "")
}

// What the forge puts off at the end of a phase is not asked for again before,
// and further and further apart when it names no time.
func TestFinishWaitsAsLongAsAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		pauses []time.Duration
	}{
		{"asked for", limited(20 * time.Minute), []time.Duration{20 * time.Minute, 20 * time.Minute}},
		{"on our own", transient(), []time.Duration{lease, 2 * lease, 4 * lease}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := labels.Default()
			w := newWorld(t, n.Triage)
			w.forge.fail["+"+n.Plan] = tt.err
			run := w.start(labels.Triage)
			for i, rest := range tt.pauses {
				if err := w.handle(run.ID); err == nil {
					t.Fatal("no error")
				}
				if got := w.get(run.ID).LeaseUntil.Sub(w.clock.Now()); got != rest {
					t.Errorf("try %d: the lease lasts %s, want %s", i+1, got, rest)
				}
				w.goOn(rest)
			}
			w.forge.fail = map[string]error{}
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, checkpoints.Done, "accepted", "")
		})
	}
}

// A repository that is gone for good does not keep a phase from ending.
func TestFinishWithoutRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Triage)
	w.ends("accepted")
	inner := w.walk
	w.walk = func(ctx context.Context, r checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		w.forge.lost = true
		return inner(ctx, r, l)
	}
	run := w.start(labels.Triage)
	for i := 0; !w.get(run.ID).Status.Final(); i++ {
		if i > 50 {
			t.Fatal("it never ends")
		}
		_ = w.handle(run.ID) // fails until the last try
		w.goOn(10 * time.Minute)
	}
	w.want(run.ID, checkpoints.Failed, "error", "repository-gone")
	if w.open() != "" {
		t.Error("a next phase was started")
	}
	if len(w.forge.calls) > 0 {
		t.Errorf("label changes: %v", w.forge.calls)
	}
}
