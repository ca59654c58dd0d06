package flowops_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

const source = `
apiVersion: flows/v1
name: fix
version: 3
phase: implement
entry: look
sink: done
state:
  n: {type: int, default: 0}
  pr: {type: int, default: 0}
  risk: {type: string, max_len: 20, default: ""}
  result: {type: enum, values: [none, ok, bad], default: none}
limits: {max_steps: 20, wall: 30m, cost_usd: 2.5}
nodes:
  - {id: look, kind: step, uses: t.step, writes: [n, pr], budget: {tokens: 100}}
  - {id: gate, kind: gate, uses: t.gate, writes: [result]}
  - {id: fix, kind: step, uses: t.step, writes: [n, pr], budget: {tokens: 300}}
  - {id: again, kind: loop, back_to: look, max: 2}
  - {id: done, kind: sink}
edges:
  - {from: look, to: gate}
  - {from: look, to: done, on: [failed], set: {result: bad}}
  - {from: gate, to: fix, when: "state.n > 1"}
  - {from: gate, to: again}
  - {from: fix, to: done}
  - {from: again, to: look}
  - {from: again, to: done, on: [exhausted], set: {result: bad}}
`

func load(t *testing.T, src string) *flows.Flow {
	t.Helper()
	f, problems := flows.Load("fix.yaml", []byte(src), registry(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

func registry(t *testing.T) *flows.Registry {
	t.Helper()
	run := func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, nil }
	reg := &flows.Registry{}
	err := reg.Add(
		flows.Action{Name: "t.step", Version: "2", Writes: []string{"n", "pr"}, Run: run},
		flows.Action{Name: "t.read", Version: "1", ReadOnly: true, Writes: []string{"tests"}, Run: run},
		flows.Action{Name: "t.find", Version: "1", ReadOnly: true, Writes: []string{"found"}, Run: run},
		flows.Action{Name: flows.CommandAction, Version: "1", Outcomes: []flows.Outcome{flows.Timeout}, Run: run},
		flows.Action{Name: "t.gate", Version: "1", ReadOnly: true, Writes: []string{"result"}, Run: run},
	)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// record is a run that went look, gate, fix, done.
func record(t *testing.T) flowops.Record {
	t.Helper()
	f := load(t, source)
	node := func(seq int64, id, next, delta string, guards ...checkpoints.Guard) checkpoints.NodeRecord {
		return checkpoints.NodeRecord{Seq: seq, Node: id, Kind: "step", Visit: 1, Outcome: "ok", Next: next, Delta: json.RawMessage(delta), Guards: guards}
	}
	return flowops.Record{
		Run: checkpoints.Run{
			ID: "R1", Flow: "fix", Status: checkpoints.Done, Result: "ok", Definition: f.Definition(), DefinitionHash: f.Hash(), Actions: f.Actions(),
			State: json.RawMessage(`{"n": 2, "pr": 7, "result": "ok"}`), Created: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		},
		History: []checkpoints.NodeRecord{
			node(1, "look", "gate", `{"n":2}`), node(2, "gate", "fix", `{"result":"ok"}`, checkpoints.Guard{To: "fix", When: "state.n > 1", Taken: true}),
			node(3, "fix", "done", `{"pr":7}`), node(4, "done", "", ""),
		},
	}
}

// Covers: VK32.
func TestDiff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*flowops.Record)
		want   []flowops.Difference
		other  bool // another definition
	}{
		{"the same", func(r *flowops.Record) {
			r.Run.ID, r.Run.Created = "R2", time.Now()
			r.History[0].Took, r.History[0].Usage.MicroUSD = time.Hour, 5
			r.History[0].Delta = json.RawMessage(`{ "n": 2 }`)
		}, []flowops.Difference{}, false},
		{"an output", func(r *flowops.Record) {
			r.History[0].Delta = json.RawMessage(`{"n":3}`)
			r.Run.State = json.RawMessage(`{"n":3,"pr":7,"result":"ok"}`)
		}, []flowops.Difference{
			{What: "node", Where: "look#1", A: `changed {"n":2}`, B: `changed {"n":3}`}, {What: "state", Where: "n", A: "2", B: "3"},
		}, false},
		{"an outcome, and what followed", func(r *flowops.Record) {
			r.History = r.History[:1]
			r.History[0].Outcome, r.History[0].Next = "failed", "done"
			r.Run.Status, r.Run.Result, r.Run.Code = checkpoints.Failed, "error", "failed"
		}, []flowops.Difference{
			{What: "path", A: "look → gate → fix → done", B: "look"},
			{What: "node", Where: "look#1", A: "ok, next gate", B: "failed, next done"},
			{What: "node", Where: "gate#1", A: "ok, next fix", B: "not entered"},
			{What: "node", Where: "fix#1", A: "ok, next done", B: "not entered"},
			{What: "node", Where: "done#1", A: "ok, next none", B: "not entered"},
			{What: "result", A: "ok", B: "error (failed)"},
		}, false},
		{"another definition", func(r *flowops.Record) {
			r.Run.DefinitionHash = "0123456789abcdef"
			r.Run.Actions = map[string]string{"t.step": "3", "t.gate": "1"}
		}, []flowops.Difference{
			{What: "definition", A: "fix " + load(t, source).Hash()[:12], B: "fix 0123456789ab"}, {What: "actions", B: "t.step: 2 → 3"},
		}, true},
		{"one that is open", func(r *flowops.Record) { r.Run.Status, r.Run.Result, r.Run.Next = checkpoints.Waiting, "", "fix" },
			[]flowops.Difference{{What: "result", A: "ok", B: "waiting at fix"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := record(t)
			tt.change(&b)
			got := flowops.Diff(record(t), b)
			if diff := cmp.Diff(tt.want, got.Differences); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if got.Same != (len(tt.want) == 0) || got.SameDefinition == tt.other {
				t.Errorf("same %v, same definition %v", got.Same, got.SameDefinition)
			}
		})
	}
}

// What a shadow cannot know, since it writes nothing outside, is no
// disagreement; another decision is.
//
// Covers: BL18.
func TestParity(t *testing.T) {
	t.Parallel()
	shadow := record(t)
	shadow.Run.DefinitionHash = "another"
	shadow.Run.State = json.RawMessage(`{"n":2,"pr":0,"result":"ok"}`)
	shadow.History[2].Delta = json.RawMessage(`{"pr":0}`)
	got := flowops.Parity(shadow, record(t))
	if !got.Agrees || len(got.Undone) != 2 {
		t.Errorf("agreement = %+v", got)
	}
	shadow.Run.Result = "bad"
	if got := flowops.Parity(shadow, record(t)); got.Agrees || len(got.Differences) != 1 || got.Differences[0].What != "result" {
		t.Errorf("agreement = %+v", got)
	}
	shadow = record(t)
	shadow.History[2].Delta = json.RawMessage(`{"pr":8}`)
	if got := flowops.Parity(shadow, record(t)); got.Agrees {
		t.Errorf("another number agrees: %+v", got)
	}
}

// A whole definition has the new name inside, passes the checks, and says where
// it comes from by what the run recorded.
//
// Covers: VK35.
func TestAdoptWhole(t *testing.T) {
	t.Parallel()
	r := record(t)
	src, err := flowops.AdoptWhole(r, "my-fix")
	if err != nil {
		t.Fatal(err)
	}
	f := load(t, string(src))
	if f.Name() != "my-fix" {
		t.Errorf("its name is %s", f.Name())
	}
	for _, want := range []string{"# The flow fix as run R1 ran it on 2026-03-01 (ok).", r.Run.DefinitionHash, "t.gate@1, t.step@2", "\nname: my-fix\n"} {
		if !strings.Contains(string(src), want) {
			t.Errorf("the file lacks %q:\n%s", want, src)
		}
	}
	// It is the same flow but for its name.
	again, err := flowops.AdoptWhole(flowops.Record{Run: checkpoints.Run{Definition: f.Definition()}, History: r.History}, "fix")
	if err != nil {
		t.Fatal(err)
	}
	if got := load(t, string(again)); got.Hash() != r.Run.DefinitionHash {
		t.Errorf("renamed back, its definition is\n%s\nand was\n%s", got.Definition(), r.Run.Definition)
	}

	r.History = nil
	if _, err := flowops.AdoptWhole(r, "my-fix"); !errors.Is(err, flowops.ErrNothing) {
		t.Errorf("an empty run: %v", err)
	}
	if _, err := flowops.AdoptWhole(record(t), "../evil"); err == nil {
		t.Error("a name that is a path is taken")
	}
	r = record(t)
	r.Run.Definition = []byte("- a list")
	if _, err := flowops.AdoptWhole(r, "my-fix"); err == nil {
		t.Error("a definition that is no flow is taken")
	}
}
