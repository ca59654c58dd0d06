package flows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// Problem is one reason why a flow file is refused.
type Problem struct {
	// Code is a stable word, one of Codes.
	Code string `json:"code"`
	// File, Line and Column say where; lines and columns count from 1.
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Node is the id of the node concerned, "" for the whole flow.
	Node string `json:"node,omitempty"`
	// Msg says what is wrong, Hint what to do.
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitempty"`
}

// String is "file:line:column: code: node x: message (hint)".
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s: ", p.File, p.Line, p.Column, p.Code)
	if p.Node != "" {
		fmt.Fprintf(&b, "node %s: ", p.Node)
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		fmt.Fprintf(&b, " (%s)", p.Hint)
	}
	return oneLine(b.String())
}

// oneLine writes control characters out: names come from files, and none must
// be able to look like a line of ours.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Problems are all the reasons, in the order of their places. Take care to
// compare with len or to use Err: an empty Problems in an error is not nil.
type Problems []Problem

// Error implements error: one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// once leaves out what is said twice of one place.
func (ps Problems) once() Problems {
	seen := map[Problem]bool{}
	return slices.DeleteFunc(ps, func(p Problem) bool {
		key := p
		key.Node, key.Hint = "", ""
		twice := seen[key]
		seen[key] = true
		return twice
	})
}

// Err is the problems as an error, nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Codes are the distinct codes, sorted.
func (ps Problems) Codes() []string {
	var codes []string
	for _, p := range ps {
		codes = append(codes, p.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// Codes explains every code that Load may report. There is none for retries of
// effects without an idempotency key: flows can't name such keys, the engine
// makes them of run, node and visit (Effects.Once), so that every action may be
// called again.
func Codes() map[string]string {
	return map[string]string{
		"approval-without-expiry": "an approval has no deadline",
		"bad-name":                "an id or name is not made of the allowed letters",
		"bad-value":               "a value is of the wrong type or out of range",
		"bad-with":                "the action refuses the node's `with`",
		"branch-has-edges":        "an edge or the entry leads to or from a branch of a fanout",
		"branch-key-clash":        "two branches of a fanout, or one and the merge's report, write one key",
		"branch-kind":             "a branch of a fanout is no step",
		"branch-twice":            "a node is a branch of two fanouts",
		"budget-not-positive":     "a budget or limit is zero or negative; leave it out for no limit",
		"cache-writes":            "a result is cached of an action that is not read-only",
		"cycle-without-loop":      "nodes form a circle that passes no loop node",
		"dangling-edge":           "an edge names a node that does not exist",
		"dead-end":                "from a node there is no way to the sink",
		"duplicate-id":            "two nodes have one id",
		"duplicate-key":           "a key stands twice in one mapping",
		"fanout-no-merge":         "a fanout and its merge do not belong together, or the fanout leads elsewhere",
		"fanout-writes":           "a branch's action is not registered as read-only",
		"finally-unknown":         "`finally` names an action that is not registered",
		"gate-effects":            "a gate's action writes to the outside world",
		"give-mismatch":           "`give` is not what the child flow takes and needs",
		"guard-syntax":            "a guard says more than guards may say",
		"guard-type":              "a guard does not fit the types of the state",
		"in-mismatch":             "a node's `in` is not what its action reads",
		"loop-back-to":            "a loop does not lead back to where it says",
		"loop-without-max":        "a loop has no bound",
		"merge-entry":             "something else than its fanout leads to a merge",
		"missing-field":           "a required key is absent",
		"multi-document":          "the file holds more than one document",
		"no-entry":                "the entry is absent or no node",
		"no-nodes":                "the flow has no nodes",
		"no-result":               "the state has no enum `result` with the default none",
		"no-stop":                 "an action may end the flow early, and the flow has no `stop`",
		"no-sink":                 "the sink is absent or not of kind sink",
		"not-total":               "an outcome that happens has no unguarded edge",
		"outcome-unknown":         "an edge waits for an outcome that its node never has",
		"phase-mismatch":          "the flow that a phase runs is of another phase",
		"phase-unknown":           "no phase has the name",
		"ref-branch":              "a branch reads what another one writes at the same time",
		"ref-not-before":          "a value is read that not every path here has set",
		"ref-self":                "a node refers to itself",
		"ref-unknown":             "a name refers to nothing",
		"reserved-name":           "a name is kept for the engine",
		"result-lacks":            "an action may end the flow with a result that it does not have",
		"result-unknown":          "the flow that a phase runs has a result that the phase does not know",
		"second-sink":             "the flow has two sinks",
		"set-not-literal":         "`set` holds something else than literals",
		"shadowed-edge":           "an edge can never be taken, an earlier one always is",
		"shell-string":            "a command is a text for a shell",
		"sink-has-edges":          "an edge leaves the sink",
		"subflow-depth":           "flows within flows over too many levels",
		"subflow-invalid":         "a subflow names a flow that is refused",
		"subflow-recursion":       "a flow would be its own child",
		"subflow-unknown":         "a subflow names no flow",
		"subflow-unused":          "the file holds a flow that no subflow names",
		"take-mismatch":           "a value does not fit the state field that takes it",
		"template-form":           "a template is not of the strict form {{path}}",
		"template-in-argv":        "a command has a template in its words",
		"too-deep":                "the file is nested too deeply",
		"too-large":               "the file or a part of it is over its limit",
		"type-mismatch":           "a state field is of another type than the action has it",
		"unknown-action":          "`uses` names an action that is not registered",
		"unknown-key":             "a key is not known",
		"unknown-kind":            "the kind of a node is not known",
		"unreachable":             "a node can't be reached from the entry",
		"unreadable":              "the file can't be read",
		"wait-without-expiry":     "a wait has no deadline",
		"writes-mismatch":         "a node's `writes` is not what its action writes",
		"yaml-feature":            "anchors, aliases, merge keys and tags are refused",
		"yaml-syntax":             "the file is no YAML",
	}
}

// nearest is a hint that names the nearest known word, if any is near.
func nearest(word string, known []string) string {
	if best := strictyaml.Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return ""
}

// didYouMean is a hint that names the nearest known word, or else all of few.
func didYouMean(word string, known []string) string {
	switch hint := nearest(word, known); {
	case hint != "":
		return hint
	case len(known) == 0 || len(known) > 20:
		return ""
	default:
		return "known: " + strings.Join(known, ", ")
	}
}
