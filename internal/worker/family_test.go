package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/labels"
)

// child starts a child of a run.
func (w *world) child(parent checkpoints.Run, key, closing string) checkpoints.Run {
	w.t.Helper()
	run, err := w.memory.Start(w.t.Context(), checkpoints.StartReq{
		Key: parent.ID + ":sub:" + key, Repo: parent.Repo, Issue: parent.Issue, Phase: "anything", Flow: "sub", Lineage: parent.Lineage,
		Entry: "a", Parent: parent.ID, ParentNode: "spawn", Close: closing,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// A child ends without labels and without a comment of its own: its parent is
// told, and the root's comment is brought up to date.
//
// Covers: BL2, BL5.
func TestChildEnds(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	root := w.start(labels.Plan)
	child := w.child(root, "1", "")
	w.ends("done")
	if err := w.handle(child.ID); err != nil {
		t.Fatal(err)
	}
	w.want(child.ID, checkpoints.Done, "done", "")
	if diff := cmp.Diff([]string{child.ID + " done"}, w.told); diff != "" {
		t.Errorf("parents told (-want +got):\n%s", diff)
	}
	if len(w.forge.calls) > 0 {
		t.Errorf("label changes: %v", w.forge.calls)
	}
	if diff := cmp.Diff([]string{"working"}, w.reporter.posts); diff != "" {
		t.Errorf("posts, all of the root (-want +got):\n%s", diff)
	}
	w.want(root.ID, checkpoints.Ready, "", "")
}

// A child that is closed is cancelled, as its parent is told.
func TestChildIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	child := w.child(w.start(labels.Plan), "1", "")
	w.ends("closed")
	if err := w.handle(child.ID); err != nil {
		t.Fatal(err)
	}
	w.want(child.ID, checkpoints.Cancelled, "closed", "")
	if diff := cmp.Diff([]string{"closed cancelled"}, w.ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

// A child works under the label of its root's phase.
func TestChildWithoutLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.start(labels.Plan)
	grandchild := w.child(w.child(root, "1", ""), "2", "")
	if err := w.handle(grandchild.ID); err != nil {
		t.Fatal(err)
	}
	w.want(grandchild.ID, checkpoints.Cancelled, "cancelled", "label-gone")
	if reason := w.get(grandchild.ID).Reason; !strings.Contains(reason, labels.Default().Plan) {
		t.Errorf("reason: %s", reason)
	}
}

// What becomes of open children when their parent ends is each child's close
// policy. One that is abandoned is free of the label, which belonged to its
// parent's phase.
//
// Covers: BL29.
func TestParentEnds(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan)
	root := w.start(labels.Plan)
	kept := w.child(root, "kept", checkpoints.CloseAbandon)
	ended := w.child(root, "ended", checkpoints.CloseCancel)
	working := w.child(root, "working", checkpoints.CloseCancel)

	began := w.blocks()
	wait := w.begin(working.ID)
	<-began
	w.ends("rejected")
	if err := w.handle(root.ID); err != nil {
		t.Fatal(err)
	}
	w.want(root.ID, checkpoints.Done, "rejected", "")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.want(working.ID, checkpoints.Cancelled, "cancelled", "parent-ended")
	if err := w.handle(ended.ID); err != nil {
		t.Fatal(err)
	}
	w.want(ended.ID, checkpoints.Cancelled, "cancelled", "parent-ended")

	w.ends("done")
	if err := w.handle(kept.ID); err != nil {
		t.Fatal(err)
	}
	w.want(kept.ID, checkpoints.Done, "done", "")
}

// Any number of children ends with their parent.
func TestParentOfManyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	root := w.start(labels.Plan)
	var children []checkpoints.Run
	for i := range 1001 {
		children = append(children, w.child(root, fmt.Sprint(i), ""))
	}
	w.ends("rejected")
	if err := w.handle(root.ID); err != nil {
		t.Fatal(err)
	}
	for i, c := range children {
		if got := w.get(c.ID); got.Status != checkpoints.Ending || got.Code != "parent-ended" {
			t.Fatalf("child %d is %s (%s)", i, got.Status, got.Code)
		}
	}
}

// A stop of the issue halts children in flight.
//
// Covers: BL16.
func TestStopReachesChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	child := w.child(w.start(labels.Plan), "1", "")
	began := w.blocks()
	wait := w.begin(child.ID)
	<-began
	w.w.Halt("acme/widgets#7", "ada said so")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.want(child.ID, checkpoints.Halted, "", "halted")
}

// A shadow run needs no label, changes none, and is told of nowhere.
//
// Covers: BL18.
func TestShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, err := w.memory.Start(t.Context(), checkpoints.StartReq{
		Key: "acme/widgets#7/shadow", Repo: "acme/widgets", Issue: 7, Phase: "plan", Entry: "a", Mode: checkpoints.ModeShadow,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ends("approved")
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Done, "approved", "")
	if len(w.forge.calls) > 0 || len(w.reporter.posts) > 0 || w.open() != "" {
		t.Errorf("label changes %v, posts %v, open %q", w.forge.calls, w.reporter.posts, w.open())
	}
}

// lineUp starts a run of another issue with a concurrency key.
func (w *world) lineUp(issue int, policy string) checkpoints.Run {
	w.t.Helper()
	ref := map[int]string{7: "acme/widgets#7", 8: "acme/widgets#8"}[issue]
	run, err := w.memory.Start(w.t.Context(), checkpoints.StartReq{
		Key: ref, Repo: "acme/widgets", Issue: issue, Phase: "plan", Entry: "a", Concurrency: "acme/widgets", OnConflict: policy,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// A replaced run of another issue takes its own label off; one whose issue has
// the newer run leaves the labels to that one.
//
// Covers: NX2, NX3.
func TestReplaced(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, same := range []bool{false, true} {
		w := newWorld(t, n.Plan)
		old := w.lineUp(7, checkpoints.OnConflictReplace)
		newer := 8
		if same {
			newer = 7
		}
		next := w.lineUp(newer, checkpoints.OnConflictReplace)
		if next.Status != checkpoints.Queued || next.Replaces != old.ID {
			t.Fatalf("the newer run is %s and replaces %q", next.Status, next.Replaces)
		}
		if err := w.w.End(t.Context(), old.ID, checkpoints.ReplacedBy(next.ID)); err != nil {
			t.Fatal(err)
		}
		if err := w.handle(old.ID); err != nil {
			t.Fatal(err)
		}
		w.want(old.ID, checkpoints.Cancelled, "cancelled", "replaced")
		w.want(next.ID, checkpoints.Ready, "", "")
		if took := len(w.forge.calls) > 0; took == same {
			t.Errorf("same issue %v: label changes %v", same, w.forge.calls)
		}
	}
}

// A run that drifted is halted, and the comment tells so.
//
// Covers: NX6.
func TestDriftHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	run := w.start(labels.Plan)
	w.walk = drifts(w)
	if err := w.handle(run.ID); err != nil {
		t.Fatal(err)
	}
	w.want(run.ID, checkpoints.Halted, "", "drift")
	if diff := cmp.Diff([]string{"working", "halted"}, w.reporter.posts); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
}

// drifts does what the engine does with a run of another version.
func drifts(w *world) walk {
	return func(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error) {
		err := w.store.Halt(ctx, l, "drift", "plan.draft is of another version")
		run.Status, run.Code, run.Reason = checkpoints.Halted, "drift", "plan.draft is of another version"
		return engine.Outcome{How: engine.Halted, Code: run.Code, Reason: run.Reason, Run: run}, err
	}
}
