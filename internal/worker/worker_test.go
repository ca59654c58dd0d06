package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/labels"
)

func TestOldTokens(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	run := w.start(labels.Triage)
	if _, _, err := w.memory.Claim(t.Context(), run.ID, run.Epoch, "other", time.Hour); err != nil {
		t.Fatal(err)
	}
	for name, tok := range map[string]queue.Token{
		"claimed by another": {Kind: queue.Run, ID: run.ID, Epoch: run.Epoch + 1},
		"an old epoch":       {Kind: queue.Run, ID: run.ID, Epoch: run.Epoch},
		"no such run":        {Kind: queue.Run, ID: "nothing", Epoch: 1},
	} {
		if err := w.w.Handle(t.Context(), tok); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.get(run.ID); got.Owner != "other" || len(w.reporter.posts) != 0 {
		t.Errorf("owner %q, posts %v", got.Owner, w.reporter.posts)
	}
}

func TestPhaseEnds(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, "bug", n.Triage)
	run := w.start(labels.Triage)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Done, "accepted", "")
	if diff := cmp.Diff([]string{"+" + n.Plan, "-" + n.Triage}, w.forge.calls); diff != "" {
		t.Errorf("label changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"working", "ended accepted "}, w.reporter.posts); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
	if w.open() != "plan" {
		t.Errorf("open run %q", w.open())
	}
	if diff := cmp.Diff([]string{"accepted done"}, w.ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

// A run whose `finally` actions kill the process, too, ends without them.
func TestPoisonToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	w.walk = func(context.Context, checkpoints.Run, checkpoints.Lease) (engine.Outcome, error) {
		return engine.Outcome{}, errors.New("the process dies here")
	}
	run := w.start(labels.Plan)
	for range 8 {
		if err := w.handle(run.ID); err == nil {
			t.Fatal("no error")
		}
		w.sweep()
	}
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Failed, "error", "poison")
}

func TestNotAdmitted(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	tests := []struct {
		name   string
		change func(*fakeForge)
		reason string
		calls  []string
	}{
		{"the label is gone", func(f *fakeForge) { f.issue.Labels = []string{"bug"} }, "the pipeline:plan label was removed", nil},
		{"another phase is asked for", func(f *fakeForge) { f.issue.Labels = []string{n.Triage} }, "the pipeline:plan label was removed", nil},
		{"closed", func(f *fakeForge) { f.issue.Open = false }, "the issue was closed", []string{"-" + n.Plan}},
		{"locked", func(f *fakeForge) { f.issue.Locked = true }, "the issue was locked", []string{"-" + n.Plan}},
		{"gone", func(f *fakeForge) { f.gone = true }, "the issue is gone", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Plan)
			tt.change(w.forge)
			run := w.start(labels.Plan)
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, checkpoints.Cancelled, "cancelled", "label-gone")
			if got := w.get(run.ID).Reason; !strings.HasPrefix(got, tt.reason) {
				t.Errorf("reason %q, want %q", got, tt.reason)
			}
			if diff := cmp.Diff(tt.calls, w.forge.calls); diff != "" {
				t.Errorf("label changes (-want +got):\n%s", diff)
			}
			// Nothing was worked on, and the comment never says so.
			if diff := cmp.Diff([]string{"ended cancelled label-gone"}, w.reporter.posts); diff != "" {
				t.Errorf("posts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreadableIssueParks(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for name, change := range map[string]func(*fakeForge){
		"transient": func(f *fakeForge) { f.fail["issue"] = transient() },
		"denied":    func(f *fakeForge) { f.fail["issue"] = denied() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Plan)
			change(w.forge)
			run := w.start(labels.Plan)
			for range 10 { // an outage makes no run poison
				if err := w.handle(run.ID); err != nil {
					t.Fatal(err)
				}
				w.want(run.ID, checkpoints.Waiting, "", "")
				got := w.get(run.ID)
				if got.Wait == nil || got.Wait.Event != "" || !got.Wait.Until.Equal(w.clock.Now().Add(30*time.Second)) || !strings.HasPrefix(got.Wait.Why, "GitHub cannot be read: ") {
					t.Fatalf("wait = %+v", got.Wait)
				}
				w.sweep()
			}
			w.forge.fail, w.forge.lost = map[string]error{}, false
			w.ends("approved")
			if err := w.handle(run.ID); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, checkpoints.Done, "approved", "")
		})
	}
}

// A store that cannot park is an error, and not mistaken for a lost lease.
func TestParkFails(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	down := errors.New("disk is away")
	w.store = failing{Store: w.memory, park: down}
	w.build()
	w.forge.fail["issue"] = transient()
	if err := w.handle(w.start(labels.Plan).ID); !errors.Is(err, down) {
		t.Errorf("error = %v", err)
	}
}

func TestPoison(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	walks := 0
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		walks++
		if ctx.Err() != nil {
			return w.interrupted(ctx, run, l) // where `finally` actions run
		}
		return engine.Outcome{}, errors.New("the process dies here")
	}
	run := w.start(labels.Plan)
	for range 6 {
		if err := w.handle(run.ID); err == nil {
			t.Fatal("no error")
		}
		w.sweep()
	}
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Failed, "error", "poison")
	if walks != 7 || !strings.Contains(w.get(run.ID).Reason, `started 6 times without completing the step "a"`) {
		t.Errorf("%d walks, reason %q", walks, w.get(run.ID).Reason)
	}
	if diff := cmp.Diff([]string{"+" + n.NeedsHuman, "-" + n.Plan}, w.forge.calls); diff != "" {
		t.Errorf("label changes (-want +got):\n%s", diff)
	}
}

// A lease that is lost ends the flight, and nothing more is written.
func TestLostLease(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	began := w.blocks()
	run := w.start(labels.Triage)
	wait := w.begin(run.ID)
	<-began
	// Another process takes over.
	if err := w.memory.ExpireAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.memory.Claim(t.Context(), run.ID, w.get(run.ID).Epoch, "other", time.Hour); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := w.get(run.ID); got.Owner != "other" || got.Status != checkpoints.Running {
		t.Errorf("run is %s of %q", got.Status, got.Owner)
	}
	if diff := cmp.Diff([]string{"working"}, w.reporter.posts); diff != "" || len(w.forge.calls) != 0 {
		t.Errorf("label changes %v, posts (-want +got):\n%s", w.forge.calls, diff)
	}
}

// The lease is kept as long as the work lasts.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	began := w.blocks()
	run := w.start(labels.Triage)
	wait := w.begin(run.ID)
	<-began
	for range 5 {
		before := w.get(run.ID).LeaseUntil
		w.tick()
		for deadline := time.Now().Add(10 * time.Second); !w.get(run.ID).LeaseUntil.After(before); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("the lease was not renewed")
			}
		}
	}
	w.w.Drain()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Ready, "", "")
}

// tick lets the renewal's timer fire once.
func (w *world) tick() {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.clock.Waiting() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			w.t.Fatal("nobody keeps the lease")
		}
	}
	w.clock.Advance(lease / 3)
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	tests := []struct {
		name         string
		do           func(*world, string) error
		status       checkpoints.Status
		result, code string
		posts        []string
	}{
		{
			"cancel", func(w *world, id string) error {
				return w.w.Cancel(w.t.Context(), id, checkpoints.Ended{Result: "closed", Code: "cancelled", Reason: "the issue was closed"})
			},
			checkpoints.Cancelled, "closed", "cancelled", []string{"working", "ended closed cancelled"},
		},
		{
			"stop of the issue", func(w *world, _ string) error { w.w.Halt("Acme/Widgets#7", "ada said so"); return nil },
			checkpoints.Halted, "", "halted", []string{"working", "halted"},
		},
		{
			"stop of the repository", func(w *world, _ string) error { w.w.Halt("acme/widgets", "ada said so"); return nil },
			checkpoints.Halted, "", "halted", []string{"working", "halted"},
		},
		{
			"shutdown", func(w *world, _ string) error { w.w.Drain(); return nil },
			checkpoints.Ready, "", "", []string{"working"},
		},
		{
			"a stop elsewhere, then a shutdown", func(w *world, _ string) error { w.w.Halt("acme/widgets#8", "no"); w.w.Drain(); return nil },
			checkpoints.Ready, "", "", []string{"working"},
		},
		{
			"a cancel after a stop", func(w *world, id string) error {
				w.w.Halt("acme/widgets", "ada said so")
				return w.w.Cancel(w.t.Context(), id, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: "an operator cancelled the run"})
			},
			checkpoints.Ending, "cancelled", "cancelled", []string{"working"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Plan)
			began, hold := w.blocks(), make(chan struct{})
			blocked := w.walk
			w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
				defer func() { <-hold }() // the walk is not over before all is said
				return blocked(ctx, run, l)
			}
			run := w.start(labels.Plan)
			wait := w.begin(run.ID)
			<-began
			err := tt.do(w, run.ID)
			close(hold)
			if err != nil {
				t.Fatal(err)
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			w.want(run.ID, tt.status, tt.result, tt.code)
			if diff := cmp.Diff(tt.posts, w.reporter.posts); diff != "" {
				t.Errorf("posts (-want +got):\n%s", diff)
			}
		})
	}
}

// A request to cancel reaches a run that nobody has in work here: whoever
// claims it next obeys.
func TestCancelBeforeTheClaim(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	run := w.start(labels.Plan)
	if err := w.w.Cancel(t.Context(), run.ID, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: "an operator cancelled the run"}); err != nil {
		t.Fatal(err)
	}
	w.build() // the process dies in between
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Cancelled, "cancelled", "cancelled")
	if got := w.get(run.ID).Reason; got != "an operator cancelled the run" {
		t.Errorf("reason %q", got)
	}
}

// A request to cancel that comes while the run is being given up is obeyed.
func TestCancelDuringThePark(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		wait := checkpoints.Wait{Node: "a", Event: "approval"}
		if err := w.store.Park(ctx, l, wait); err != nil {
			return engine.Outcome{}, err
		}
		run.Status, run.Wait = checkpoints.Waiting, &wait
		return engine.Outcome{How: engine.Parked, Run: run}, w.w.Cancel(ctx, run.ID, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: "too late for the walk"})
	}
	run := w.start(labels.Plan)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Ending, "cancelled", "cancelled")
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Cancelled, "cancelled", "cancelled")
	if diff := cmp.Diff([]string{"working", "ended cancelled cancelled"}, w.reporter.posts); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
}

// An event may wake a run while its last flight still tells that it waits. The
// end of the old flight must not hide the new one, nor may its renewal, which
// finds the lease gone, end the new one.
func TestTwoFlightsOfARun(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	parks := true
	began := make(chan struct{}, 1)
	w.walk = func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		if parks {
			parks = false
			run.Wait = &checkpoints.Wait{Node: "a", Event: "approval"}
			return engine.Outcome{How: engine.Parked, Run: run}, w.store.Park(ctx, l, *run.Wait)
		}
		began <- struct{}{}
		<-ctx.Done()
		return w.interrupted(ctx, run, l)
	}
	posting, release := make(chan struct{}), make(chan struct{})
	w.reporter.hook = func(_ context.Context, s report.State) {
		if s == report.Waiting {
			close(posting)
			<-release
		}
	}
	run := w.start(labels.Plan)
	first := w.begin(run.ID)
	<-posting
	if _, err := w.memory.Deliver(t.Context(), run.ID, checkpoints.Event{Key: "comment/1", Kind: "approval"}); err != nil {
		t.Fatal(err)
	}
	second := w.begin(run.ID)
	<-began
	w.tick() // the first one's renewal finds that its lease is gone
	close(release)
	if err := first(); err != nil {
		t.Fatal(err)
	}
	if got := w.get(run.ID); got.Status != checkpoints.Running {
		t.Fatalf("status %s", got.Status)
	}
	w.w.Halt("acme/widgets#7", "ada said so")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Halted, "", "halted")
}

func TestDrainedWorkerTakesNothing(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	w.w.Drain()
	run := w.start(labels.Plan)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.get(run.ID); got.Status != checkpoints.Ready || got.Starts != 0 {
		t.Errorf("status %s, %d starts", got.Status, got.Starts)
	}
}

// A drain while the issue is read gives the run back, and does not walk it.
func TestDrainDuringAdmission(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	w.forge.before["issue"] = func(context.Context) { w.w.Drain() }
	run := w.start(labels.Plan)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Ready, "", "")
	if len(w.reporter.posts) != 0 {
		t.Errorf("posts %v", w.reporter.posts)
	}
}

func TestStoreFailsDuringTheWalk(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	down := errors.New("disk is away")
	for err, want := range map[error]error{down: down, checkpoints.ErrLost: nil} {
		w := newWorld(t, n.Plan)
		w.walk = func(context.Context, checkpoints.Run, checkpoints.Lease) (engine.Outcome, error) {
			return engine.Outcome{}, err
		}
		if got := w.handle(w.start(labels.Plan).ID); !errors.Is(got, want) {
			t.Errorf("error = %v, want %v", got, want)
		}
		if len(w.forge.calls) != 0 {
			t.Errorf("label changes %v", w.forge.calls)
		}
	}
}

// Covers: HF13.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	run := w.start(labels.Plan)
	if on, _, err := w.w.KillSwitch(t.Context(), run); on || err != nil {
		t.Errorf("on %v, error %v", on, err)
	}
	if err := w.w.CheckEffect(t.Context(), run); err != nil {
		t.Errorf("error = %v", err)
	}
	if err := w.memory.SetStop(t.Context(), checkpoints.Stop{Scope: "Acme/widgets", Reason: "ada said so"}); err != nil {
		t.Fatal(err)
	}
	if on, reason, err := w.w.KillSwitch(t.Context(), run); !on || reason != "ada said so" || err != nil {
		t.Errorf("on %v, reason %q, error %v", on, reason, err)
	}
	if err := w.w.CheckEffect(t.Context(), run); !errors.Is(err, flows.ErrHalted) {
		t.Errorf("error = %v", err)
	}
	// A stop that cannot be read is in force.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if on, _, err := w.w.KillSwitch(ctx, run); !on || err == nil {
		t.Errorf("on %v, error %v", on, err)
	}
	if err := w.w.CheckEffect(ctx, run); err == nil || errors.Is(err, flows.ErrHalted) {
		t.Errorf("error = %v", err)
	}
}

func TestCheckEffectReadsTheLabel(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.AwaitingApproval)
	run := w.start(labels.Plan)
	if err := w.w.CheckEffect(t.Context(), run); err != nil {
		t.Errorf("awaiting-approval is the plan phase: %v", err)
	}
	w.forge.set(func(i *forge.Issue) { i.Labels = nil })
	if err := w.w.CheckEffect(t.Context(), run); !errors.Is(err, flows.ErrLabelGone) {
		t.Errorf("error = %v", err)
	}
	w.forge.lost = true
	if err := w.w.CheckEffect(t.Context(), run); err == nil || errors.Is(err, flows.ErrLabelGone) {
		t.Errorf("a repository out of reach: error = %v", err)
	}
}
