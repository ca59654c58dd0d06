package handoff_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// source is a flow whose input is named like parts of an earlier phase's state.
const source = `
apiVersion: flows/v1
name: %[1]s
phase: %[1]s
entry: a
sink: done
state:
  issue: {type: int, required: true}
  repo: {type: string, max_len: 200, input: true}
  round: {type: int, input: true, default: 0}
  hash: {type: string, max_len: 8, input: true, default: ""}
  own: {type: string, max_len: 8, default: "mine"}
  result: {type: enum, values: [none, ok], default: none}
nodes:
  - {id: a, kind: step, uses: t.step}
  - {id: done, kind: sink}
edges:
  - {from: a, to: done}
`

type byPhase map[string]*flows.Flow

func (b byPhase) Named(name string) (*flows.Flow, error) { return b.ForPhase(name) }

func (b byPhase) ForPhase(phase string) (*flows.Flow, error) {
	f, ok := b[phase]
	if !ok {
		return nil, fmt.Errorf("no flow is called %q", phase)
	}
	return f, nil
}

// broken is a history that cannot be read.
type broken struct{ err error }

func (b broken) List(context.Context, checkpoints.Filter) ([]checkpoints.Run, error) {
	return nil, b.err
}

type world struct {
	t     *testing.T
	clock *clock.Fake
	store *memory.Store
	all   byPhase
	reg   *flows.Registry
	handoff.Builder
}

// add makes a flow of a user's own of the common source; header replaces its
// phase.
func (w *world) add(name, header string) {
	w.t.Helper()
	src := strings.Replace(fmt.Sprintf(source, name), "phase: "+name, header, 1)
	f, problems := flows.Load(name+".yaml", []byte(src), w.reg)
	if err := problems.Err(); err != nil {
		w.t.Fatal(err)
	}
	w.all[name] = f
}

func newWorld(t *testing.T) *world {
	t.Helper()
	reg := &flows.Registry{}
	err := reg.Add(flows.Action{
		Name: "t.step", Version: "1",
		Run: func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	all := byPhase{}
	for _, p := range labels.Phases() {
		f, problems := flows.Load(string(p)+".yaml", fmt.Appendf(nil, source, p), reg)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		all[string(p)] = f
	}
	w := &world{t: t, all: all, reg: reg, clock: clock.NewFake(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))}
	w.store = memory.New(memory.Options{Clock: w.clock})
	w.Builder = handoff.Builder{Flows: all, Freezer: engine.New(engine.Options{Store: w.store, Registry: reg}), Runs: w.store}
	return w
}

func issue() forge.Ref {
	return forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "widgets"}, Number: 7}
}

// ran leaves a final run of a phase in the store. An empty lineage begins one.
func (w *world) ran(phase labels.Phase, lineage string, final checkpoints.Status, state string) checkpoints.Run {
	w.t.Helper()
	ctx := w.t.Context()
	w.clock.Advance(time.Second)
	run, err := w.store.Start(ctx, checkpoints.StartReq{
		Key: issue().String(), Repo: "acme/widgets", Issue: 7, Phase: string(phase), Lineage: lineage,
		Entry: "a", State: json.RawMessage(state), Round: w.round(phase, lineage),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, l, err := w.store.Claim(ctx, run.ID, run.Epoch, "me", time.Minute)
	if err == nil {
		err = w.store.End(ctx, l, checkpoints.Ended{Result: "ok"})
	}
	if err == nil {
		_, err = w.store.Finish(ctx, l, final, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	run, err = w.store.Get(ctx, run.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) round(phase labels.Phase, lineage string) int {
	if lineage == "" {
		return 1
	}
	runs, err := w.store.List(w.t.Context(), checkpoints.Filter{Lineage: lineage, Phase: string(phase)})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(runs) + 1
}

func state(t *testing.T, r checkpoints.StartReq) map[string]any {
	t.Helper()
	got := map[string]any{}
	if err := json.Unmarshal(r.State, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFirstWithoutHistory(t *testing.T) {
	t.Parallel()
	for _, phase := range labels.Phases() {
		w := newWorld(t)
		got, err := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: phase, Trigger: "label-event/9"})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"issue": 7.0, "repo": "acme/widgets", "round": 1.0, "hash": "", "own": "mine", "result": "none"}
		if diff := cmp.Diff(want, state(t, got)); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", phase, diff)
		}
		head := []any{got.Key, got.Trigger, got.Lineage, got.Repo, got.Issue, got.Phase, got.Flow, got.Round, got.Entry, len(got.Definition) > 0}
		wantHead := []any{"acme/widgets#7", "label-event/9", "", "acme/widgets", 7, string(phase), string(phase), 1, "a", true}
		if diff := cmp.Diff(wantHead, head); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", phase, diff)
		}
	}
}

// past is one run of a history, oldest first; of names the lineage by its
// index, -1 for a new one.
type past struct {
	phase labels.Phase
	of    int
	final checkpoints.Status
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	const done, failed, cancelled = checkpoints.Done, checkpoints.Failed, checkpoints.Cancelled
	first := past{labels.Triage, -1, done}
	tests := []struct {
		name    string
		history []past
		phase   labels.Phase
		from    int // index of the expected predecessor, -1 for none
		round   int
	}{
		{"plan after triage", []past{first}, labels.Plan, 0, 1},
		{"triage inherits nothing", []past{first}, labels.Triage, -1, 1},
		{"a failed run is none", []past{{labels.Triage, -1, failed}}, labels.Plan, -1, 1},
		{"a cancelled run is none", []past{{labels.Triage, -1, cancelled}}, labels.Plan, -1, 1},
		{"the newest of several", []past{first, {labels.Plan, 0, done}, {labels.Plan, 0, done}}, labels.Implement, 2, 1},
		{"a later phase does not lead back", []past{first, {labels.Plan, 0, done}, {labels.Implement, 0, done}}, labels.Plan, 0, 2},
		{
			"a review leads back to implement",
			[]past{first, {labels.Plan, 0, done}, {labels.Implement, 0, done}, {labels.Review, 0, done}},
			labels.Implement, 3, 2,
		},
		{
			"a review does not lead back to plan",
			[]past{first, {labels.Plan, 0, done}, {labels.Implement, 0, done}, {labels.Review, 0, done}}, labels.Plan, 0, 2,
		},
		{"a cancelled round counts", []past{first, {labels.Plan, 0, cancelled}}, labels.Plan, 0, 2},
		{"a new triage begins a new pipeline", []past{first, {labels.Plan, 0, done}, {labels.Triage, -1, done}}, labels.Plan, 2, 1},
		{"a phase of its own making leads nowhere", []past{{"deploy", -1, done}}, labels.Plan, -1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var runs []checkpoints.Run
			for i, p := range tt.history {
				lineage := ""
				if p.of >= 0 {
					lineage = runs[p.of].Lineage
				}
				runs = append(runs, w.ran(p.phase, lineage, p.final, fmt.Sprintf(`{"hash":"h%d"}`, i)))
			}
			got, err := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: tt.phase, Trigger: "x"})
			if err != nil {
				t.Fatal(err)
			}
			wantHash, wantLineage := "", ""
			if tt.from >= 0 {
				wantHash, wantLineage = fmt.Sprintf("h%d", tt.from), runs[tt.from].Lineage
			}
			want := []any{wantHash, wantLineage, tt.round, float64(tt.round)}
			if diff := cmp.Diff(want, []any{state(t, got)["hash"], got.Lineage, got.Round, state(t, got)["round"]}); diff != "" {
				t.Errorf("hash, lineage, rounds (-want +got):\n%s", diff)
			}
		})
	}
}

// What an earlier run has left is deleted one day; the next round is still the
// next.
func TestRoundsOutliveTheirRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.ran(labels.Triage, "", checkpoints.Done, `{}`)
	for range 3 {
		w.ran(labels.Implement, root.Lineage, checkpoints.Done, `{}`)
	}
	w.clock.Advance(time.Hour)
	edge := w.clock.Now()
	w.clock.Advance(time.Hour)
	if _, err := w.store.Start(t.Context(), checkpoints.StartReq{
		Key: issue().String(), Repo: "acme/widgets", Issue: 7, Phase: "implement", Lineage: root.Lineage, Round: 4, Entry: "a",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Prune(t.Context(), checkpoints.Retention{Before: edge}); err != nil {
		t.Fatal(err)
	}
	got, err := w.Next(t.Context(), root, labels.Implement)
	if err != nil {
		t.Fatal(err)
	}
	if got.Round != 5 {
		t.Errorf("round = %d, want 5", got.Round)
	}
}

// Covers: AR27.
func TestNextNarrowsTheState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := w.ran(labels.Triage, "", checkpoints.Done,
		`{"issue":1,"repo":"evil/fork","round":9,"hash":"abc","own":"theirs","result":"ok","_stop":{"code":"x"},"stranger":true}`)
	got, err := w.Next(t.Context(), done, labels.Plan)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"issue": 7.0, "repo": "acme/widgets", "round": 1.0, "hash": "abc", "own": "mine", "result": "none"}
	if diff := cmp.Diff(want, state(t, got)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if got.Trigger != "after/"+done.ID || got.Lineage != done.Lineage {
		t.Errorf("trigger %q, lineage %q", got.Trigger, got.Lineage)
	}
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	down := errors.New("disk is away")
	tests := []struct {
		name  string
		state string
		spoil func(*world)
		unfit bool
		is    error
	}{
		{name: "the state does not fit the input", state: `{"hash":"longer than eight"}`, unfit: true, is: flows.ErrInvalidState},
		{name: "a value of another type", state: `{"hash":5}`, unfit: true, is: flows.ErrInvalidState},
		{name: "no flow", state: `{}`, spoil: func(w *world) { w.Flows = byPhase{} }, unfit: true},
		{name: "the store fails", state: `{}`, spoil: func(w *world) { w.Runs = broken{down} }, is: down},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			done := w.ran(labels.Triage, "", checkpoints.Done, tt.state)
			if tt.spoil != nil {
				tt.spoil(w)
			}
			_, first := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Plan, Trigger: "x"})
			_, next := w.Next(t.Context(), done, labels.Plan)
			for what, err := range map[string]error{"First": first, "Next": next} {
				if errors.Is(err, handoff.ErrUnfit) != tt.unfit || tt.is != nil && !errors.Is(err, tt.is) || err == nil {
					t.Errorf("%s: error = %v, want unfit %v, is %v", what, err, tt.unfit, tt.is)
				}
			}
		})
	}
}

// A flow can be asked for by name, if it is of the phase.
func TestNamedFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("bump", "phase: plan\nconcurrency: {key: \"bump-{{run.repo}}\", on_conflict: replace}")
	req, err := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Plan, Flow: "bump", Trigger: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if req.Flow != "bump" || req.Concurrency != "bump-acme/widgets" || req.OnConflict != checkpoints.OnConflictReplace {
		t.Errorf("start of %s, concurrency %q %q", req.Flow, req.Concurrency, req.OnConflict)
	}
	_, err = w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Review, Flow: "bump"})
	if !errors.Is(err, handoff.ErrUnfit) || !strings.Contains(err.Error(), `the flow bump is of the phase "plan"`) {
		t.Errorf("error = %v", err)
	}
	_, err = w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Plan, Flow: "nope"})
	if !errors.Is(err, handoff.ErrUnfit) {
		t.Errorf("error = %v", err)
	}
}

// A shadow run has a key, a lineage and no concurrency of its own; what it
// inherits is what the real one would.
//
// Covers: BL18.
func TestShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("bump", "phase: plan\nconcurrency: {key: one, on_conflict: reject}")
	before := w.ran(labels.Triage, "", checkpoints.Done, `{"hash":"abc"}`)
	req, err := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Plan, Flow: "bump", Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	if req.Key != "acme/widgets#7/shadow" || req.Mode != checkpoints.ModeShadow || req.Lineage != "" || req.Concurrency != "" {
		t.Errorf("start: key %q, mode %q, lineage %q (the real one's is %q), concurrency %q", req.Key, req.Mode, req.Lineage, before.Lineage, req.Concurrency)
	}
	if !strings.Contains(string(req.State), `"hash":"abc"`) {
		t.Errorf("state = %s", req.State)
	}
}

// Children and shadows are no phases of the pipeline, whatever phase their
// flows name.
func TestChildrenAreNoPhases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	triage := w.ran(labels.Triage, "", checkpoints.Done, `{"hash":"abc"}`)
	w.clock.Advance(time.Second)
	child, err := w.store.Start(t.Context(), checkpoints.StartReq{
		Key: triage.ID + ":x:1", Repo: "acme/widgets", Issue: 7, Phase: string(labels.Plan), Lineage: triage.Lineage, Round: 9, Entry: "a", Parent: triage.ID,
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := w.First(t.Context(), handoff.Ask{Ref: issue(), Phase: labels.Plan})
	if err != nil {
		t.Fatal(err)
	}
	if req.Round != 1 || req.Lineage != triage.Lineage || child.Round != 9 {
		t.Errorf("round %d, lineage %q", req.Round, req.Lineage)
	}
}
