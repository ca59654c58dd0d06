package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

func TestStop(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	for _, tt := range []struct {
		label, action, scope string
		other                bool // issue 8 is stopped as well
	}{
		{n.Stop, "stop", "acme/widgets#7", false},
		{n.StopAll, "stop-all", "acme/widgets", true},
	} {
		w := newWorld(t, tt.label)
		if row := w.decided(labeled(tt.label, ada(), 31)); row.Decision != tt.action {
			t.Errorf("%s: decision %q", tt.label, row.Decision)
		}
		if !w.stopped(7) || w.stopped(8) != tt.other {
			t.Errorf("%s: stopped %v, %v", tt.label, w.stopped(7), w.stopped(8))
		}
		if diff := cmp.Diff([]string{"halt " + tt.scope + ": @ada stopped the work"}, w.work.calls); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", tt.label, diff)
		}
		// Somebody without the right stops nothing.
		w = newWorld(t, tt.label)
		if row := w.decided(labeled(tt.label, rob(), 31)); row.Decision != "refuse" || w.stopped(7) || len(w.work.calls) != 0 {
			t.Errorf("%s: decision %q, stopped %v", tt.label, row.Decision, w.stopped(7))
		}
	}
}

// halted are issues 7 and 8 with a halted plan each, and a stop.
func halted(t *testing.T, scope string, on ...string) (*world, []string) {
	t.Helper()
	w := newWorld(t, on...)
	if err := w.store.SetStop(t.Context(), checkpoints.Stop{Scope: scope}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, number := range []int{7, 8} {
		run, _ := w.run(number, labels.Plan, checkpoints.Halted, "")
		ids = append(ids, run.ID)
		w.clock.Advance(time.Second)
	}
	return w, ids
}

func (w *world) statuses(ids []string) string {
	w.t.Helper()
	var out []string
	for _, id := range ids {
		out = append(out, string(w.get(id).Status))
	}
	return strings.Join(out, " ")
}

func TestLift(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	tests := []struct {
		name     string
		scope    string
		on       []string
		ev       forge.Event
		prepare  func(*world)
		decision string
		statuses string
		stopped  bool
		told     string
		calls    []string
	}{
		{
			name: "one issue", scope: "acme/widgets#7", on: []string{n.Plan}, ev: unlabeled(n.Stop, ada(), 31),
			decision: "lift", statuses: "ready halted",
		},
		{
			name: "a repository", scope: "acme/widgets", on: []string{n.Plan}, ev: unlabeled(n.StopAll, ada(), 31),
			decision: "lift-all", statuses: "ready ready",
		},
		{
			name: "without the right the label is put back", scope: "acme/widgets#7", on: []string{n.Plan}, ev: unlabeled(n.Stop, rob(), 31),
			decision: "refuse", statuses: "halted halted", stopped: true, told: "@rob may not lift a stop",
			calls: []string{"#7 comment", "#7 +pipeline:stop"},
		},
		{
			name: "a comment takes the label off", scope: "acme/widgets#7", on: []string{n.Plan, n.Stop}, ev: said(ada(), 991, "/pipeline resume"),
			decision: "lift", statuses: "ready halted", calls: []string{"#7 -pipeline:stop"},
		},
		{
			name: "an operator", scope: "acme/widgets#7", on: []string{n.Plan}, ev: operator(forge.ManualResume, ""),
			decision: "lift", statuses: "ready halted",
		},
		{
			name: "work that is not wanted any more stays", scope: "acme/widgets", on: []string{n.Plan}, ev: unlabeled(n.StopAll, ada(), 31),
			prepare: func(w *world) { w.forge.issues[8] = forge.Issue{Ref: ref(8), Open: true} }, decision: "lift-all", statuses: "ready halted",
		},
		{
			name: "an issue that is gone keeps no other halted", scope: "acme/widgets", on: []string{n.Plan}, ev: unlabeled(n.StopAll, ada(), 31),
			prepare: func(w *world) { w.forge.issues[9] = w.forge.issues[8]; delete(w.forge.issues, 8) }, decision: "lift-all", statuses: "ready halted",
		},
		{
			name: "an issue under its own stop stays", scope: "acme/widgets", on: []string{n.Plan}, ev: unlabeled(n.StopAll, ada(), 31),
			prepare: func(w *world) {
				_ = w.store.SetStop(w.t.Context(), checkpoints.Stop{Scope: "acme/widgets#8"})
			}, decision: "lift-all", statuses: "ready halted",
		},
		{
			name: "an issue of a stopped repository", scope: "acme/widgets", on: []string{n.Plan}, ev: said(ada(), 991, "/pipeline resume"),
			decision: "lift", statuses: "halted halted", stopped: true, told: "the stop of the whole repository still holds", calls: []string{"#7 comment"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, ids := halted(t, tt.scope, tt.on...)
			if tt.prepare != nil {
				tt.prepare(w)
			}
			row := w.decided(tt.ev)
			if row.Decision != tt.decision {
				t.Errorf("decision %q (%s), want %q", row.Decision, row.Explanation, tt.decision)
			}
			if got := w.statuses(ids); got != tt.statuses {
				t.Errorf("statuses %s, want %s", got, tt.statuses)
			}
			if got := w.stopped(7); got != tt.stopped {
				t.Errorf("stopped %v", got)
			}
			if diff := cmp.Diff(tt.calls, w.forge.calls); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := strings.Join(w.forge.told(7), "\n"); !strings.Contains(got, tt.told) {
				t.Errorf("told %q", got)
			}
		})
	}
}

// A lift that fails half-way is completed by the next try.
func TestLiftAgain(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w, ids := halted(t, "acme/widgets#7", n.Plan, n.Stop)
	id := w.give(said(ada(), 991, "/pipeline resume"))
	w.forge.fail["Label"] = transient()
	if got, err := w.handle(id); err == nil || got != "" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	delete(w.forge.fail, "Label")
	if got, err := w.handle(id); err != nil || got != "lift" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	if got := w.statuses(ids); got != "ready halted" {
		t.Errorf("statuses %s", got)
	}
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	approve := said(ada(), 991, "/pipeline approve AB12")
	tests := []struct {
		name   string
		phase  labels.Phase
		status checkpoints.Status
		awaits string
		ev     forge.Event
		want   string // decision
		kind   string // of the pending event
		data   string
		after  checkpoints.Status
	}{
		{
			"approval", labels.Plan, checkpoints.Waiting, "approval", approve, "deliver", "approval",
			`{"by":"ada","hash":"ab12","via":"comment"}`, checkpoints.Ready,
		},
		{
			"approval before the park", labels.Plan, checkpoints.Running, "", approve, "deliver", "approval",
			`{"by":"ada","hash":"ab12","via":"comment"}`, checkpoints.Running,
		},
		{
			"approval by label", labels.Plan, checkpoints.Waiting, "approval", labeled(n.Approved, ada(), 31), "deliver", "approval",
			`{"by":"ada","hash":"","via":"label"}`, checkpoints.Ready,
		},
		{
			"answer", labels.Triage, checkpoints.Waiting, "answer", said(rob(), 991, "the blue one"), "deliver", "answer",
			`{"by":"rob","comment":991}`, checkpoints.Ready,
		},
		{"answer before the question", labels.Triage, checkpoints.Running, "", said(rob(), 991, "the blue one"), "", "answer", "", checkpoints.Running},
		{"approval by a reader", labels.Plan, checkpoints.Waiting, "approval", said(rob(), 991, "/pipeline approve ab12"), "refuse", "approval", "", checkpoints.Waiting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.For(tt.phase))
			run, _ := w.run(7, tt.phase, tt.status, tt.awaits)
			id := w.give(tt.ev)
			if got, err := w.handle(id); err != nil || got != tt.want {
				t.Fatalf("decision %q, error %v, want %q", got, err, tt.want)
			}
			if got := w.get(run.ID).Status; got != tt.after {
				t.Errorf("status %s, want %s", got, tt.after)
			}
			ev, err := w.store.Pending(t.Context(), run.ID, tt.kind)
			if (tt.data == "") != errors.Is(err, checkpoints.ErrNotFound) || string(ev.Data) != tt.data {
				t.Errorf("pending %s, error %v", ev.Data, err)
			}
		})
	}
}

// Two label events whose ids are not known are two events.
func TestDeliverWithoutLogID(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan, n.AwaitingApproval, n.Approved)
	w.run(7, labels.Plan, checkpoints.Running, "")
	for range 2 {
		id := w.give(labeled(n.Approved, ada(), 0))
		if got, err := w.handle(id); got != "" || err != nil {
			t.Errorf("before the log can be expected to have it: %q, %v", got, err)
		}
		w.clock.Advance(time.Minute)
		if _, err := w.handle(id); err != nil {
			t.Fatal(err)
		}
		if row := w.row(id); row.Decision != "deliver" || row.Explanation == "seen before" {
			t.Errorf("decision %q: %s", row.Decision, row.Explanation)
		}
	}
}

// The answer that waited is delivered once the question is asked.
func TestLaterThenDelivered(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage)
	run, l := w.run(7, labels.Triage, checkpoints.Running, "")
	id := w.give(said(rob(), 991, "the blue one"))
	if got, err := w.handle(id); err != nil || got != "" {
		t.Fatalf("decision %q, error %v", got, err)
	}
	if err := w.store.Park(t.Context(), l, checkpoints.Wait{Node: "a", Event: "answer"}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.handle(id); err != nil || got != "deliver" || w.get(run.ID).Status != checkpoints.Ready {
		t.Errorf("decision %q, error %v, status %s", got, err, w.get(run.ID).Status)
	}
}

// Anybody can write the marker; only the bot's own comment counts as told.
func TestTellIgnoresForgedMarkers(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	marker := "<!-- pipelinebot:label-event/31 -->"
	for name, tt := range map[string]struct {
		comment forge.Comment
		writes  int
	}{
		"another's comment":        {forge.Comment{Author: rob(), Body: marker + "\nnothing to see"}, 1},
		"quoted by the bot itself": {forge.Comment{Author: bot(), Body: "> " + marker}, 1},
		"the bot's own":            {forge.Comment{Author: bot(), Body: marker + "\nYou may not."}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n.Implement)
			w.forge.comments[7] = []forge.Comment{tt.comment}
			w.decided(labeled(n.Implement, rob(), 31))
			if got := len(w.forge.comments[7]) - 1; got != tt.writes {
				t.Errorf("%d comments written, want %d", got, tt.writes)
			}
		})
	}
}

// What people wrote and the bot repeats rings nobody, hides nothing and fits.
func TestTellIsHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	row := w.decided(said(ada(), 991, "/pipeline @acme/all<!--"+strings.Repeat("x", 70_000)))
	told := w.forge.told(7)
	if row.Decision != "refuse" || len(told) != 1 {
		t.Fatalf("decision %q, told %q", row.Decision, told)
	}
	if strings.Contains(told[0], "@acme") || strings.Contains(told[0], "<!--") || len(told[0]) > 10_000 {
		t.Errorf("told %.200q, %d bytes", told[0], len(told[0]))
	}
	w.decided(said(rob(), 992, "/pipeline stop"))
	if told = w.forge.told(7); !strings.HasPrefix(told[1], "@rob may not stop") {
		t.Errorf("the actor is not mentioned: %q", told[1])
	}
}

// What the forge refuses for good is not asked again every few seconds.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	t.Run("label", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Implement)
		w.forge.fail["Label"] = denied()
		row := w.decided(labeled(n.Implement, rob(), 31))
		if row.Decision != "refuse" || !strings.Contains(row.Explanation, "removing label pipeline:implement was refused") || len(w.forge.told(7)) != 1 {
			t.Errorf("decision %q (%s), told %q", row.Decision, row.Explanation, w.forge.told(7))
		}
	})
	t.Run("comment", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, n.Implement)
		w.forge.fail["Comment"] = denied()
		if row := w.decided(labeled(n.Implement, rob(), 31)); row.Decision != "refuse" {
			t.Errorf("decision %q", row.Decision)
		}
	})
	t.Run("the label of a manual run", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.forge.fail["Label"] = denied()
		row := w.decided(operator(forge.ManualRun, n.Plan))
		if row.Decision != "refuse" || !strings.Contains(row.Explanation, "label pipeline:plan cannot be added") || len(w.runs()) != 0 {
			t.Errorf("decision %q (%s), %d runs", row.Decision, row.Explanation, len(w.runs()))
		}
	})
	t.Run("transient", func(t *testing.T) {
		t.Parallel()
		for _, method := range []string{"Label", "Comment", "Comments", "Issue"} {
			w := newWorld(t, n.Implement)
			w.forge.fail[method] = transient()
			id := w.give(labeled(n.Implement, rob(), 31))
			if got, err := w.handle(id); !forge.IsKind(err, forge.KindTransient) || got != "" {
				t.Errorf("%s: decision %q, error %v", method, got, err)
			}
			delete(w.forge.fail, method)
			if got, err := w.handle(id); err != nil || got != "refuse" || len(w.forge.told(7)) != 1 {
				t.Errorf("%s: decision %q, error %v, told %q", method, got, err, w.forge.told(7))
			}
		}
	})
}

func TestSeveralPhaseLabels(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Triage, n.Implement)
	row := w.decided(labeled(n.Implement, ada(), 31))
	runs := w.runs()
	if row.Decision != "start" || len(runs) != 1 || runs[0].Phase != "triage" {
		t.Fatalf("decision %q, runs %+v", row.Decision, runs)
	}
	if diff := cmp.Diff([]string{n.Triage}, w.on(7)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if told := w.forge.told(7); len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf("the earliest, %s, wins", n.Triage)) {
		t.Errorf("told %q", told)
	}
}

// A stop that was lifted stays lifted when the other source tells of its label
// later.
func TestStopToldOfAgain(t *testing.T) {
	t.Parallel()
	n := labels.Default()
	w := newWorld(t, n.Plan, n.Stop)
	w.decided(labeled(n.Stop, ada(), 30))
	w.forge.issues[7] = forge.Issue{Ref: ref(7), Open: true, Labels: []string{n.Plan}, Author: rob()}
	w.decided(unlabeled(n.Stop, ada(), 31))
	if w.stopped(7) {
		t.Fatal("not lifted")
	}
	if row := w.decided(labeled(n.Stop, ada(), 30)); row.Explanation != "seen before" || w.stopped(7) {
		t.Errorf("decision %s: %s; stopped %v", row.Decision, row.Explanation, w.stopped(7))
	}
}
