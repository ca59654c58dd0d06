package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// halfway is a run of three that has completed a.
func halfway(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	id := w.begin(three)
	w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 1, "", nil }
	w.want(w.walk(id), "halted halted: a")
	w.hooks.KillSwitch = nil
	return w, id
}

// What is wrong with a run decides what may be done with it; nothing is ever
// begun anew since it can't be read.
//
// Covers: VK33, VK24, CN24, CN27, AR12, NX6.
func TestAudit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*world, *checkpoints.Run)
		live  string
		want  string
		says  string
	}{
		"untouched":        {nil, three, "frozen complete resume", ""},
		"no live flow":     {nil, "", "frozen complete resume", ""},
		"edited flow":      {nil, strings.Replace(three, "finally: [t.last]", "", 1), "drifted complete repair", "the flow test is"},
		"layout only":      {nil, "# a comment\n" + three, "frozen complete resume", ""},
		"action version":   {func(w *world, _ *checkpoints.Run) { w.register("2") }, "", "drifted complete rebuild", "action t.last was of version 1 and is of version 2 now"},
		"action gone":      {func(_ *world, r *checkpoints.Run) { delete(r.Actions, "t.step") }, "", "drifted complete rebuild", "t.step was of version none"},
		"both":             {func(w *world, _ *checkpoints.Run) { w.register("2") }, strings.Replace(three, "finally: [t.last]", "", 1), "drifted complete rebuild", "the flow test is"},
		"no definition":    {func(_ *world, r *checkpoints.Run) { r.Definition = nil }, "", "missing complete rebuild", "no frozen definition"},
		"other definition": {func(_ *world, r *checkpoints.Run) { r.Definition = append(r.Definition, ' ') }, "", "corrupt complete refuse", "sha256"},
		"state":            {func(_ *world, r *checkpoints.Run) { r.State = raw(`{"n":2,"result":"none","s":"","tags":[]}`) }, "", "corrupt complete refuse", "another value of n"},
		"state type":       {func(_ *world, r *checkpoints.Run) { r.State = raw(`{"n":"x"}`) }, "", "corrupt complete refuse", "does not fit"},
		"untouched key":    {func(_ *world, r *checkpoints.Run) { r.State = raw(`{"n":1,"result":"none","s":"x","tags":[]}`) }, "", "corrupt complete refuse", "another value of s"},
		"added key": {func(_ *world, r *checkpoints.Run) {
			r.State = raw(`{"n":1,"note":"x","result":"none","s":"","tags":[]}`)
		}, "", "corrupt complete refuse", "a value of note"},
		"position":     {func(_ *world, r *checkpoints.Run) { r.Next = "c" }, "", "corrupt complete refuse", "its history leads to b"},
		"no node":      {func(_ *world, r *checkpoints.Run) { r.Next = "ghost" }, "", "corrupt complete refuse", "no node"},
		"visits":       {func(_ *world, r *checkpoints.Run) { r.Visits = map[string]int{"a": 2} }, "", "corrupt complete refuse", "visits"},
		"lost records": {func(_ *world, r *checkpoints.Run) { r.Seq = 2 }, "", "corrupt partial refuse", "2 nodes are completed, 1 are on record"},
		"old run":      {func(_ *world, r *checkpoints.Run) { r.Initial = nil }, "", "frozen partial resume", "can't be forked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, id := halfway(t)
			run := w.get(id)
			if tc.spoil != nil {
				tc.spoil(w, &run)
			}
			var live *flows.Flow
			if tc.live != "" {
				live = w.load(tc.live)
			}
			a, err := w.engine().Audit(t.Context(), run, live)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Snapshot + " " + a.Coverage + " " + a.Action; got != tc.want {
				t.Errorf("audit = %s, want %s: %q", got, tc.want, a.Reasons)
			}
			if said := strings.Join(a.Reasons, "\n"); tc.says == "" && said != "" || !strings.Contains(said, tc.says) {
				t.Errorf("reasons = %q, want %q", said, tc.says)
			}
		})
	}
}

// Runs that are over are audited as well, stopped ones too.
//
// Covers: VK33, CN26.
func TestAuditOfEndedRuns(t *testing.T) {
	t.Parallel()
	w, id := halfway(t)
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "ended ok: b c done")
	stopped, sid := stoppedRun(t)
	for w, id := range map[*world]string{w: id, stopped: sid} {
		a, err := w.engine().Audit(t.Context(), w.get(id), nil)
		if err != nil || a.Snapshot != engine.Frozen || a.Coverage != engine.Complete || a.Action != engine.Resume {
			t.Errorf("audit = %+v, %v", a, err)
		}
	}
}

// What the audit calls resumable is what a walk takes, row by row.
//
// Covers: AR12, CN27.
func TestAuditAgreesWithTheWalk(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*checkpoints.Run){
		"nothing": func(*checkpoints.Run) {},
		"state":   func(r *checkpoints.Run) { r.State = raw(strings.Replace(string(r.State), `"s":""`, `"s":"x"`, 1)) },
		"initial": func(r *checkpoints.Run) { r.Initial = raw(`{"n":5}`) },
		"visits":  func(r *checkpoints.Run) { r.Visits["b"] = 1 },
		"next":    func(r *checkpoints.Run) { r.Next = "a" },
		"version": func(r *checkpoints.Run) { r.Actions["t.step"] = "9" },
	} {
		w, id := halfway(t)
		if err := w.memory.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		run, lease := w.claim(id)
		spoil(&run)
		a, err := w.engine().Audit(t.Context(), run, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.engine().Walk(t.Context(), run, lease)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{engine.Resume: "ended ok", engine.Rebuild: "halted ", engine.Refuse: "ended error"}[a.Action]
		if got := out.How + " " + out.Result; got != want {
			t.Errorf("%s: audit says %s, the walk %s", name, a.Action, got)
		}
	}
}
