package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// child starts a child of a run and parks or halts it.
func (w *world) child(parent checkpoints.Run, key string, s checkpoints.Status, awaits string) checkpoints.Run {
	w.t.Helper()
	ctx := w.t.Context()
	w.clock.Advance(time.Second)
	run, err := w.store.Start(ctx, checkpoints.StartReq{
		Key: parent.ID + ":sub:" + key, Repo: parent.Repo, Issue: parent.Issue, Phase: "plan", Flow: "release", Lineage: parent.Lineage,
		Entry: "a", Parent: parent.ID, ParentNode: "spawn",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, l, err := w.store.Claim(ctx, run.ID, run.Epoch, "me", time.Hour)
	if err == nil && s == checkpoints.Halted {
		err = w.store.Halt(ctx, l, "halted", "stop")
	} else if err == nil {
		err = w.store.Park(ctx, l, checkpoints.Wait{Node: "a", Event: awaits, Until: w.clock.Now().Add(time.Hour)})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.get(run.ID)
}

// pending is the data of the approval that a run was given, nil for none.
func (w *world) pending(id string) map[string]any {
	w.t.Helper()
	ev, err := w.store.Pending(w.t.Context(), id, "approval")
	if err != nil {
		return nil
	}
	var data map[string]any
	if err := json.Unmarshal(ev.Data, &data); err != nil {
		w.t.Fatal(err)
	}
	return data
}

// An approval reaches the child that waits for it, with who gave it and their
// permission; a second telling of it does nothing.
//
// Covers: VK5, BL5, BL6, NX11.
func TestApprovalReachesChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	first := w.child(root, "1", checkpoints.Waiting, "approval")
	second := w.child(root, "2", checkpoints.Waiting, "approval")
	w.flows.approvers[first.ID] = []string{"role:write"}
	w.flows.approvers[second.ID] = []string{"role:write"}

	row := w.decided(said(rob(), 90, "/pipeline approve ship it"))
	if row.Decision != "refuse" || !strings.Contains(row.Explanation, "asks for one of role:write") {
		t.Errorf("a reader: %s, %s", row.Decision, row.Explanation)
	}
	if row := w.decided(said(ada(), 91, "/pipeline approve ship it")); row.Decision != "deliver" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	got := w.pending(first.ID)
	if got["by"] != "ada" || got["role"] != "write" || got["outcome"] != "ok" || got["note"] != "ship it" {
		t.Errorf("the child got %v", got)
	}
	if w.get(first.ID).Status != checkpoints.Ready || w.get(second.ID).Status != checkpoints.Waiting || w.get(root.ID).Status != checkpoints.Waiting {
		t.Error("not the first child alone was woken")
	}
	// The row comes again after a crash: the second child is not approved by it.
	if row := w.decided(said(ada(), 91, "/pipeline approve ship it")); row.Explanation != "seen before" || w.pending(second.ID) != nil {
		t.Errorf("told again: %s, %s", row.Decision, row.Explanation)
	}
}

// A comment answers the child that has waited for an answer longest, as it
// answers the issue's own run, which goes first.
//
// Covers: BL5, BL6.
func TestAnswerReachesChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	first := w.child(root, "1", checkpoints.Waiting, "answer")
	second := w.child(root, "2", checkpoints.Waiting, "answer")
	tom := forge.Actor{ID: 9, Login: "tom"} // may only read, and is not the author
	if row := w.decided(said(tom, 90, "Blue.")); row.Decision != "ignore" || !strings.Contains(row.Explanation, "only the issue's author") {
		t.Errorf("a reader: %s, %s", row.Decision, row.Explanation)
	}
	for range 2 { // told twice
		if row := w.decided(said(rob(), 91, "Red.")); row.Decision != "deliver" {
			t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
		}
	}
	ev, err := w.store.Pending(t.Context(), first.ID, "answer")
	if err != nil || string(ev.Data) != `{"by":"rob","comment":91}` {
		t.Errorf("the child got %s, %v", ev.Data, err)
	}
	if w.get(first.ID).Status != checkpoints.Ready || w.get(second.ID).Status != checkpoints.Waiting || w.get(root.ID).Status != checkpoints.Waiting {
		t.Error("not the first child alone was woken")
	}
	// A command is no answer.
	if row := w.decided(said(ada(), 92, "/pipeline approve")); row.Decision != "refuse" || w.get(second.ID).Status != checkpoints.Waiting {
		t.Errorf("a command: %s, %s", row.Decision, row.Explanation)
	}
	// The issue's own run goes first.
	w = newWorld(t, labels.Default().Triage)
	root, _ = w.run(7, labels.Triage, checkpoints.Waiting, "answer")
	child := w.child(root, "1", checkpoints.Waiting, "answer")
	w.decided(said(rob(), 93, "Green."))
	if w.get(root.ID).Status != checkpoints.Ready || w.get(child.ID).Status != checkpoints.Waiting {
		t.Error("the child was answered before its parent")
	}
}

// Children do not stand for the issue's run, which decides what labels mean.
func TestChildIsNotTheIssuesRun(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	w.child(root, "1", checkpoints.Waiting, "approval")
	w.forge.issues[7] = forge.Issue{Ref: ref(7), Open: true, Author: rob()}
	if row := w.decided(unlabeled(n.Implement, ada(), 5)); row.Decision != "cancel" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if got := w.get(root.ID); got.Status != checkpoints.Ending {
		t.Errorf("the root is %s", got.Status)
	}
}

// Lifting a stop wakes halted children too.
func TestLiftWakesChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	child := w.child(root, "1", checkpoints.Halted, "")
	if err := w.store.SetStop(t.Context(), checkpoints.Stop{Scope: "acme/widgets#7", By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if row := w.decided(operator(forge.ManualResume, "")); row.Decision != "lift" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if got := w.get(child.ID); got.Status != checkpoints.Ready {
		t.Errorf("the child is %s", got.Status)
	}
}

// Lifting a stop wakes all that it halted, however many, and an answer finds
// the one that has waited longest behind any number of others.
func TestManyRunsOfAnIssue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	asks := w.child(root, "asks", checkpoints.Waiting, "answer")
	var halted []checkpoints.Run
	for i := range 10_001 {
		halted = append(halted, w.child(root, fmt.Sprint(i), checkpoints.Halted, ""))
	}
	if row := w.decided(said(ada(), 92, "blue, please")); row.Decision != "deliver" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if _, err := w.store.Pending(t.Context(), asks.ID, "answer"); err != nil {
		t.Error(err)
	}
	if err := w.store.SetStop(t.Context(), checkpoints.Stop{Scope: "acme/widgets", By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if row := w.decided(unlabeled(labels.Default().StopAll, ada(), 31)); row.Decision != "lift-all" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	for i, r := range halted {
		if got := w.get(r.ID).Status; got != checkpoints.Ready {
			t.Fatalf("child %d is %s", i, got)
		}
	}
}

// An operator cancels the run that they name, also a child.
func TestCancelNamedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Implement)
	root, _ := w.run(7, labels.Implement, checkpoints.Waiting, "child/x")
	child := w.child(root, "1", checkpoints.Waiting, "approval")
	ev := operator(forge.ManualCancel, "")
	ev.Order = &forge.Order{By: "root", Run: child.ID}
	if row := w.decided(ev); row.Decision != "cancel" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if c, r := w.get(child.ID), w.get(root.ID); c.Status != checkpoints.Ending || r.Status != checkpoints.Waiting {
		t.Errorf("the child is %s, the root %s", c.Status, r.Status)
	}
	ev.Order.Run = "gone"
	if row := w.decided(ev); row.Decision != "ignore" {
		t.Errorf("a run that is not there: %s", row.Decision)
	}
}

// lined makes starts share one concurrency key.
func lined(policy string) func(handoff.Ask, *checkpoints.StartReq) {
	return func(_ handoff.Ask, r *checkpoints.StartReq) { r.Concurrency, r.OnConflict = "acme/widgets", policy }
}

// Two issues with one concurrency key: the newer run waits, takes the older
// one's place, or is refused with the other's id.
//
// Covers: NX2, NX3.
func TestConcurrencyKeys(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, tt := range []struct {
		policy        string
		decision      string
		older, newer  checkpoints.Status
		says          string
		labelComesOff bool
	}{
		{checkpoints.OnConflictQueue, "start", checkpoints.Running, checkpoints.Queued, "it waits for an earlier run", false},
		{checkpoints.OnConflictReplace, "start", checkpoints.Running, checkpoints.Queued, "it replaces run", false},
		{checkpoints.OnConflictReject, "refuse", checkpoints.Running, "", "has the same concurrency key", true},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Plan)
			w.starts.change = lined(tt.policy)
			w.decided(labeled(n.Plan, ada(), 1))
			older := w.runs()[0]
			if _, _, err := w.store.Claim(t.Context(), older.ID, older.Epoch, "me", time.Hour); err != nil {
				t.Fatal(err)
			}
			ev := labeled(n.Plan, ada(), 2)
			ev.Issue = ref(8)
			w.clock.Advance(time.Second)
			row := w.decided(ev)
			if row.Decision != tt.decision || !strings.Contains(row.Explanation, tt.says) {
				t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
			}
			if tt.newer == "" && !strings.Contains(row.Explanation, older.ID) {
				t.Errorf("the first run's id is not named: %s", row.Explanation)
			}
			if off := !labels.Has(w.on(8), n.Plan); off != tt.labelComesOff {
				t.Errorf("labels of issue 8: %v", w.on(8))
			}
			var newer checkpoints.Status
			for _, r := range w.runs() {
				if r.Issue == 8 {
					newer = r.Status
				}
			}
			if got := w.get(older.ID).Status; got != tt.older || newer != tt.newer {
				t.Errorf("the older run is %s, the newer %q", got, newer)
			}
			asked := fmt.Sprint(w.work.calls)
			if replaced := strings.Contains(asked, "replaced by the newer run"); replaced != (tt.policy == checkpoints.OnConflictReplace) {
				t.Errorf("asked of the work in flight: %s", asked)
			}
		})
	}
}

// A replaced run is ended also when the process died between the start and
// the end, and the row comes again.
func TestReplaceAfterCrash(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	w.starts.change = lined(checkpoints.OnConflictReplace)
	w.decided(labeled(n.Plan, ada(), 1))
	older := w.runs()[0]
	// The row's start happened, and nothing after it.
	w.clock.Advance(time.Second)
	req, err := w.starts.First(context.Background(), handoff.Ask{Ref: ref(8), Phase: labels.Plan, Trigger: "label-event/2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Start(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	ev := labeled(n.Plan, ada(), 2)
	ev.Issue = ref(8)
	w.decided(ev)
	if got := w.get(older.ID); got.Status != checkpoints.Ending || got.Code != checkpoints.Replaced {
		t.Errorf("the older run is %s, code %q", got.Status, got.Code)
	}
}

// A shadow run starts beside the real one and touches no label.
//
// Covers: BL18.
func TestShadowStart(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t)
	real, _ := w.run(7, labels.Plan, checkpoints.Waiting, "approval")
	ev := operator(forge.ManualRun, n.Plan)
	ev.Order = &forge.Order{By: "root", Shadow: true, Flow: "mine"}
	if row := w.decided(ev); row.Decision != "start" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if len(w.on(7)) != 0 {
		t.Errorf("labels: %v", w.on(7))
	}
	runs := w.runs()
	if len(runs) != 2 || w.get(real.ID).Status != checkpoints.Waiting {
		t.Fatalf("runs: %+v", runs)
	}
	for _, r := range runs {
		if r.ID != real.ID && (r.Mode != checkpoints.ModeShadow || r.Flow != "mine") {
			t.Errorf("the shadow run is %+v", r)
		}
	}
}

// A fork starts a run from a node of one that is over, under the label of its
// phase.
//
// Covers: NX1.
func TestFork(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t)
	source, l := w.run(7, labels.Plan, checkpoints.Ending, "")
	ev := operator(forge.ManualFork, "")
	ev.Order = &forge.Order{By: "root", Run: source.ID, Node: "draft", Set: map[string]json.RawMessage{"risk": json.RawMessage(`"low"`)}}
	if row := w.decided(ev); row.Decision != "refuse" || !strings.Contains(row.Explanation, "is open") {
		t.Fatalf("an open source: %s, %s", row.Decision, row.Explanation)
	}
	if _, err := w.store.Finish(t.Context(), l, checkpoints.Failed, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{engine.ErrFork, flows.ErrInvalidState, flows.ErrDrift, flows.ErrCorrupt} {
		w.flows.err = fmt.Errorf("no node draft: %w", err)
		if row := w.decided(ev); row.Decision != "refuse" || !strings.Contains(row.Explanation, "no node draft") {
			t.Fatalf("a fork that does not fit (%v): %s, %s", err, row.Decision, row.Explanation)
		}
	}
	w.flows.err = nil
	if row := w.decided(ev); row.Decision != "start" {
		t.Fatalf("decision %s: %s", row.Decision, row.Explanation)
	}
	if !labels.Has(w.on(7), n.Plan) {
		t.Errorf("labels: %v", w.on(7))
	}
	for _, r := range w.runs() {
		if r.ID != source.ID && (r.Forked != source.ID || r.Next != "draft" || string(r.State) != `{"risk":"low"}`) {
			t.Errorf("the fork is %+v", r)
		}
	}
	if row := w.decided(ev); row.Decision != "refuse" || !strings.Contains(row.Explanation, "is open for the issue") {
		t.Errorf("a second fork: %s, %s", row.Decision, row.Explanation)
	}
}
