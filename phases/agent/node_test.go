package agent

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
)

const nodeFlow = `apiVersion: flows/v1
name: look
phase: implement
entry: pin
sink: done
state:
  base_sha: {type: string, default: ""}
  default_branch: {type: string, default: ""}
  topic: {type: string, default: ""}
  pages: {type: list, of: string, default: []}
  found: {type: bool, default: false}
  result: {type: enum, values: [none, ok, closed, needs_human], default: none}
stop: {to: done}
nodes:
  - {id: pin, kind: step, uses: workspace.pin}
  - id: look
    kind: step
    uses: agent.read
    with: {prompt: "Look.", show: [topic], out: {found: bool, pages: list}}
    in: [base_sha, topic]
    writes: [found, pages]
  - {id: done, kind: sink}
edges:
  - {from: pin, to: look}
  - {from: look, to: done, set: {result: ok}}
`

// What an action can't see or write is said when the flow is loaded, not left
// out when it runs.
func TestNodesOfActions(t *testing.T) {
	t.Parallel()
	reg := &flows.Registry{}
	if err := reg.Add(Actions(Deps{})...); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"fine", "", "", ""},
		{"show of no field", "show: [topic]", "show: [topci]", "ref-unknown: node look: show names topci, which is no field of the state (did you mean topic?)"},
		{"show of what is not seen", "in: [base_sha, topic]", "in: [base_sha]", "in-mismatch: node look: show names topic, which the node's in lacks, so the action would not see it (add it to in)"},
		{"show of a writer", "uses: agent.read\n    with: {prompt: \"Look.\", show: [topic], out: {found: bool, pages: list}}\n    in: [base_sha, topic]\n    writes: [found, pages]",
			"uses: flow.end\n    with: {result: ok, code: x, reason: y, list: found}\n    in: [found]", "type-mismatch: node look: list names found, which is of type bool (name a list of texts)"},
		{"no base", "in: [base_sha, topic]", "in: [topic]", "in-mismatch: node look: in lacks base_sha, the commit that the model looks at, which workspace.pin settles (in: [base_sha, topic])"},
		{"out of no field", "found: bool,", "fuond: bool,", "ref-unknown: node look: out names fuond, which is no field of the state (declare it: fuond: {type: bool})\n" +
			"writes-mismatch: node look: writes has found, which out does not fill (name it in out, or leave it out here)"},
		{"out not written", "writes: [found, pages]", "writes: [pages]", "writes-mismatch: node look: out fills found, which the node's writes lacks (writes: [found, pages])"},
		{"out of another type", "found: bool,", "found: string,", "type-mismatch: node look: out makes found of type string, and state.found is of type bool (use one type for both)"},
		{"writes too much", "writes: [found, pages]", "writes: [found, pages, topic]", "writes-mismatch: node look: writes has topic, which out does not fill (name it in out, or leave it out here)"},
		{"type of the action", "base_sha: {type: string, default: \"\"}", "base_sha: {type: int, default: 0}", "type-mismatch: state.base_sha is of type int, and the action workspace.pin has it as string (type: string)\n" +
			"type-mismatch: state.base_sha is of type int, and the action agent.read has it as string (type: string)"},
		{"no stop", "stop: {to: done}\n", "", "no-stop: node pin: the action workspace.pin may end the flow early, and the flow has no stop (add stop: {to: done})"},
		{"no result for an end", "ok, closed,", "ok,", "result-lacks: result lacks closed, with which the action workspace.pin of node pin may end the flow (add closed)"},
		{"a key of with", "prompt:", "promt:", "bad-with: node look: agent.read takes no promt (did you mean prompt?)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			src := strings.Replace(nodeFlow, tc.from, tc.to, 1)
			if tc.from != "" && src == nodeFlow {
				t.Fatal("nothing was replaced")
			}
			_, problems := flows.Load("look.yaml", []byte(src), reg)
			var got []string
			for _, p := range problems {
				got = append(got, regexp.MustCompile(`^look.yaml:\d+:\d+: `).ReplaceAllString(p.String(), ""))
			}
			want := slices.DeleteFunc([]string{tc.want}, func(s string) bool { return s == "" })
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(slices.Compact(got), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A run that was frozen before such flows were refused fails at the node
// instead of leaving the value out.
func TestShowOfWhatIsNotSeen(t *testing.T) {
	t.Parallel()
	c := flows.Call{Node: "look", Visit: 1, Sees: []string{"base_sha"}}
	_, err := ask{Prompt: "Look.", Show: []string{"topic"}}.request(t.Context(), c, "read", readPrompt)
	if err == nil || !strings.Contains(err.Error(), "show names topic, which is not in the node's `in`") {
		t.Errorf("error = %v", err)
	}
}
