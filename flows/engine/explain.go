package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Explanation is why a node ran as often as it did, or not at all.
type Explanation struct {
	Node string
	Kind flows.Kind
	// Visits is how often the node was completed.
	Visits int
	// Why is a sentence for a node that did not run, one a way to it; empty
	// for those that did.
	Why []string
}

// Explain tells of every node of a flow, in the order of the file, whether a
// run with that history has completed it, and if not, why each way to it was
// not taken. It reads what the records say and guesses nothing. branches, if
// given, are the run's.
func Explain(f *flows.Flow, history []checkpoints.NodeRecord, branches ...checkpoints.BranchRecord) []Explanation {
	x := explainer{flow: f, records: map[string][]checkpoints.NodeRecord{}, branches: map[string][]checkpoints.BranchRecord{}}
	for _, rec := range history {
		x.records[rec.Node] = append(x.records[rec.Node], rec)
	}
	for _, row := range branches {
		x.branches[row.Branch] = append(x.branches[row.Branch], row)
	}
	if len(history) > 0 {
		x.stands = history[len(history)-1].Next
	} else {
		x.stands = f.Entry()
	}
	var out []Explanation
	for _, n := range f.Nodes() {
		e := Explanation{Node: n.ID, Kind: n.Kind}
		for i := range x.records[n.ID] {
			if !passedOver(&x.records[n.ID][i]) {
				e.Visits++
			}
		}
		for _, row := range x.branches[n.ID] {
			if row.Outcome != branchCancelled {
				e.Visits++
			}
		}
		if e.Visits == 0 {
			e.Why = x.why(n)
		}
		out = append(out, e)
	}
	return out
}

type explainer struct {
	flow     *flows.Flow
	records  map[string][]checkpoints.NodeRecord
	branches map[string][]checkpoints.BranchRecord
	stands   string
}

func (x *explainer) why(n flows.Node) []string {
	if n.ID == x.stands {
		return []string{"the run stands before it"}
	}
	var out []string
	for _, from := range x.flow.Nodes() {
		switch {
		case from.Kind == flows.Fanout && slices.Contains(from.Branches, n.ID):
			out = append(out, x.whyBranch(from, n.ID))
		case from.Kind == flows.Fanout && from.Join == n.ID:
			out = append(out, x.whyJoin(from)...)
		default:
			for _, e := range x.flow.From(from.ID) {
				if e.To == n.ID {
					out = append(out, x.whyEdge(e)...)
				}
			}
		}
	}
	if n.ID == x.flow.Sink() && x.flow.Stops() {
		out = append(out, "no node stopped the flow")
	}
	return slices.Compact(out)
}

func (x *explainer) whyBranch(fan flows.Node, branch string) string {
	if rows := x.branches[branch]; len(rows) > 0 {
		return fmt.Sprintf("branch of %s: %s", fan.ID, orNone(rows[len(rows)-1].Note))
	}
	if recs := x.records[fan.ID]; len(recs) > 0 {
		return fmt.Sprintf("%s ended with %s", fan.ID, outcomeOf(recs[len(recs)-1]))
	}
	if fan.ID == x.stands {
		return fmt.Sprintf("the run stands at %s, whose branch it is", fan.ID)
	}
	return fmt.Sprintf("%s, whose branch it is, did not run", fan.ID)
}

func (x *explainer) whyJoin(fan flows.Node) []string {
	if len(x.records[fan.ID]) == 0 {
		return []string{fmt.Sprintf("%s, which it joins, did not run", fan.ID)}
	}
	var out []string
	for _, rec := range x.records[fan.ID] {
		out = append(out, fmt.Sprintf("%s, which it joins, ended with %s", visited(rec), outcomeOf(rec)))
	}
	return out
}

// whyEdge is why an edge was not taken, at each visit of where it leaves.
func (x *explainer) whyEdge(e flows.Edge) []string {
	recs := x.records[e.From]
	if len(recs) == 0 {
		return []string{fmt.Sprintf("%s, from which an edge leads here, did not run", e.From)}
	}
	var out []string
	for _, rec := range recs {
		switch {
		case passedOver(&rec):
			continue
		case len(rec.Guards) > 0 && rec.Guards[0].When == flows.StopGuard:
			out = append(out, fmt.Sprintf("%s stopped the flow: %s", visited(rec), orNone(rec.Note)))
		case !e.Takes(flows.Outcome(rec.Outcome)):
			out = append(out, fmt.Sprintf("%s ended with %s, the edge takes %s", visited(rec), outcomeOf(rec), takes(e)))
		default:
			out = append(out, whyGuard(e, rec))
		}
	}
	return out
}

func whyGuard(e flows.Edge, rec checkpoints.NodeRecord) string {
	for _, g := range rec.Guards {
		if g.To == e.To && g.When == e.When.String() && !g.Taken {
			return fmt.Sprintf("the guard %q did not hold after %s", g.When, visited(rec))
		}
	}
	return fmt.Sprintf("%s went to %s, whose edge stands before", visited(rec), orNone(rec.Next))
}

func visited(rec checkpoints.NodeRecord) string {
	if rec.Visit > 1 {
		return fmt.Sprintf("%s (visit %d)", rec.Node, rec.Visit)
	}
	return rec.Node
}

func outcomeOf(rec checkpoints.NodeRecord) string {
	if rec.Note == "" || rec.Outcome == string(flows.OK) {
		return rec.Outcome
	}
	return rec.Outcome + " (" + rec.Note + ")"
}

func takes(e flows.Edge) string {
	words := make([]string, len(e.On))
	for i, o := range e.On {
		words[i] = string(o)
	}
	return strings.Join(words, ", ")
}
