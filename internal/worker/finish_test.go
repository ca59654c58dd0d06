package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/worker"
	"github.com/pipelinebot/pipelinebot/labels"
)

// failing is a store of which some calls fail.
type failing struct {
	worker.Store
	park error
}

func (f failing) Park(ctx context.Context, l checkpoints.Lease, w checkpoints.Wait) error {
	if f.park != nil {
		return f.park
	}
	return f.Store.Park(ctx, l, w)
}

func TestEndings(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	tests := []struct {
		name   string
		phase  labels.Phase
		result string
		on     []string
		status checkpoints.Status
		after  []string
		next   string
	}{
		{"accepted", labels.Triage, "accepted", []string{"bug", n.Triage}, checkpoints.Done, []string{"bug", n.Plan}, "plan"},
		{"declined", labels.Triage, "declined", []string{n.Triage}, checkpoints.Done, []string{n.Declined}, ""},
		{"approved plan", labels.Plan, "approved", []string{n.AwaitingApproval, n.Approved}, checkpoints.Done, []string{n.Implement}, "implement"},
		{"the way is free for labels of no phase", labels.Plan, "approved", []string{n.Plan, n.Auto}, checkpoints.Done, []string{n.Auto, n.Implement}, "implement"},
		{"changes requested", labels.Review, "changes_requested", []string{n.Review}, checkpoints.Done, []string{n.Implement}, "implement"},
		{"reviewed", labels.Review, "approved", []string{n.Review}, checkpoints.Done, []string{n.Done}, ""},
		{"an error", labels.Implement, "error", []string{n.Implement}, checkpoints.Failed, []string{n.NeedsHuman}, ""},
		{"a result that nobody knows", labels.Implement, "exploded", []string{n.Implement}, checkpoints.Done, []string{n.NeedsHuman}, ""},
		{"cancelled takes off what is its own", labels.Plan, "cancelled", []string{n.Plan, n.Approved, n.Triage}, checkpoints.Cancelled, []string{n.Triage}, ""},
		{"the issue was closed", labels.Plan, "closed", []string{n.Plan, "bug"}, checkpoints.Cancelled, []string{"bug"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.on...)
			w.ends(tt.result)
			run := w.start(tt.phase)
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, tt.status, tt.result, "")
			slices.Sort(w.forge.issue.Labels)
			slices.Sort(tt.after)
			if diff := cmp.Diff(tt.after, w.forge.issue.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if w.open() != tt.next {
				t.Errorf("open run %q, want %q", w.open(), tt.next)
			}
		})
	}
}

// Whatever write the process dies at, the next one heals it: each label change
// is made once, and one run of the next phase is there.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, when := range []storetest.When{storetest.Before, storetest.After} {
		for at := 1; ; at++ {
			w := newWorld(t, n.Triage)
			run := w.start(labels.Triage)
			faulty := storetest.NewFaulty(w.memory)
			faulty.CrashAt(at, when)
			w.store = faulty
			w.build()
			crashed := w.handle(run.ID)
			whole := faulty.Writes() < at
			if (crashed != nil) == whole && !w.get(run.ID).Status.Final() {
				t.Errorf("write %d: error = %v", at, crashed)
			}
			w.store = w.memory
			w.build()
			for range 3 {
				w.sweep()
				if err := w.handle(run.ID); err != nil {
					t.Fatal(err)
				}
			}
			w.want(run.ID, checkpoints.Done, "accepted", "")
			if w.open() != "plan" {
				t.Errorf("write %d: open run %q", at, w.open())
			}
			if diff := cmp.Diff([]string{n.Plan}, w.forge.issue.Labels); diff != "" {
				t.Errorf("write %d: labels (-want +got):\n%s", at, diff)
			}
			if diff := cmp.Diff([]string{"+" + n.Plan, "-" + n.Triage}, w.forge.calls); diff != "" {
				t.Errorf("write %d: label changes (-want +got):\n%s", at, diff)
			}
			if whole {
				if at < 5 {
					t.Errorf("only %d writes were tried", at-1)
				}
				break
			}
		}
	}
}

// What the forge cannot do now is done after the lease has run out.
func TestTransientFailuresAreRetried(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, call := range []string{"issue", "+" + n.Plan, "-" + n.Triage} {
		w := newWorld(t, n.Triage)
		run := w.start(labels.Triage)
		inner := w.walk
		w.walk = func(ctx context.Context, r checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
			w.forge.fail[call] = transient() // only at the end
			return inner(ctx, r, l)
		}
		if err := w.handle(run.ID); !forge.IsKind(err, forge.KindTransient) {
			t.Fatalf("%s: error = %v", call, err)
		}
		w.want(run.ID, checkpoints.Ending, "accepted", "")
		if len(w.ended) != 0 {
			t.Errorf("%s: ended %v", call, w.ended)
		}
		w.forge.fail = map[string]error{}
		w.sweep()
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		w.want(run.ID, checkpoints.Done, "accepted", "")
		if diff := cmp.Diff([]string{"+" + n.Plan, "-" + n.Triage}, w.forge.calls); diff != "" {
			t.Errorf("%s: label changes (-want +got):\n%s", call, diff)
		}
		if w.open() != "plan" {
			t.Errorf("%s: open run %q", call, w.open())
		}
	}
}

// A label that a person removed after the bot added it stays removed, and what
// it stood for does not start.
func TestHumanRemovalWins(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("the next phase's label, between the two calls", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		run := w.start(labels.Triage)
		w.forge.fail["-"+n.Triage] = transient()
		if err := w.handle(run.ID); err == nil {
			t.Fatal("no error")
		}
		w.forge.fail = map[string]error{}
		w.forge.set(func(i *forge.Issue) { i.Labels = without(i.Labels, n.Plan) })
		w.sweep()
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		if labels.Has(w.forge.issue.Labels, n.Plan) {
			t.Errorf("labels %v", w.forge.issue.Labels)
		}
	})
	t.Run("all of them", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		run := w.start(labels.Triage)
		w.forge.fail["-"+n.Triage] = transient()
		if err := w.handle(run.ID); err == nil {
			t.Fatal("no error")
		}
		w.forge.fail = map[string]error{}
		w.forge.set(func(i *forge.Issue) { i.Labels = nil })
		w.sweep()
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		w.want(run.ID, checkpoints.Cancelled, "cancelled", "label-gone")
		if len(w.forge.issue.Labels) != 0 || w.open() != "" {
			t.Errorf("labels %v, open run %q", w.forge.issue.Labels, w.open())
		}
	})
}

func TestWithdrawnAtTheEnd(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	tests := []struct {
		name   string
		change func(*fakeForge)
		reason string
		after  []string
	}{
		{"the label was removed", func(f *fakeForge) { f.issue.Labels = []string{"bug"} }, "the label was removed before the phase ended", []string{"bug"}},
		{"another phase was asked for", func(f *fakeForge) { f.issue.Labels = []string{n.Review} }, "the label was removed before the phase ended", []string{n.Review}},
		{"the issue was closed", func(f *fakeForge) { f.issue.Open = false }, "the issue was closed before the phase ended", []string{}},
		{"the issue is gone", func(f *fakeForge) { f.gone = true }, "the issue is gone", []string{n.Triage}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Triage)
			run := w.start(labels.Triage)
			inner := w.walk
			w.walk = func(ctx context.Context, r checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
				tt.change(w.forge)
				return inner(ctx, r, l)
			}
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, checkpoints.Cancelled, "cancelled", "label-gone")
			if got := w.get(run.ID).Reason; got != tt.reason {
				t.Errorf("reason %q", got)
			}
			if diff := cmp.Diff(tt.after, w.forge.issue.Labels); diff != "" || w.open() != "" {
				t.Errorf("open run %q, labels (-want +got):\n%s", w.open(), diff)
			}
		})
	}
}

// A repository that the bot cannot see says nothing of the issue.
func TestRepositoryOutOfReachAtTheEnd(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	lose := func(w *world) {
		inner := w.walk
		w.walk = func(ctx context.Context, r checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
			w.forge.lost = true
			return inner(ctx, r, l)
		}
	}
	w := newWorld(t, n.Triage)
	lose(w)
	run := w.start(labels.Triage)
	if err := w.handle(run.ID); err == nil {
		t.Fatal("no error")
	}
	w.want(run.ID, checkpoints.Ending, "accepted", "")
	w.forge.lost = false
	w.sweep()
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Done, "accepted", "")

	// What is cancelled anyhow ends without its labels.
	w = newWorld(t, n.Triage)
	w.ends("cancelled")
	lose(w)
	run = w.start(labels.Triage)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Cancelled, "cancelled", "")
}

func TestNextPhaseCannotStart(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("unfit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		w.next.err = fmt.Errorf("the plan phase %w: no flow", handoff.ErrUnfit)
		run := w.start(labels.Triage)
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		w.want(run.ID, checkpoints.Failed, "error", "no-next-phase")
		if got := w.get(run.ID).Reason; !strings.Contains(got, "the plan phase cannot start: no flow") {
			t.Errorf("reason %q", got)
		}
		if diff := cmp.Diff([]string{n.NeedsHuman}, w.forge.issue.Labels); diff != "" || w.open() != "" {
			t.Errorf("open run %q, labels (-want +got):\n%s", w.open(), diff)
		}
		if diff := cmp.Diff([]string{"working", "ended error no-next-phase"}, w.reporter.posts); diff != "" {
			t.Errorf("posts (-want +got):\n%s", diff)
		}
	})
	t.Run("the store fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		w.next.err = errors.New("disk is away")
		run := w.start(labels.Triage)
		if err := w.handle(run.ID); err == nil {
			t.Fatal("no error")
		}
		w.want(run.ID, checkpoints.Ending, "accepted", "")
		w.next.err = nil
		w.sweep()
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		w.want(run.ID, checkpoints.Done, "accepted", "")
	})
}

// A label change that is refused for good ends the run with an error that the
// comment and the store agree on.
func TestLabelsRefused(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, tt := range []struct {
		err  error
		code string
	}{
		{denied(), "permission-denied"},
		{&forge.Error{Kind: forge.KindInvalid, Op: "adding label", Status: 422}, "labels-refused"},
	} {
		w := newWorld(t, n.Triage)
		w.forge.fail["+"+n.Plan] = tt.err
		run := w.start(labels.Triage)
		if err := w.handle(run.ID); err != nil {
			t.Fatal(err)
		}
		w.want(run.ID, checkpoints.Failed, "error", tt.code)
		if w.open() != "" || len(w.forge.calls) != 0 {
			t.Errorf("open run %q, label changes %v", w.open(), w.forge.calls)
		}
		if diff := cmp.Diff([]string{"working", "ended error " + tt.code}, w.reporter.posts); diff != "" {
			t.Errorf("posts (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"error failed"}, w.ended); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
	}
}

// A refused read is no refusal of the labels: the token may be mended.
func TestReadDeniedAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Triage)
	run := w.start(labels.Triage)
	inner := w.walk
	w.walk = func(ctx context.Context, r checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		w.forge.fail["issue"] = denied()
		return inner(ctx, r, l)
	}
	if err := w.handle(run.ID); !forge.IsKind(err, forge.KindDenied) {
		t.Fatalf("error = %v", err)
	}
	w.want(run.ID, checkpoints.Ending, "accepted", "")
}

// A worker that loses its lease while it finishes changes no more labels.
func TestLeaseLostWhileFinishing(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	run := w.start(labels.Triage)
	w.forge.before["+"+n.Plan] = func(ctx context.Context) {
		if err := w.memory.ExpireAll(t.Context()); err != nil {
			t.Error(err)
		}
		if _, _, err := w.memory.Claim(t.Context(), run.ID, w.get(run.ID).Epoch, "other", time.Hour); err != nil {
			t.Error(err)
		}
		w.tick()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Error("the work goes on without a lease")
		}
	}
	w.forge.before["-"+n.Triage] = func(context.Context) { t.Error("the second label is changed without a lease") }
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.get(run.ID); got.Owner != "other" || got.Status != checkpoints.Ending {
		t.Errorf("run is %s of %q", got.Status, got.Owner)
	}
}

// The next phase is open already, e.g. after a person was quicker: this one is
// over all the same.
func TestNextPhaseOpenAlready(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	run := w.start(labels.Triage)
	other := w.startOther("after/" + run.ID)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Done, "accepted", "")
	if w.get(other).Status != checkpoints.Ready {
		t.Errorf("other run is %s", w.get(other).Status)
	}
}

// startOther makes a run of a plan phase whose key is spelled differently.
func (w *world) startOther(trigger string) string {
	w.t.Helper()
	run, err := w.memory.Start(w.t.Context(), checkpoints.StartReq{
		Key: "Acme/widgets#7", Trigger: trigger, Repo: "Acme/widgets", Issue: 7, Phase: "plan", Entry: "a",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return run.ID
}
