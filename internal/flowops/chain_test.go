package flowops_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

// session has every kind of node.
const session = `
apiVersion: flows/v1
name: fix
version: 4
phase: implement
entry: explore
sink: done
state:
  n: {type: int, default: 0}
  pr: {type: int, default: 0}
  found: {type: string, max_len: 20, default: ""}
  tests: {type: string, max_len: 20, default: ""}
  who: {type: string, max_len: 20, default: ""}
  risk: {type: string, max_len: 20, default: low}
  result: {type: enum, values: [none, shipped, bad], default: none}
limits: {max_steps: 50, wall: 30m}
nodes:
  - {id: explore, kind: fanout, branches: [code, tests], join: together}
  - {id: code, kind: step, uses: t.find}
  - {id: tests, kind: step, uses: t.read, required: false}
  - {id: together, kind: merge, of: [code, tests]}
  - {id: build, kind: command, argv: [make]}
  - {id: check, kind: command, argv: [make, test], accept: [[git, diff, --check]]}
  - {id: again, kind: loop, back_to: fix, max: 3}
  - {id: fix, kind: step, uses: t.step}
  - {id: human, kind: approval, message: "Ship {{state.n}}?", approvers: ["role:write"], expires: 24h, take: {who: by}}
  - {id: sorry, kind: step, uses: t.step}
  - {id: ci, kind: wait, event: check_suite, expires: 24h, on_expire: timeout}
  - {id: ask, kind: subflow, flow: child, key: one}
  - {id: other, kind: subflow, flow: unused, key: one}
  - {id: done, kind: sink}
edges:
  - {from: together, to: build}
  - {from: build, to: fix}
  - {from: fix, to: check}
  - {from: check, to: human, set: {risk: high}}
  - {from: check, to: again, on: [failed, timeout], set: {risk: middle}}
  - {from: again, to: fix}
  - {from: again, to: done, on: [exhausted], set: {result: bad}}
  - {from: human, to: ci}
  - {from: human, to: sorry, on: [denied]}
  - {from: sorry, to: done, set: {result: bad}}
  - {from: ci, to: ask}
  - {from: ci, to: done, on: [timeout], set: {result: bad}}
  - {from: ask, to: done, set: {result: shipped}}
  - {from: ask, to: other, on: [failed]}
  - {from: other, to: done, set: {result: bad}}
flows:
  child:
    apiVersion: flows/v1
    name: child
    version: 1
    phase: implement
    entry: one
    sink: end
    state: {n: {type: int, default: 0}, pr: {type: int, default: 0}, result: {type: enum, values: [none, ok], default: none}}
    limits: {max_steps: 5, wall: 1m}
    nodes: [{id: one, kind: step, uses: t.step}, {id: end, kind: sink}]
    edges: [{from: one, to: end, set: {result: ok}}]
  unused:
    apiVersion: flows/v1
    name: unused
    version: 1
    phase: implement
    entry: one
    sink: end
    state: {n: {type: int, default: 0}, pr: {type: int, default: 0}, result: {type: enum, values: [none, ok], default: none}}
    limits: {max_steps: 5, wall: 1m}
    nodes: [{id: one, kind: step, uses: t.step}, {id: end, kind: sink}]
    edges: [{from: one, to: end, set: {result: ok}}]
`

// walked is a run of a flow that took the given way, "node:outcome" each, the
// outcome ok when it is left out, and ended with the given result.
func walked(t *testing.T, src, result string, way ...string) flowops.Record {
	t.Helper()
	f := load(t, src)
	r := flowops.Record{Run: checkpoints.Run{
		ID: "R1", Flow: f.Name(), Status: checkpoints.Done, Result: result,
		Definition: f.Definition(), DefinitionHash: f.Hash(), Actions: f.Actions(),
	}}
	visits := map[string]int{}
	for i, step := range way {
		id, outcome, ok := strings.Cut(step, ":")
		if !ok {
			outcome = "ok"
		}
		n, there := f.Node(id)
		if !there {
			t.Fatalf("there is no node %s", id)
		}
		visits[id]++
		rec := checkpoints.NodeRecord{Seq: int64(i + 1), Node: id, Kind: string(n.Kind), Visit: visits[id], Outcome: outcome}
		if i+1 < len(way) {
			rec.Next, _, _ = strings.Cut(way[i+1], ":")
		}
		r.History = append(r.History, rec)
	}
	return r
}

// drawn is a flow as its ids and edges.
func drawn(f *flows.Flow) (ids, edges []string) {
	for _, n := range f.Nodes() {
		ids = append(ids, n.ID)
	}
	for _, e := range f.Edges() {
		set, err := json.Marshal(e.Set)
		if err != nil {
			set = nil
		}
		edges = append(edges, strings.TrimSuffix(fmt.Sprintf("%s %v %s %s", e.From, e.On, e.To, set), " null"))
	}
	return ids, edges
}

// What went well becomes a chain: the loop is unrolled once, a failed attempt
// and what led nowhere are left out, a fanout keeps its branches and merge,
// and what edges set on the way is set.
//
// Covers: VK31.
func TestAdopt(t *testing.T) {
	t.Parallel()
	r := walked(t, session, "shipped",
		"explore", "together", "build", "fix", "check:failed", "again", "fix", "check", "human:skipped", "human", "ci", "ask", "done")
	src, err := flowops.Adopt(r, "my-fix")
	if err != nil {
		t.Fatal(err)
	}
	f := load(t, string(src))
	ids, edges := drawn(f)
	if diff := cmp.Diff([]string{"explore", "code", "tests", "together", "build", "fix", "check", "human", "ci", "ask", "done"}, ids); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	want := []string{
		"together [ok] build", "build [ok] fix", `fix [ok] check {"risk":"middle"}`, `check [ok] human {"risk":"high"}`,
		"human [ok] ci", `human [denied] done {"result":"needs_human"}`,
		"ci [ok] ask", `ci [timeout] done {"result":"bad"}`, `ask [ok] done {"result":"shipped"}`, "explore [ok] together",
	}
	if diff := cmp.Diff(want, edges); diff != "" {
		t.Errorf("edges (-want +got):\n%s\n%s", diff, src)
	}
	if f.Name() != "my-fix" || f.Version() != 1 || f.Entry() != "explore" {
		t.Errorf("it is %s, version %d, from %s", f.Name(), f.Version(), f.Entry())
	}
	if diff := cmp.Diff([]string{"child"}, f.Children()); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	for _, line := range []string{"# What of the flow fix went well when run R1 ran it on ", r.Run.DefinitionHash, "t.step@2"} {
		if !strings.Contains(string(src), line) {
			t.Errorf("the file lacks %q:\n%s", line, src)
		}
	}
	// What is kept is kept as it was frozen.
	old := load(t, session)
	for _, id := range []string{"tests", "check", "human"} {
		was, _ := old.Node(id)
		is, _ := f.Node(id)
		if was.Optional != is.Optional || was.Message != is.Message || !cmp.Equal(was.Accept, is.Accept) {
			t.Errorf("node %s is %+v, and was %+v", id, is, was)
		}
	}
}

// Two green commands make a chain of two, whatever became of the run.
//
// Covers: VK31.
func TestAdoptOfRunThatFailed(t *testing.T) {
	t.Parallel()
	r := walked(t, session, "error", "explore:failed", "build", "fix", "check:timeout")
	r.Run.Status = checkpoints.Failed
	src, err := flowops.Adopt(r, "short")
	if err != nil {
		t.Fatal(err)
	}
	f := load(t, string(src))
	_, edges := drawn(f)
	if diff := cmp.Diff([]string{"build [ok] fix", `fix [ok] done {"result":"needs_human"}`}, edges); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	if result, _ := f.Field("result"); !cmp.Equal(result.Values, []string{"none", "shipped", "bad", "needs_human"}) {
		t.Errorf("results: %v", result.Values)
	}
	if len(f.Children()) != 0 {
		t.Errorf("children: %v", f.Children())
	}
}

// A node that settles the result settles it in the chain.
//
// Covers: VK31.
func TestAdoptKeepsResultOfNode(t *testing.T) {
	t.Parallel()
	src, err := flowops.Adopt(record(t), "my-fix")
	if err != nil {
		t.Fatal(err)
	}
	_, edges := drawn(load(t, string(src)))
	if diff := cmp.Diff([]string{"look [ok] gate", `look [failed] done {"result":"bad"}`, "gate [ok] fix", "fix [ok] done"}, edges); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

// Covers: VK31.
func TestAdoptOfNothing(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{nil, {"explore:failed"}, {"explore"}, {"build:failed", "again:exhausted", "done"}} {
		if _, err := flowops.Adopt(walked(t, session, "bad", way...), "mine"); !errors.Is(err, flowops.ErrNothing) {
			t.Errorf("%v: %v", way, err)
		}
	}
	if _, err := flowops.Adopt(record(t), "../evil"); err == nil {
		t.Error("a name that is a path is taken")
	}
	r := record(t)
	r.Run.Definition = []byte("[]")
	if _, err := flowops.Adopt(r, "mine"); err == nil || !strings.Contains(err.Error(), "is no flow") {
		t.Errorf("no flow: %v", err)
	}
}

// Whatever is recorded, adopting ends with a file that can be read or an
// error.
func FuzzAdopt(f *testing.F) {
	f.Add([]byte(`{"name":"x","sink":"done","nodes":[{"id":"a","kind":"step"},{"id":"done","kind":"sink"}],"edges":[{"from":"a","to":"done"}]}`), "a", "done")
	f.Add([]byte(`{"nodes":[{"id":"m","kind":"merge"}],"edges":null}`), "m", "")
	f.Add([]byte(`{"nodes":5,"edges":{}}`), "m", "")
	f.Fuzz(func(t *testing.T, definition []byte, id, next string) {
		r := flowops.Record{Run: checkpoints.Run{ID: "R", Definition: definition}}
		r.History = []checkpoints.NodeRecord{{Node: id, Outcome: "ok", Next: next, Delta: definition}}
		for _, adopt := range []func(flowops.Record, string) ([]byte, error){flowops.Adopt, flowops.AdoptWhole} {
			if src, err := adopt(r, "mine"); err == nil && len(src) == 0 {
				t.Fatal("an empty file")
			}
		}
	})
}
