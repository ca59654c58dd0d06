package flowops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Skip is a node that a run has not entered, and the reason.
type Skip struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Skipped explains every node that a run has not entered. The rule is one: a
// node is entered when an edge to it is taken, so that it is skipped when each
// node that leads to it was left by another edge, was itself skipped, or has
// not been reached yet.
func Skipped(f *flows.Flow, r Record) []Skip {
	done := map[string][]checkpoints.NodeRecord{}
	for _, n := range r.History {
		done[n.Node] = append(done[n.Node], n)
	}
	branches := map[string]string{}
	for _, n := range f.Nodes() {
		for _, b := range n.Branches {
			branches[b] = n.ID
		}
	}
	over := r.Run.Status.Final() || r.Run.Status == checkpoints.Ending
	var skips []Skip
	for _, n := range f.Nodes() {
		if len(done[n.ID]) > 0 || !over && r.Run.Next == n.ID {
			continue
		}
		if fanout, ok := branches[n.ID]; ok {
			if len(done[fanout]) == 0 {
				skips = append(skips, Skip{n.ID, "the fanout " + fanout + " was not completed"})
			}
			continue
		}
		skips = append(skips, Skip{n.ID, whyNot(f, n.ID, done, over, r.Run)})
	}
	return skips
}

func whyNot(f *flows.Flow, id string, done map[string][]checkpoints.NodeRecord, over bool, run checkpoints.Run) string {
	var reasons []string
	say := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(reasons, s) {
			reasons = append(reasons, s)
		}
	}
	for _, e := range f.Edges() {
		if e.To != id {
			continue
		}
		records := done[e.From]
		switch {
		case len(records) == 0 && !over && run.Next == e.From:
			say("%s is not completed yet", e.From)
		case len(records) == 0:
			say("%s was not entered", e.From)
		}
		for _, n := range records {
			switch {
			case !slices.Contains(e.On, flows.Outcome(n.Outcome)):
				say("%s ended with %s, and the edge takes %s", e.From, n.Outcome, outcomes(e.On))
			case n.Next != "":
				say("%s went on to %s%s", e.From, n.Next, guard(n, id))
			}
		}
	}
	if len(reasons) == 0 {
		return "no edge leads to it but the shared one of `stop`, which was not taken"
	}
	return strings.Join(reasons, "; ")
}

func outcomes(on []flows.Outcome) string {
	var all []string
	for _, o := range on {
		all = append(all, string(o))
	}
	return strings.Join(all, ", ")
}

// guard is what the edge's guard said, where it was looked at.
func guard(n checkpoints.NodeRecord, to string) string {
	for _, g := range n.Guards {
		if g.To == to && g.When != "" && !g.Taken {
			return fmt.Sprintf(", since %q was false", g.When)
		}
	}
	return ""
}
