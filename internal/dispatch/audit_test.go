package dispatch_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/dispatch"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// lines are a run's audit lines as "who: what, why".
func (w *world) lines(id string) []string {
	w.t.Helper()
	all, err := w.store.Audits(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, a := range all {
		out = append(out, a.By+": "+a.What+", "+a.Why)
	}
	return out
}

// Whoever starts a run at the command line is on its record, once, also when
// the process died before the row was decided.
func TestOperatorsStartIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := w.clock.Now().Add(time.Nanosecond) // stores keep microseconds
	order := func(kind forge.EventKind, o forge.Order) forge.Event {
		ev := operator(kind, labels.Default().Plan)
		o.By, ev.At, ev.Order = "root", at, &o
		return ev
	}
	id := w.give(order(forge.ManualRun, forge.Order{Flow: "mine"}))
	if got, err := w.handle(id); err != nil || got != "start" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	run := w.runs()[0]
	want := []string{"root: run, the flow mine"}
	if diff := cmp.Diff(want, w.lines(run.ID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The decision was lost: the row comes again.
	if err := w.store.Decided(t.Context(), id, "x", ""); err != nil {
		t.Fatal(err)
	}
	w.decided(order(forge.ManualRun, forge.Order{Shadow: true}))
	for _, r := range w.runs() {
		if r.ID == run.ID {
			continue
		}
		if diff := cmp.Diff([]string{"root: run, the plan phase, as a shadow"}, w.lines(r.ID)); diff != "" {
			t.Errorf("the shadow (-want +got):\n%s", diff)
		}
	}
}

// A start that happened just before a crash is recorded when its row comes
// again.
func TestStartIsRecordedAfterCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	ev := operator(forge.ManualRun, labels.Default().Plan)
	ev.Order = &forge.Order{By: "root", Shadow: true}
	id := w.give(ev)
	run, err := w.store.Start(t.Context(), checkpoints.StartReq{
		Key: ref(7).String() + "/shadow", Trigger: "row/" + id, Repo: "acme/widgets", Issue: 7, Phase: "plan", Entry: "a", Mode: checkpoints.ModeShadow,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.handle(id); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"root: run, the plan phase, as a shadow"}, w.lines(run.ID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is not done is on the run's record too, with the reason.
func TestRefusedOrderIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, labels.Default().Plan)
	run, l := w.run(7, labels.Plan, checkpoints.Ending, "")
	order := func(kind forge.EventKind) {
		ev := operator(kind, "")
		ev.At, ev.Order = w.clock.Now(), &forge.Order{By: "root", Run: run.ID, Node: "a", Set: map[string]json.RawMessage{"n": []byte("1")}}
		w.decided(ev)
	}
	order(forge.ManualFork)
	order(forge.ManualCancel)
	order(forge.ManualResume)
	want := []string{
		"root: fork, refused: run " + run.ID + " is open (ending): cancel it first",
		"root: cancel, refused: the run is about to end",
		"root: resume, refused: there is nothing to resume",
	}
	if diff := cmp.Diff(want, w.lines(run.ID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := w.store.Finish(t.Context(), l, checkpoints.Done, nil); err != nil {
		t.Fatal(err)
	}
	order(forge.ManualFork)
	if got := w.lines(w.runs()[0].ID); w.runs()[0].ID != run.ID && (len(got) != 1 || got[0] != "root: fork, from a of run "+run.ID) {
		t.Errorf("the fork's lines: %q", got)
	}
	if got := w.lines(run.ID); len(got) != 3 {
		t.Errorf("a fork that was made is refused on the source's record: %q", got)
	}
}

// A row that records a pruning asks for nothing.
func TestPruneIsNoEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body, err := json.Marshal(forge.Event{Kind: dispatch.Prune, Source: "cli", Order: &forge.Order{By: "root"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.store.Receive(t.Context(), checkpoints.InboxEvent{ID: "p", Kind: string(dispatch.Prune), Body: body, At: w.clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.handle("p"); err != nil || got != dispatch.Done {
		t.Errorf("decision %q, error %v", got, err)
	}
}
