package flowscript_test

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/flowscript"
)

// whole has every kind of node: two readers at once, a person's approval, a
// command, a child run, and a stop.
const whole = `apiVersion: flows/v1
name: whole
version: 1
phase: implement
entry: look
sink: done
state:
  issue: {type: int, input: true, required: true}
  code: {type: string, default: "", max_len: 100}
  tests: {type: string, default: "", max_len: 100}
  lines: {type: list, of: string, max_items: 4, default: []}
  exit: {type: int, default: -1}
  output: {type: artifact}
  verdict: {type: string, default: "", max_len: 40}
  note: {type: string, default: "", max_len: 40}
  result: {type: enum, values: [none, good, bad, refused], default: none}
stop: {to: done}
limits: {max_steps: 30}
nodes:
  - {id: look, kind: fanout, branches: [find_code, find_tests], join: synth, max_parallel: 2}
  - {id: find_code, kind: step, uses: t.read, in: [issue], writes: [code]}
  - {id: find_tests, kind: step, uses: t.read, in: [issue], writes: [tests], required: false}
  - {id: synth, kind: merge, of: [find_code, find_tests], uses: t.step, in: [code, tests], writes: [verdict, result], report: lines}
  - {id: test, kind: command, argv: [make, test], env: {WHAT: "{{state.verdict}}"}, accept: [[git, diff, --check]], take: {output: output, exit: code}}
  - {id: ask, kind: approval, message: "Publish #{{state.issue}}?", approvers: ["role:maintain", "user:ann"], expires: 72h, take: {note: note}}
  - {id: review, kind: subflow, flow: small, key: "r-{{state.issue}}", give: {issue: issue}, take: {verdict: word}, wait: true}
  - {id: good, kind: gate, uses: t.gate, in: [], writes: [result]}
  - {id: bad, kind: gate, uses: t.gate, in: [], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: look, to: bad, on: [failed]}
  - {from: synth, to: test}
  - {from: test, to: ask}
  - {from: test, to: bad, on: [failed, timeout]}
  - {from: ask, to: review}
  - {from: ask, to: bad, on: [denied]}
  - {from: review, to: good}
  - {from: review, to: bad, on: [failed]}
  - {from: good, to: done}
  - {from: bad, to: done}
flows:
  small:
    apiVersion: flows/v1
    name: small
    version: 1
    phase: implement
    entry: judge
    sink: done
    state:
      issue: {type: int, input: true, required: true}
      word: {type: string, default: "", max_len: 40}
      result: {type: enum, values: [none, yes], default: none}
    stop: {to: done}
    limits: {max_steps: 5}
    nodes:
      - {id: judge, kind: step, uses: t.step, in: [issue], writes: [word, result]}
      - {id: hear, kind: wait, event: word, expires: 1h, on_expire: timeout, take: {word: word}, writes: [word]}
      - {id: done, kind: sink}
    edges:
      - {from: judge, to: hear}
      - {from: hear, to: done}
      - {from: hear, to: done, on: [timeout]}
`

// Fan-out, merge, command, approval and subflow are rehearsed like the rest:
// branches in the order of the file, the wrong approver's word skipped, the
// child's run beside its parent's.
//
// Covers: NX12, BL30, VK5.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, whole, `
nodes:
  find_code: [{delta: {code: a.go}}]
  find_tests: [{delta: {tests: a_test.go}, took: 1s}]
  synth: [{delta: {verdict: both}}]
  test: [{output: "all fine\n"}]
  ask:
    - {event: {by: eve, role: read, outcome: ok, note: let me}}
    - {event: {by: ann, role: read, outcome: ok, note: fine}, took: 2h}
  review: [{child: {nodes: {judge: [{delta: {result: "yes"}}], hear: [{event: {word: agreed}}]}}}]
  good: [{delta: {result: good}}]
expect:
  result: good
  path: [look, synth, test, ask, ask, review, good, done]
  state: {code: a.go, tests: a_test.go, verdict: agreed, exit: 0, note: fine, lines: ["find_code: ok", "find_tests: ok"]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() {
		t.Errorf("unmet: %s\n%s", rep.Unmet, rep)
	}
	if len(rep.Children) != 1 || rep.Children[0].Result != "yes" || strings.Join(rep.Children[0].Nodes(), " ") != "judge hear done" {
		t.Errorf("children: %+v", rep.Children)
	}
	var order []string
	for _, v := range rep.Path {
		if v.Branch {
			order = append(order, v.Node)
		}
	}
	if strings.Join(order, " ") != "find_code find_tests" {
		t.Errorf("branches %v", order)
	}
	for _, want := range []string{"small, started by review", "|  find_code", "skipped"} {
		if !strings.Contains(rep.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, rep)
		}
	}
}

// The other ways through the same flow.
//
// Covers: NX12.
func TestEveryKindFails(t *testing.T) {
	t.Parallel()
	start := "  find_code: [{}]\n  find_tests: [{}]\n  synth: [{}]\n"
	bad := "  bad: [{delta: {result: bad}}]\n"
	for _, tc := range []struct{ name, nodes, path, result string }{
		{"optional branch fails", "  find_code: [{}]\n  find_tests: [{error: no}]\n  synth: [{stop: {code: x}, delta: {result: refused}}]\n", "look synth done", "refused"},
		{"required branch fails", "  find_code: [{error: no}]\n  find_tests: [{}]\n" + bad, "look bad done", "bad"},
		{"exit code", start + "  test: [{code: 2, output: broken}]\n" + bad, "look synth test bad done", "bad"},
		{"command hangs", start + "  test: [{hang: true}]\n" + bad, "look synth test bad done", "bad"},
		{"denied", start + "  test: [{}]\n  ask: [{outcome: denied}]\n" + bad, "look synth test ask bad done", "bad"},
		{"nobody answers", start + "  test: [{}]\n  ask: [{expires: true}]\n" + bad, "look synth test ask bad done", "bad"},
		{
			"child fails", start + "  test: [{}]\n  ask: [{event: {by: ann, role: maintain, note: fine}}]\n  review: [{child: {nodes: {judge: [{error: no}]}}}]\n" + bad,
			"look synth test ask review bad done", "bad",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep, err := rehearse(t, whole, "nodes:\n"+tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(rep.Nodes(), " "); got != tc.path || rep.Result != tc.result {
				t.Errorf("path %q, result %s\n%s", got, rep.Result, rep)
			}
		})
	}
}

// Lines of a child that don't fit, or that nothing used, are placed too.
//
// Covers: NX12.
func TestChildMisfits(t *testing.T) {
	t.Parallel()
	head := "nodes:\n  find_code: [{}]\n  find_tests: [{}]\n  synth: [{}]\n  test: [{}]\n  ask: [{event: {by: ann, role: maintain, note: fine}}]\n"
	for _, tc := range []struct{ name, script, want string }{
		{"no child", head + "  review: [{}]\n", "nodes.review[0]: say what the child run does"},
		{"unknown node", head + "  review: [{child: {nodes: {jugde: [{}]}}}]\n", `nodes.review[0].child.nodes.jugde: the flow small has no node jugde (did you mean "judge"?)`},
		{"too few", head + "  review: [{child: {nodes: {judge: [{delta: {result: \"yes\"}}]}}}]\n", "node hear (visit 1, waiting for word) needs a line more"},
		{
			"left over", head + "  review: [{child: {nodes: {judge: [{stop: {code: x}, delta: {result: \"yes\"}}], hear: [{}]}}}]\n  good: [{delta: {result: good}}]\n",
			"nodes.review[0].child.nodes.hear[0]: the line is not used",
		},
		{"fanout needs none", head + "  look: [{}]\n", "nodes.look[0]: a fanout runs by itself"},
		{"command", strings.Replace(head, "test: [{}]", "test: [{delta: {exit: 1}}]", 1), "nodes.test[0].delta: a command has no delta"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := rehearse(t, whole, tc.script)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("missing %q in:\n%v", tc.want, err)
			}
		})
	}
}

// A script can be made in Go as well; its problems have no line.
func TestWithoutFile(t *testing.T) {
	t.Parallel()
	s := flowscript.Script{Nodes: map[string][]flowscript.Line{"nowhere": {{}}}}
	if _, err := flowscript.Run(t.Context(), load(t, linear), registry(t), s); err == nil || !strings.Contains(err.Error(), "no node nowhere") {
		t.Errorf("%v", err)
	}
}
