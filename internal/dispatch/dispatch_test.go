package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

func denied() error    { return &forge.Error{Kind: forge.KindDenied, Op: "writing", Status: 403} }
func transient() error { return &forge.Error{Kind: forge.KindTransient, Op: "calling", Status: 502} }

func TestStart(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	row := w.decided(labeled(n.Triage, ada(), 31))
	if row.Decision != "start" || row.Explanation != "@ada asked for the triage phase" {
		t.Errorf("decision %q: %s", row.Decision, row.Explanation)
	}
	runs := w.runs()
	if len(runs) != 1 || runs[0].Phase != "triage" || runs[0].Trigger != "label-event/31" || runs[0].Status != checkpoints.Ready {
		t.Fatalf("runs = %+v", runs)
	}
	if len(w.forge.calls) != 0 {
		t.Errorf("writes: %v", w.forge.calls)
	}
}

// A webhook and a poll of one event start one run and tell once, in whatever
// order and at the same time.
func TestToldOfTwice(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, actor := range []forge.Actor{ada(), rob()} { // one may, one may not
		w := newWorld(t, n.Triage)
		w.forge.log[7] = []forge.IssueEvent{
			{ID: 30, Kind: "labeled", Label: n.Triage, Actor: forge.Actor{ID: 99, Login: "admin"}},
			{ID: 31, Kind: "labeled", Label: n.Triage, Actor: actor},
		}
		hook := labeled(n.Triage, actor, 0)
		hook.Source = "webhook"
		ids := []string{w.give(hook), w.give(labeled(n.Triage, actor, 31))}
		ids = append(ids, ids...) // and every token twice
		var group sync.WaitGroup
		errs := make([]error, len(ids))
		for i, id := range ids {
			group.Go(func() { _, errs[i] = w.handle(id) })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		starts, told := 1, 0
		if actor.Login == "rob" {
			starts, told = 0, 1
		}
		if len(w.runs()) != starts || len(w.forge.told(7)) != told {
			t.Errorf("%s: %d runs, told %q", actor.Login, len(w.runs()), w.forge.told(7))
		}
	}
}

// A second token of a row changes nothing of what the first has decided.
func TestDecidedOnce(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	id := w.give(labeled(n.Triage, ada(), 31))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { _, _ = w.handle(id) })
	}
	group.Wait()
	if got := w.row(id).Decision; got != "start" {
		t.Errorf("decision %q", got)
	}
}

// The issue's log may be behind a webhook: another actor's older entry lends
// its rights to nobody.
func TestResolve(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t)
	if err := w.store.SetStop(t.Context(), checkpoints.Stop{Scope: "acme/widgets#7"}); err != nil {
		t.Fatal(err)
	}
	w.forge.log[7] = []forge.IssueEvent{{ID: 30, Kind: "unlabeled", Label: n.Stop, Actor: ada()}}
	hook := unlabeled(n.Stop, rob(), 0)
	id := w.give(hook)
	if got, err := w.handle(id); got != "" || err != nil {
		t.Errorf("before the log can be expected to have it: %q, %v", got, err)
	}
	w.clock.Advance(time.Minute)
	if _, err := w.handle(id); err != nil {
		t.Fatal(err)
	}
	row := w.row(id)
	if row.Decision != "refuse" || !w.stopped(7) || !labels.Has(w.on(7), n.Stop) {
		t.Errorf("decision %q (%s), stopped %v, labels %v", row.Decision, row.Explanation, w.stopped(7), w.on(7))
	}
}

func TestUnfitStart(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	unfit := fmt.Errorf("the implement phase of acme/widgets#7 %w: plan_ref: %w", handoff.ErrUnfit, flows.ErrInvalidState)
	for name, ev := range map[string]forge.Event{
		"label": labeled(n.Implement, ada(), 31), "operator": operator(forge.ManualRun, n.Implement),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if ev.Kind == forge.Labeled {
				w = newWorld(t, n.Implement, "bug")
			}
			w.starts.err = unfit
			row := w.decided(ev)
			if row.Decision != "refuse" || !strings.Contains(row.Explanation, "plan_ref") {
				t.Errorf("decision %q: %s", row.Decision, row.Explanation)
			}
			if labels.Has(w.on(7), n.Implement) || len(w.runs()) != 0 {
				t.Errorf("labels %v, %d runs", w.on(7), len(w.runs()))
			}
			told := w.forge.told(7)
			if len(told) != 1 || !strings.HasPrefix(told[0], "The implement phase of acme/widgets") || !strings.Contains(told[0], "cannot start: plan_ref") {
				t.Errorf("told %q", told)
			}
		})
	}
}

func TestStoreFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	w.starts.err = errors.New("disk is away")
	id := w.give(labeled(n.Triage, ada(), 31))
	if got, err := w.handle(id); err == nil || got != "" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	w.starts.err = nil
	if got, err := w.handle(id); err != nil || got != "start" {
		t.Errorf("decision %q, error %v", got, err)
	}
}

func TestManualRun(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t)
	id := w.give(operator(forge.ManualRun, n.Plan))
	if got, err := w.handle(id); err != nil || got != "start" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	runs := w.runs()
	if len(runs) != 1 || runs[0].Phase != "plan" || !labels.Has(w.on(7), n.Plan) {
		t.Fatalf("runs %+v, labels %v", runs, w.on(7))
	}
	// Asked only when it matters.
	if len(w.forge.asked) != 0 {
		t.Errorf("permissions asked of an operator: %v", w.forge.asked)
	}
	if runs[0].Trigger != "row/"+id {
		t.Errorf("trigger %q", runs[0].Trigger)
	}
}

func TestManualRunOfNoIssue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.forge.issues, 7)
	row := w.decided(operator(forge.ManualRun, labels.Default().Plan))
	if row.Decision != "refuse" || row.Explanation != "acme/widgets#7 does not exist, or the bot cannot see it" {
		t.Errorf("decision %q: %s", row.Decision, row.Explanation)
	}
}

func TestHaltedRun(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("same phase resumes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Plan)
		run, _ := w.run(7, labels.Plan, checkpoints.Halted, "")
		if row := w.decided(labeled(n.Plan, ada(), 31)); row.Decision != "resume" {
			t.Errorf("decision %q", row.Decision)
		}
		if got := w.get(run.ID).Status; got != checkpoints.Ready {
			t.Errorf("status %s", got)
		}
	})
	t.Run("another phase replaces", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		run, _ := w.run(7, labels.Plan, checkpoints.Halted, "")
		id := w.give(labeled(n.Triage, ada(), 31))
		for range 2 { // it waits until the old run is over
			if got, err := w.handle(id); err != nil || got != "" {
				t.Fatalf("decision %q, error %v", got, err)
			}
		}
		old := w.get(run.ID)
		if old.Status != checkpoints.Ending || old.Result != "cancelled" {
			t.Fatalf("old run %s %s", old.Status, old.Result)
		}
		_, l, err := w.store.Claim(t.Context(), old.ID, old.Epoch, "me", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Finish(t.Context(), l, checkpoints.Cancelled, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := w.handle(id); err != nil || got != "start" || len(w.runs()) != 2 {
			t.Errorf("decision %q, error %v, %d runs", got, err, len(w.runs()))
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	withdrawn := unlabeled(n.Plan, ada(), 32)
	closed := forge.Event{Kind: forge.IssueClosed, Issue: ref(7), Actor: ada(), Source: "webhook"}
	for _, s := range []checkpoints.Status{checkpoints.Ready, checkpoints.Waiting} {
		w := newWorld(t)
		run, _ := w.run(7, labels.Plan, s, "approval")
		if row := w.decided(withdrawn); row.Decision != "cancel" {
			t.Errorf("%s: decision %q", s, row.Decision)
		}
		got := w.get(run.ID)
		if got.Status != checkpoints.Ending || got.Result != "cancelled" || got.Code != "cancelled" || len(w.work.calls) != 0 {
			t.Errorf("%s: run %s %s %s, calls %v", s, got.Status, got.Result, got.Code, w.work.calls)
		}
	}
	t.Run("in flight", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		issue := w.forge.issues[7]
		issue.Open = false
		w.forge.issues[7] = issue
		run, _ := w.run(7, labels.Plan, checkpoints.Running, "")
		if row := w.decided(closed); row.Decision != "cancel" {
			t.Errorf("decision %q", row.Decision)
		}
		if diff := cmp.Diff([]string{"cancel closed: the issue was closed"}, w.work.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := w.get(run.ID).Status; got != checkpoints.Running {
			t.Errorf("status %s", got)
		}
	})
	t.Run("given up while it is asked for", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		run, l := w.run(7, labels.Plan, checkpoints.Running, "")
		w.work.cancel = func() error { return w.store.Park(t.Context(), l, checkpoints.Wait{Node: "a", Event: "approval"}) }
		if row := w.decided(withdrawn); row.Decision != "cancel" {
			t.Errorf("decision %q", row.Decision)
		}
		if got := w.get(run.ID); got.Status != checkpoints.Ending || got.Result != "cancelled" {
			t.Errorf("run %s %s", got.Status, got.Result)
		}
	})
	t.Run("the request cannot be kept", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run(7, labels.Plan, checkpoints.Running, "")
		w.work.cancel = func() error { return errors.New("disk is away") }
		if got, err := w.handle(w.give(withdrawn)); err == nil || got != "" {
			t.Errorf("decision %q, error %v", got, err)
		}
	})
	t.Run("ending already", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run(7, labels.Plan, checkpoints.Ending, "")
		if row := w.decided(withdrawn); row.Decision != "ignore" {
			t.Errorf("decision %q", row.Decision)
		}
	})
}

func TestIssueGone(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("transferred", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		delete(w.forge.issues, 7)
		run, _ := w.run(7, labels.Plan, checkpoints.Waiting, "approval")
		// Whatever the event was: the issue is not there any more.
		if row := w.decided(said(ada(), 991, "hello")); row.Decision != "cancel" {
			t.Errorf("decision %q", row.Decision)
		}
		if got := w.get(run.ID).Result; got != "cancelled" {
			t.Errorf("result %q", got)
		}
	})
	t.Run("repository out of reach", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Plan)
		w.forge.lost = true
		run, _ := w.run(7, labels.Plan, checkpoints.Waiting, "approval")
		id := w.give(forge.Event{Kind: forge.IssueGone, Issue: ref(7), Source: "poll"})
		if got, err := w.handle(id); err == nil || got != "" {
			t.Errorf("decision %q, error %v", got, err)
		}
		if got := w.get(run.ID).Status; got != checkpoints.Waiting {
			t.Errorf("status %s", got)
		}
		// An operator can end the work all the same.
		if row := w.decided(operator(forge.ManualCancel, "")); row.Decision != "cancel" {
			t.Errorf("decision %q", row.Decision)
		}
		if got := w.get(run.ID).Status; got != checkpoints.Ending {
			t.Errorf("status %s", got)
		}
	})
}

func TestPermission(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("API fails, then given up after a day", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		w.forge.fail["Permission"] = transient()
		id := w.give(labeled(n.Triage, ada(), 31))
		w.clock.Advance(24*time.Hour - time.Second)
		if got, err := w.handle(id); !forge.IsKind(err, forge.KindTransient) || got != "" {
			t.Errorf("decision %q, error %v", got, err)
		}
		w.clock.Advance(time.Second)
		if got, err := w.handle(id); !forge.IsKind(err, forge.KindTransient) || got != "failed" {
			t.Errorf("decision %q, error %v", got, err)
		}
		if row := w.row(id); !strings.Contains(row.Explanation, "asking what @ada may do") {
			t.Errorf("explanation %q", row.Explanation)
		}
		if len(w.runs()) != 0 {
			t.Error("a run was started")
		}
	})
	t.Run("deleted account", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Triage)
		w.forge.may["ghost"] = forge.Admin // somebody else has the name
		row := w.decided(labeled(n.Triage, forge.Actor{Login: "ghost"}, 31))
		if row.Decision != "refuse" || len(w.runs()) != 0 || len(w.forge.asked) != 0 {
			t.Errorf("decision %q, %d runs, asked %v", row.Decision, len(w.runs()), w.forge.asked)
		}
	})
	t.Run("not asked for what concerns nobody", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "bug")
		for _, ev := range []forge.Event{labeled("bug", ada(), 31), labeled(n.Plan, bot(), 32), said(ada(), 1, "hello")} {
			if row := w.decided(ev); row.Decision != "ignore" {
				t.Errorf("decision %q", row.Decision)
			}
		}
		if len(w.forge.asked) != 0 {
			t.Errorf("asked %v", w.forge.asked)
		}
	})
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"kind":7}`, `not JSON`, `{}`, `null`, `{"kind":"labeled","issue":{"number":0}}`, `{"issue":{"repo":{"owner":"a","name":"b"},"number":7}}`} {
		w := newWorld(t)
		if got, err := w.handle(w.giveRaw([]byte(body))); err != nil || got != "unreadable" {
			t.Errorf("%s: decision %q, error %v", body, got, err)
		}
	}
	w := newWorld(t)
	if err := w.d.Handle(t.Context(), "nothing"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("error = %v", err)
	}
}
