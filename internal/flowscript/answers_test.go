package flowscript_test

import (
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/flowscript"
)

const asking = `
apiVersion: flows/v1
name: asking
phase: triage
entry: ask
sink: done
state:
  result: {type: enum, values: [none, good, late], default: none}
nodes:
  - {id: ask, kind: approval, message: "Go on?", approvers: [role:write], expires: 1h}
  - {id: done, kind: sink}
edges:
  - {from: ask, to: done, set: {result: good}}
  - {from: ask, to: done, on: [denied], set: {result: late}}
`

// An answer that does not count is said where the next line is missing, and
// the report shows how far the run came.
func TestAnswerThatDoesNotCount(t *testing.T) {
	t.Parallel()
	rep, err := rehearse(t, asking, "nodes: {ask: [{event: {by: octo-cat, role: triage}}]}")
	if err == nil || !strings.Contains(err.Error(), "the last event was passed over: octo-cat (triage) is not among the approvers: role:write") {
		t.Errorf("error = %v", err)
	}
	if len(rep.Path) == 0 || rep.Path[0].Outcome != "skipped" {
		t.Errorf("the report of how far it came: %+v", rep)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"{}":                "good",
		"{outcome: denied}": "late",
		"{expires: true}":   "late",
		"{event: {by: a, role: write, outcome: denied, note: no}}": "late",
		"{outcome: deny}":                 `node ask never ends with "deny" (did you mean denied?)`,
		"{event: {outcome: deny}}":        `node ask never ends with "deny" (did you mean denied?)`,
		"{event: {by: a, role: boss}}":    `s.yaml:1:37: nodes.ask[0].event.role: nobody has the role "boss" (use admin, maintain, write, triage, read, none, operator)`,
		"{event: {by: a, role: mantain}}": `nobody has the role "mantain" (did you mean "maintain"?)`,
		"{event: {by: a, rolle: write}}":  `nodes.ask[0].event.rolle: an answer has no rolle (did you mean "role"?)`,
		"{event: {who: a}}":               `an answer has no who (known are by, note, outcome, role)`,
	} {
		s, err := flowscript.Load("s.yaml", []byte("nodes: {ask: ["+line+"]}"))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := flowscript.Run(t.Context(), load(t, asking), registry(t), s)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && rep.Result != want {
			t.Errorf("%s: %s, %v, want %s", line, rep.Result, err, want)
		}
	}
}
