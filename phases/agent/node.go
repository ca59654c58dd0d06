package agent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
)

// baseTypes are the keys that a model's node has whatever else it says.
func baseTypes() map[string]flows.FieldType {
	return map[string]flows.FieldType{"base_sha": flows.StringField, "work_ref": flows.ArtifactField}
}

// readNode checks a node of agent.read: what it shows must reach it, and what
// the answer fills must be what it may write, of that type.
func readNode(n flows.NodeFacts) []flows.NodeProblem {
	w, err := flows.With[readWith](n.With)
	if err != nil {
		return nil // CheckWith has said so
	}
	found := append(grounded(n), w.unseen(n)...)
	filled := slices.Sorted(maps.Keys(w.Out))
	for _, key := range filled {
		p := flows.NodeProblem{Path: []string{"with", "out", key}}
		f, ok := n.Field(key)
		switch t := w.Out[key].Type; {
		case !ok:
			p.Code, p.Msg, p.Hint = "ref-unknown", fmt.Sprintf("out names %s, which is no field of the state", key), "declare it: "+key+": {type: "+stateType(t)+"}"
		case !slices.Contains(n.Writes, key):
			p.Code, p.Msg, p.Hint = "writes-mismatch", fmt.Sprintf("out fills %s, which the node's writes lacks", key), "writes: ["+strings.Join(filled, ", ")+"]"
		case !fits(t, f):
			p.Code, p.Msg = "type-mismatch", fmt.Sprintf("out makes %s of type %s, and state.%s is of type %s", key, t, key, f.Type)
			p.Hint = "use one type for both"
		default:
			continue
		}
		found = append(found, p)
	}
	for i, key := range n.Writes {
		if _, ok := w.Out[key]; !ok {
			found = append(found, flows.NodeProblem{
				Code: "writes-mismatch", Path: []string{"writes", strconv.Itoa(i)}, Hint: "name it in out, or leave it out here",
				Msg: fmt.Sprintf("writes has %s, which out does not fill", key),
			})
		}
	}
	return found
}

// writeNode checks a node of agent.write.
func writeNode(n flows.NodeFacts) []flows.NodeProblem {
	w, err := flows.With[ask](n.With)
	if err != nil {
		return nil
	}
	return append(grounded(n), w.unseen(n)...)
}

// grounded wants the commit that a model looks at.
func grounded(n flows.NodeFacts) []flows.NodeProblem {
	if slices.Contains(n.In, "base_sha") {
		return nil
	}
	return []flows.NodeProblem{{
		Code: "in-mismatch", Path: []string{"in"}, Hint: "in: [" + strings.Join(append([]string{"base_sha"}, n.In...), ", ") + "]",
		Msg: "in lacks base_sha, the commit that the model looks at, which workspace.pin settles",
	}}
}

// unseen are the keys to show that would not reach the action.
func (a ask) unseen(n flows.NodeFacts) []flows.NodeProblem {
	var found []flows.NodeProblem
	for i, key := range a.Show {
		if p, bad := unseen(n, key, "show", strconv.Itoa(i)); bad {
			found = append(found, p)
		}
	}
	return found
}

// unseen tells that a key which `with` names, at path, is no field or not in
// the node's `in`.
func unseen(n flows.NodeFacts, key string, path ...string) (flows.NodeProblem, bool) {
	p := flows.NodeProblem{Path: append([]string{"with"}, path...)}
	switch _, ok := n.Field(key); {
	case slices.Contains(n.In, key):
		return p, false
	case !ok:
		p.Code, p.Hint = "ref-unknown", flows.Nearest(key, n.Fields())
		p.Msg = fmt.Sprintf("%s names %s, which is no field of the state", path[0], key)
	default:
		p.Code, p.Hint = "in-mismatch", "add it to in"
		p.Msg = fmt.Sprintf("%s names %s, which the node's in lacks, so the action would not see it", path[0], key)
	}
	return p, true
}

// stateType is the type of field that an answer's type needs.
func stateType(t string) string {
	if t == "list" {
		return "list, of: string"
	}
	return t
}

func fits(t string, f flows.Field) bool {
	switch t {
	case "string":
		return f.Type == flows.StringField || f.Type == flows.EnumField
	case "list":
		return f.Type == flows.ListField && f.Of == flows.StringField
	}
	return string(f.Type) == t
}
