package flowscript_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/flowscript"
)

// registry has actions that must never run.
func registry(t testing.TB) *flows.Registry {
	t.Helper()
	reg := &flows.Registry{}
	boom := func(context.Context, flows.Call) (flows.Result, error) {
		t.Error("an action of the program was called")
		return flows.Result{}, nil
	}
	anything := func(json.RawMessage) error { return nil }
	if err := reg.Add(
		flows.Action{Name: "t.step", Version: "1", Run: boom, CheckWith: anything, Outcomes: []flows.Outcome{flows.Denied}},
		flows.Action{Name: "t.read", Version: "1", Run: boom, CheckWith: anything, ReadOnly: true},
		flows.Action{Name: "t.gate", Version: "1", Run: boom, ReadOnly: true},
		flows.Action{Name: "t.save", Version: "1", Run: boom, Reads: []string{}, Writes: []string{}},
		flows.Action{Name: flows.CommandAction, Version: "1", Run: boom, CheckWith: anything, Outcomes: []flows.Outcome{flows.Failed, flows.Timeout}},
	); err != nil {
		t.Fatal(err)
	}
	return reg
}

const linear = `apiVersion: flows/v1
name: linear
version: 1
phase: implement
entry: look
sink: done
state:
  issue: {type: int, input: true, required: true}
  n: {type: int, default: 0}
  ref: {type: artifact}
  result: {type: enum, values: [none, good, bad, late], default: none}
stop: {to: done}
limits: {max_steps: 20, tokens: 1000}
nodes:
  - {id: look, kind: step, uses: t.step, in: [], writes: [n, ref, result], timeout: 5m, budget: {tokens: 500}, retry: {max: 2, on: [transient], backoff: 2s, factor: 2, max_backoff: 20s, jitter: none}}
  - {id: judge, kind: gate, uses: t.gate, in: [n], writes: [result]}
  - {id: again, kind: loop, back_to: look, max: 2}
  - {id: ask, kind: wait, event: answer, expires: 72h, on_expire: timeout, take: {n: number}, writes: [n]}
  - {id: end, kind: gate, uses: t.gate, in: [], writes: [result]}
  - {id: late, kind: gate, uses: t.gate, in: [], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: look, to: judge}
  - {from: look, to: late, on: [timeout, budget-exhausted]}
  - {from: judge, to: ask, when: "state.n >= 2"}
  - {from: judge, to: again}
  - {from: again, to: look}
  - {from: again, to: late, on: [exhausted]}
  - {from: ask, to: end}
  - {from: ask, to: late, on: [timeout, denied]}
  - {from: late, to: done}
  - {from: end, to: done}
finally: [t.save]
`

func load(t testing.TB, src string) *flows.Flow {
	t.Helper()
	f, problems := flows.Load("flow.yaml", []byte(src), registry(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

func rehearse(t *testing.T, flow, script string) (flowscript.Report, error) {
	t.Helper()
	s, err := flowscript.Load("s.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return flowscript.Run(t.Context(), load(t, flow), registry(t), s)
}

// A whole rehearsal: a loop, a retry, a wait, money, guards, and what came of
// it, without a world.
//
// Covers: NX12, BL30, HF16, NX17.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, linear, `
input: {issue: 7}
nodes:
  look:
    - {delta: {n: 1, ref: the content}, note: first, spend: {tokens: 100, cost_usd: 0.5}}
    - {error: the line is busy, retry: transient}
    - {delta: {n: 2}, took: 1m}
  judge: [{}, {}]
  ask: [{event: {number: 5}, took: 1h}]
  end: [{delta: {result: good}}]
expect:
  result: good
  path: [look, judge, again, look, judge, ask, end, done]
  state: {n: 5, issue: 7}
`)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() {
		t.Errorf("unmet: %s", rep.Unmet)
	}
	if rep.Spent.Tokens() != 100 || rep.Spent.MicroUSD != 500_000 {
		t.Errorf("spent %+v", rep.Spent)
	}
	if rep.Path[3].Attempt != 2 || rep.Path[3].Visit != 2 {
		t.Errorf("the retried visit: %+v", rep.Path[3])
	}
	text := rep.String()
	for _, want := range []string{
		"linear: good, done", "look", "visit 2", "state.n >= 2 is false: not to ask", "state.n >= 2 is true: to ask",
		"n = 5\n", "100 tokens", "1h1m2s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	raw, err := json.Marshal(rep)
	var back flowscript.Report
	if err != nil || json.Unmarshal(raw, &back) != nil || back.Result != "good" {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
	if diff := cmp.Diff(rep.Nodes(), back.Nodes()); diff != "" {
		t.Errorf("path as JSON (-want +got):\n%s", diff)
	}
}

// Every way in which a node ends.
//
// Covers: NX12.
func TestEndings(t *testing.T) {
	t.Parallel()
	end := "  late: [{delta: {result: late}}]\n"
	for _, tc := range []struct{ name, nodes, path, result, code string }{
		{"stop", "  look: [{stop: {code: enough, reason: No more.}, delta: {result: bad}}]\n", "look done", "bad", "enough"},
		{"hangs", "  look: [{hang: true}]\n" + end, "look late done", "late", ""},
		{"takes too long", "  look: [{took: 6m}]\n" + end, "look late done", "late", ""},
		{"out of money", "  look: [{spend: {tokens: 600}}]\n" + end, "look late done", "late", ""},
		{"by its word", "  look: [{outcome: timeout}]\n" + end, "look late done", "late", ""},
		{"error", "  look: [{error: broken}]\n", "", "error", "failed"},
		{"denied", "  look: [{delta: {n: 2}}]\n  judge: [{}]\n  ask: [{outcome: denied}]\n" + end, "look judge ask late done", "late", ""},
		{"expires", "  look: [{delta: {n: 2}}]\n  judge: [{}]\n  ask: [{expires: true}]\n" + end, "look judge ask late done", "late", ""},
		{
			"retries used up, then a pause", "  look: [{error: x, retry: transient}, {error: x, retry: transient}, {error: x, retry: transient}, {delta: {n: 2}}]\n" +
				"  judge: [{}]\n  ask: [{expires: true}]\n" + end, "look judge ask late done", "late", "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep, err := rehearse(t, linear, "nodes:\n"+tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(rep.Nodes(), " "); got != tc.path || rep.Result != tc.result || rep.Code != tc.code {
				t.Errorf("path %q, result %s, code %q\n%s", got, rep.Result, rep.Code, rep)
			}
		})
	}
}

// A script that does not fit is refused, with the node and the place.
//
// Covers: NX12.
func TestMisfits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		want         []string
	}{
		{"nothing for a node", "nodes: {look: [{}]}\n", []string{"s.yaml:1:8: nodes: node judge (visit 1) needs a line more", "add nodes.judge[0]"}},
		{"one too few", "nodes:\n  look: [{}]\n  judge: [{}]\n", []string{"s.yaml:2:10: nodes.look[0]: node look (visit 2) needs a line more: the script holds 1 for it (add nodes.look[1])"}},
		{"no event", "nodes:\n  look: [{delta: {n: 3}}]\n  judge: [{}]\n", []string{"node ask (visit 1, waiting for answer) needs a line more"}},
		{"left over", "nodes:\n  look: [{stop: {code: x}, delta: {result: bad}}, {}]\n  judge: [{}]\n", []string{
			"s.yaml:2:51: nodes.look[1]: the line is not used: node look used 1 of its 2 lines",
			"s.yaml:3:11: nodes.judge[0]: the line is not used: node judge was never entered",
		}},
		{"all at once", "input: {issue: x, isue: 3}\nnodes:\n  lok: [{}]\n  again: [{}]\n  judge: [{spend: {tokens: 1}, delta: {n: 1}, outcome: denied}]\n  ask: [{note: hm}]\n", []string{
			"input.isue: isue is no input of the flow (did you mean \"issue\"?)", "input.issue: issue must be a whole number",
			"nodes.lok: the flow linear has no node lok (did you mean \"look\"?)", "nodes.again[0]: a loop runs by itself",
			"nodes.judge[0].spend: a gate has no spend", "nodes.judge[0].delta.n: node judge does not write n",
			"nodes.judge[0].outcome: node judge never ends with \"denied\"", "nodes.ask[0].note: a wait has no note",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := rehearse(t, linear, tc.script)
			if err == nil {
				t.Fatal("it fits")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("missing %q in:\n%v", want, err)
				}
			}
		})
	}
}

// What the file alone shows is said by Load, all of it.
func TestLoad(t *testing.T) {
	t.Parallel()
	_, err := flowscript.Load("s.yaml", []byte(`
nodes:
  a:
    - {stop: {code: x}, hang: true}
    - {retry: soon}
    - {error: x, delta: {n: 1}}
    - {took: -1s, spend: {tokens: -1}}
    - {expires: true, outcome: ok}
    - {child: {nodes: {b: [{outcom: ok}]}}}
`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"nodes.a[0]: a line ends in one way only", "nodes.a[1].retry: only an error", "nodes.a[1].retry: \"soon\" is no cause",
		"nodes.a[2].delta", "nodes.a[3].took", "nodes.a[3].spend", "nodes.a[4].expires", "nodes.a[5].child.nodes.b[0].outcom: unknown key",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// What was expected and is not so is said, not hidden.
func TestUnmet(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, linear, `
nodes: {look: [{stop: {code: x}, delta: {result: bad}}]}
expect: {result: good, code: y, path: [look], state: {n: 3, ref: nothing}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Unmet) != 5 || rep.OK() || !strings.Contains(rep.String(), "NOT AS EXPECTED  result: want good, got bad") {
		t.Errorf("%q", rep.Unmet)
	}
}

// The end of the context ends the rehearsal.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s, err := flowscript.Load("s.yaml", []byte("nodes: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := flowscript.Run(ctx, load(t, linear), registry(t), s); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The same script gives the same report.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	var first string
	for range 3 {
		rep, err := rehearse(t, linear, "nodes:\n  look: [{hang: true}]\n  late: [{delta: {result: late}}]\n")
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = rep.String()
		} else if diff := cmp.Diff(first, rep.String()); diff != "" {
			t.Errorf("differs (-first +later):\n%s", diff)
		}
	}
}

// No text breaks the reader, and what it takes is played to an end or refused.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("input: {issue: 7}\nnodes:\n  look: [{delta: {n: 2}}]\n  judge: [{}]\n  ask: [{expires: true}]\n  late: [{delta: {result: late}}]\n"))
	f.Add([]byte("nodes: {look: [{hang: true}, {error: x, retry: transient}]}\nexpect: {path: [a]}\n"))
	f.Add([]byte("nodes: {look: [{spend: {tokens: 9000000000}, took: 10000h}]}\n"))
	flow := load(f, linear)
	reg := registry(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := flowscript.Load("s.yaml", src)
		if err != nil {
			return
		}
		rep, err := flowscript.Run(t.Context(), flow, reg, s)
		if err == nil && rep.Result == "" {
			t.Error("an end without a result")
		}
	})
}

// A flow that is given as a script is told once, and not key by key.
func TestFlowIsNoScript(t *testing.T) {
	t.Parallel()
	_, err := flowscript.Load("linear.yaml", []byte(linear))
	const want = "linear.yaml:1:1: apiVersion: this is a flow, not a script (the keys of a script are about, input, nodes and expect)"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}
