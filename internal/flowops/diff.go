package flowops

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Difference is one thing in which two runs differ.
type Difference struct {
	// What is "definition", "actions", "path", "result", "node" or "state".
	What string `json:"what"`
	// Where is the node's visit ("code#2") or the state key, "" for the run.
	Where string `json:"where,omitempty"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Comparison is what Diff found.
type Comparison struct {
	// Same says that nothing differs; SameDefinition that both froze the same
	// flow, so that differences come from what happened.
	Same           bool         `json:"same"`
	SameDefinition bool         `json:"same_definition"`
	Differences    []Difference `json:"differences"`
}

// Diff compares two runs: their definitions, paths, outcomes, what each node
// changed, and how they ended. Times, costs and ids are no difference.
func Diff(a, b Record) Comparison {
	c := Comparison{SameDefinition: a.Run.DefinitionHash == b.Run.DefinitionHash, Differences: []Difference{}}
	if !c.SameDefinition {
		c.add("definition", "", versionOf(a.Run), versionOf(b.Run))
	}
	if !maps.Equal(a.Run.Actions, b.Run.Actions) {
		c.add("actions", "", "", checkpoints.Drift(a.Run.Actions, b.Run.Actions))
	}
	c.add("path", "", path(a.History), path(b.History))
	c.nodes(a.History, b.History)
	c.add("result", "", ending(a.Run), ending(b.Run))
	c.state(a.Run.State, b.Run.State)
	c.Same = len(c.Differences) == 0
	return c
}

func (c *Comparison) add(what, where, a, b string) {
	if a != b {
		c.Differences = append(c.Differences, Difference{what, where, a, b})
	}
}

func versionOf(r checkpoints.Run) string { return fmt.Sprintf("%s %.12s", r.Flow, r.DefinitionHash) }

func path(history []checkpoints.NodeRecord) string {
	var ids []string
	for _, n := range history {
		ids = append(ids, n.Node)
	}
	return strings.Join(ids, " → ")
}

func ending(r checkpoints.Run) string {
	if !r.Status.Final() && r.Status != checkpoints.Ending {
		return string(r.Status) + " at " + cmp.Or(r.Next, "its start")
	}
	text := r.Result
	if r.Code != "" {
		text += " (" + r.Code + ")"
	}
	return text
}

// visits are the records by "node#visit", the last one of each: a wait has one
// for every event that it passed over.
func visits(history []checkpoints.NodeRecord) (byName map[string]checkpoints.NodeRecord, order []string) {
	byName = map[string]checkpoints.NodeRecord{}
	for _, n := range history {
		name := fmt.Sprintf("%s#%d", n.Node, n.Visit)
		if _, seen := byName[name]; !seen {
			order = append(order, name)
		}
		byName[name] = n
	}
	return byName, order
}

func (c *Comparison) nodes(a, b []checkpoints.NodeRecord) {
	inA, order := visits(a)
	inB, more := visits(b)
	for _, name := range more {
		if _, both := inA[name]; !both {
			order = append(order, name)
		}
	}
	const absent = "not entered"
	for _, name := range order {
		x, okA := inA[name]
		y, okB := inB[name]
		switch {
		case !okA:
			c.add("node", name, absent, outcome(y))
		case !okB:
			c.add("node", name, outcome(x), absent)
		default:
			c.add("node", name, outcome(x), outcome(y))
			c.add("node", name, "changed "+plain(x.Delta), "changed "+plain(y.Delta))
		}
	}
}

func outcome(n checkpoints.NodeRecord) string {
	return n.Outcome + ", next " + cmp.Or(n.Next, "none")
}

// plain is JSON in one form, so that two that mean the same are equal.
func plain(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func (c *Comparison) state(a, b json.RawMessage) {
	inA, inB := keys(a), keys(b)
	all := maps.Clone(inA)
	maps.Copy(all, inB)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c.add("state", key, value(inA, key), value(inB, key))
	}
}

func keys(state json.RawMessage) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	if json.Unmarshal(state, &m) != nil || m == nil {
		return map[string]json.RawMessage{}
	}
	return m
}

func value(m map[string]json.RawMessage, key string) string {
	raw, ok := m[key]
	if !ok {
		return "unset"
	}
	return plain(raw)
}
