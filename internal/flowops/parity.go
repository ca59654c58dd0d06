package flowops

import (
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Agreement is what Parity found.
type Agreement struct {
	// Agrees says that the shadow took the decisions of the real run.
	Agrees bool `json:"agrees"`
	// Differences are what it did otherwise.
	Differences []Difference `json:"differences"`
	// Undone are the values that only the real run has, since a shadow writes
	// nothing outside and so learns no numbers or addresses of what it would
	// have made.
	Undone []Difference `json:"undone"`
}

// Parity compares a shadow run (A) with the real one (B): path, outcomes,
// result and state must agree, but for what follows from the shadow's writing
// nothing outside. That both come from one definition is not asked: to try
// another one is what shadows are for.
func Parity(shadow, actual Record) Agreement {
	g := Agreement{Differences: []Difference{}, Undone: []Difference{}}
	for _, d := range Diff(shadow, actual).Differences {
		switch {
		case d.What == "definition", d.What == "actions":
		case d.What == "node" && undoneDelta(d, shadow.History, actual.History):
			g.Undone = append(g.Undone, d)
		case d.What == "state" && empty(d.A) && !empty(d.B):
			g.Undone = append(g.Undone, d)
		default:
			g.Differences = append(g.Differences, d)
		}
	}
	g.Agrees = len(g.Differences) == 0
	return g
}

// empty reports a value that a shadow is left with.
func empty(plain string) bool {
	return slices.Contains([]string{"unset", "null", `""`, "0", "false", "{}", "[]"}, plain)
}

// undoneDelta reports that two visits of a node went the same way, and that
// what the shadow's changed differs in values alone that it is left without.
func undoneDelta(d Difference, a, b []checkpoints.NodeRecord) bool {
	inA, _ := visits(a)
	inB, _ := visits(b)
	x, okA := inA[d.Where]
	y, okB := inB[d.Where]
	if !okA || !okB || outcome(x) != outcome(y) {
		return false
	}
	var c Comparison
	c.state(x.Delta, y.Delta)
	for _, one := range c.Differences {
		if !empty(one.A) || empty(one.B) {
			return false
		}
	}
	return true
}
