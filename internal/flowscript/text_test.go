package flowscript_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const told = `
apiVersion: flows/v1
name: told
phase: triage
entry: both
sink: done
state:
  n: {type: int, default: 0}
  m: {type: int, default: 0}
  code: {type: int, default: 7}
  result: {type: enum, values: [none, good, bad, poor], default: none}
stop: {to: done}
limits: {max_steps: 20}
nodes:
  - {id: both, kind: fanout, branches: [one, two], join: together}
  - {id: one, kind: step, uses: t.read, in: [n], writes: [n]}
  - {id: two, kind: step, uses: t.read, in: [m], writes: [m]}
  - {id: together, kind: merge, of: [one, two]}
  - {id: test, kind: command, argv: [make], take: {code: code}}
  - {id: ask, kind: approval, message: "Publish {{state.n}}?", approvers: [role:write], expires: 48h}
  - {id: end, kind: gate, uses: t.gate, in: [], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: together, to: test}
  - {from: test, to: ask, on: [ok, failed, timeout]}
  - {from: ask, to: end}
  - {from: ask, to: done, on: [denied], set: {result: poor}}
  - {from: end, to: done}
`

// What people read: nodes are counted and branches are not, a question stands
// where it was asked, and one is one.
func TestText(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, told, `
nodes:
  one: [{delta: {n: 3}, spend: {tokens: 1, tool_calls: 1}}]
  two: [{delta: {m: 4}}]
  test: [{outcome: timeout}]
  ask: [{took: 2h, outcome: denied}]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `told: poor, done
  |  one       step     ok
       set n = 3
  |  two       step     ok
       set m = 4
  1  both      fanout   ok -> together  2 of 2 branches ok
  2  together  merge    ok -> test
       set m = 4, n = 3
  3  test      command  timeout -> ask
       set code = -1
  4  ask       approval denied -> done  denied by operator
       asked: Publish 3?
       set result = "poor"
  5  done      sink     ok
  state  code = -1
         m = 4
         n = 3
         result = "poor"
  spent  1 token, 1 tool call, $0.0000
  took   2h
`
	if diff := cmp.Diff(want, rep.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// A planned early end shows its code, and not how the store calls it.
func TestTextOfEarlyEnd(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, told, `
nodes:
  one: [{}]
  two: [{}]
  test: [{outcome: failed}]
  ask: [{}]
  end: [{delta: {result: bad}, stop: {code: enough, reason: That is enough.}}]
`)
	if err != nil {
		t.Fatal(err)
	}
	text := rep.String()
	for _, want := range []string{"told: bad (enough), done\n  That is enough.\n", "code = 1\n", "exit code 1", "       ended early: to done\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "_stop") {
		t.Errorf("the engine's own field is shown:\n%s", text)
	}
}

// What does not fit is said once, with what would.
func TestMisfitsNameWhatFits(t *testing.T) {
	t.Parallel()
	_, err := rehearse(t, told, `
nodes:
  one: [{delta: {result: good}}]
  ask: [{delta: {m: 3}}]
`)
	if err == nil {
		t.Fatal("it fits")
	}
	want := `s.yaml:3:26: nodes.one[0].delta.result: node one does not write result (it writes n)
s.yaml:4:17: nodes.ask[0].delta: an approval has no delta (known here: outcome, event, expires, took)`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
