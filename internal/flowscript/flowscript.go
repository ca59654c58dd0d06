// Package flowscript rehearses a flow without the world: a script says what
// each node returns, which events come and how long things take, and the real
// engine walks the real definition over a store in memory and a clock of its
// own. No network, no model, no process and no file is touched.
//
//	s, err := flowscript.Load("bump.script.yaml", src)  // all problems, with places
//	rep, err := flowscript.Run(ctx, flow, registry, s)  // err: the script does not fit
//	fmt.Print(rep)                                      // path, guards, state, result
//
// Nothing is guessed: a node that is entered more often than the script has
// lines for it is an error, and so is a line that nothing used.
//
// It must not know phases, the forge, models or files. It may import flows,
// flows/engine, checkpoints, checkpoints/memory, internal/clock and
// internal/strictyaml.
package flowscript

import (
	"time"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// Script is one rehearsal.
type Script struct {
	// About is for people.
	About string `json:"about"`
	// Input are the values that the run starts with. A text given for an
	// artifact becomes its content. `issue` and `repo` are 1 and
	// "example/project" when nobody says otherwise.
	Input map[string]any `json:"input"`
	// Nodes are the lines of each node, by its id, used in order: one a call
	// of its action (an attempt that is to be retried is a line too), one an
	// event that reaches a wait or an approval, one a child run of a subflow.
	Nodes map[string][]Line `json:"nodes"`
	// Expect, when given, is compared with what came of it.
	Expect *Expect `json:"expect"`

	doc *strictyaml.Document
}

// Line is what happens at one node once. Which keys a line may have depends on
// the node's kind.
type Line struct {
	// Outcome is ok unless something else says how it ends: failed, timeout,
	// budget-exhausted, or what the action declares. For waits and approvals it
	// is the event's: ok or denied.
	Outcome string `json:"outcome"`
	// Delta are the state keys that the action changes; a text given for an
	// artifact becomes its content.
	Delta map[string]any `json:"delta"`
	// Stop ends the flow early.
	Stop *StopLine `json:"stop"`
	Note string    `json:"note"`
	// Error makes the action fail with that text; Retry says that it may pass:
	// transient, rate-limited or overloaded. The next line is then the next
	// attempt.
	Error string `json:"error"`
	Retry string `json:"retry"`
	// Took is how long it takes; for events, how long until they come.
	Took time.Duration `json:"took"`
	// Hang makes the action end by the node's timeout only.
	Hang  bool   `json:"hang"`
	Spend *Spend `json:"spend"`
	// Code and Output are a command's. A code other than 0 is a failure.
	Code   *int   `json:"code"`
	Output string `json:"output"`
	// Event is the data of the event that comes. An approval without data is
	// by the operator.
	Event map[string]any `json:"event"`
	// Expires lets the deadline of a wait pass.
	Expires bool `json:"expires"`
	// Child are the lines of the child run that a subflow starts.
	Child *Child `json:"child"`
}

// StopLine is a planned early end. The line's delta sets the result.
type StopLine struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// Spend is what a call costs, reserved and settled as a real one.
type Spend struct {
	Tokens    int64   `json:"tokens"`
	ToolCalls int64   `json:"tool_calls"`
	CostUSD   float64 `json:"cost_usd"`
}

// Child are the lines of a child run.
type Child struct {
	Nodes map[string][]Line `json:"nodes"`
}

// Expect is what should come of it; what is absent is not compared.
type Expect struct {
	// Result is the flow's; Code a stop's or an error's.
	Result string `json:"result"`
	Code   string `json:"code"`
	// Path are the nodes in the order in which they were completed.
	Path []string `json:"path"`
	// State are final values.
	State map[string]any `json:"state"`
}

// Load reads a script strictly. The error is a strictyaml.Problems: every
// problem at once, with file, line and column. file is used in messages. What
// only the flow can tell is checked by Run.
func Load(file string, src []byte) (Script, error) {
	var s Script
	doc, problems := strictyaml.Decode(file, src, &s)
	s.doc = doc
	for _, p := range problems {
		if p.Path == "apiVersion" {
			p.Msg, p.Hint = "this is a flow, not a script", "the keys of a script are about, input, nodes and expect"
			return Script{}, strictyaml.Problems{p} // the others tell of a script that it is not
		}
	}
	c := &checker{doc: doc, problems: problems}
	c.lines("nodes", s.Nodes)
	if len(c.problems) > 0 {
		c.problems.Sort()
		return Script{}, c.problems
	}
	return s, nil
}

// document is where problems are placed; a script made in Go has no file.
func (s Script) document() *strictyaml.Document {
	if s.doc == nil {
		return &strictyaml.Document{File: "script"}
	}
	return s.doc
}
