package flows

import (
	"encoding/json"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// NodeFacts is what an action may look at when a node that uses it is loaded.
type NodeFacts struct {
	// In and Writes are the node's, With is its `with` as JSON, which
	// CheckWith has passed.
	In, Writes []string
	With       json.RawMessage
	fields     map[string]*Field
}

// Field is a field of the flow's state.
func (n NodeFacts) Field(key string) (Field, bool) {
	f, ok := n.fields[key]
	if !ok {
		return Field{}, false
	}
	return *f, true
}

// Fields are the names of all fields, sorted.
func (n NodeFacts) Fields() []string { return fieldKeys(n.fields) }

// NodeProblem is what an action has against a node.
type NodeProblem struct {
	// Code is one of Codes; "bad-with" when empty.
	Code string
	// Path leads to the place: a key of the node and, within its value, keys
	// and indices from 0, e.g. with, show, 1. What is absent is looked for
	// where the path ends.
	Path []string
	// Msg says what is wrong, Hint what to do.
	Msg, Hint string
}

// Nearest is a hint that names the known word which is most like word, or the
// words when none is.
func Nearest(word string, known []string) string { return didYouMean(word, known) }

// Ends is an Action.Ends that does not depend on the node's `with`.
func Ends(results ...string) func(json.RawMessage) []string {
	return func(json.RawMessage) []string { return results }
}

// checkFacts asks the action what it has against the node, and checks what the
// action declares of its state keys and of the ends it may bring about. A
// frozen flow has passed the checks of the program that froze it.
func (l *loader) checkFacts(n *rawNode) {
	if l.opts.frozen || !n.known {
		return
	}
	l.checkTypes(n)
	l.checkEnds(n)
	if n.action.CheckNode == nil {
		return
	}
	for _, p := range n.action.CheckNode(NodeFacts{In: n.In, Writes: n.Writes, With: n.With, fields: l.flow.byKey}) {
		code := p.Code
		if code == "" {
			code = "bad-with"
		}
		l.add(n.m.inside(p.Path...), code, p.Hint, "%s", p.Msg)
	}
}

// checkTypes compares the fields that a node hands to its action, or takes
// from it, with the types that the action declares.
func (l *loader) checkTypes(n *rawNode) {
	if len(n.action.Types) == 0 {
		return
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(n.In), n.Writes...)))) {
		want, f := n.action.Types[key], l.flow.byKey[key]
		if want == "" || f == nil || f.Type == "" || f.Type == want || want == StringField && f.Type == EnumField {
			continue
		}
		l.add(l.stateMap().inside(key, "type"), "type-mismatch", "type: "+string(want), "state.%s is of type %s, and the action %s has it as %s", key, f.Type, n.Uses, want)
	}
}

// stateMap is the state's mapping, for places.
func (l *loader) stateMap() mapping { return mapping{reader: l.reader, at: l.top.valueOr("state")} }

// checkEnds wants what an early end needs: stop, and the results among those of
// the flow. A branch can't end a flow.
func (l *loader) checkEnds(n *rawNode) {
	result := l.flow.byKey[resultKey]
	if result == nil || result.Type != EnumField || l.fanoutOf[n.ID] != nil || n.unfit {
		return
	}
	var ends []string
	if n.action.Ends != nil {
		ends = n.action.Ends(n.With)
	}
	if len(ends) > 0 && !l.flow.stop && !l.saidNoStop {
		l.saidNoStop = true
		l.add(n.m.where("uses"), "no-stop", "add stop: {to: "+l.top.str("sink")+"}", "the action %s may end the flow early, and the flow has no stop", n.Uses)
	}
	for _, r := range slices.Concat(ends, n.action.Sets) {
		if r != "" && !slices.Contains(result.Values, r) && !slices.Contains(l.lacks, r) {
			l.lacks = append(l.lacks, r)
			l.add(l.stateMap().inside(resultKey, "values"), "result-lacks", "add "+r, "result lacks %s, with which the action %s of node %s may end the flow", r, n.Uses, n.ID)
		}
	}
}

// inside is the place to which keys and indices lead, or the last that is
// there.
func (m mapping) inside(path ...string) place {
	n := m.at
	for _, step := range path {
		next := childAt(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return at(n, m.id)
}

func childAt(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return nil
}

// keyNamed is the mapping, and the place in it, of the first key of a name
// within a value, at any depth; nil when there is none.
func keyNamed(n *yaml.Node, name string) (in *yaml.Node, place int) {
	if n == nil {
		return nil, 0
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Value == name {
				return n, i
			}
			continue
		}
		if found, at := keyNamed(c, name); found != nil {
			return found, at
		}
	}
	return nil, 0
}
