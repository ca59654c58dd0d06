package flowops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Path is what of a flow a run has walked.
type Path struct {
	// Nodes are how often each node was completed; At is where the run stands,
	// "" when it is over.
	Nodes map[string]int
	At    string
	edges map[[2]string]bool
}

// PathOf is the path of a run, branches of its fanouts included.
func PathOf(r Record, branches []checkpoints.BranchRecord) Path {
	p := Path{Nodes: map[string]int{}, edges: map[[2]string]bool{}}
	for _, n := range r.History {
		p.Nodes[n.Node]++
		if n.Next != "" {
			p.edges[[2]string{n.Node, n.Next}] = true
		}
	}
	for _, b := range branches {
		p.Nodes[b.Branch]++
		p.edges[[2]string{b.Fanout, b.Branch}] = true
	}
	if !r.Run.Status.Final() {
		p.At = r.Run.Next
	}
	return p
}

// Mermaid draws a flow as flows.Mermaid does and marks a path: the nodes and
// edges that were taken, and where the run stands.
func Mermaid(f *flows.Flow, p *Path) string {
	text := flows.Mermaid(f)
	if p == nil {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	class := func(name, style string, ids []string) {
		if len(ids) > 0 {
			fmt.Fprintf(&b, "  classDef %s %s\n  class %s %s\n", name, style, strings.Join(ids, ","), name)
		}
	}
	var taken, at []string
	for _, n := range f.Nodes() {
		switch {
		case n.ID == p.At:
			at = append(at, "n_"+n.ID)
		case p.Nodes[n.ID] > 0:
			taken = append(taken, "n_"+n.ID)
		}
	}
	class("taken", "fill:#d5f5e3,stroke:#1e8449,stroke-width:2px", taken)
	class("at", "fill:#fdebd0,stroke:#b9770e,stroke-width:3px", at)
	var links []string
	for i, e := range f.Edges() {
		if p.edges[[2]string{e.From, e.To}] {
			links = append(links, fmt.Sprint(i))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(&b, "  linkStyle %s stroke:#1e8449,stroke-width:3px\n", strings.Join(links, ","))
	}
	return b.String()
}

// edge is a line of a drawing.
type edge struct {
	from, to, label string
	back, dotted    bool
}

// edgesOf are a flow's edges, and those that a fanout implies.
func edgesOf(f *flows.Flow) []edge {
	var all []edge
	for _, e := range f.Edges() {
		from, _ := f.Node(e.From)
		label := ""
		if !slices.Equal(e.On, []flows.Outcome{flows.OK}) {
			var on []string
			for _, o := range e.On {
				on = append(on, string(o))
			}
			label = strings.Join(on, ", ")
		}
		if when := e.When.String(); when != "" {
			label = strings.TrimSpace(label + " when " + when)
		}
		all = append(all, edge{e.From, e.To, label, from.Kind == flows.Loop && e.To == from.BackTo, false})
	}
	for _, n := range f.Nodes() {
		for _, b := range n.Branches {
			all = append(all, edge{n.ID, b, "", false, true}, edge{b, n.Join, "", false, true})
		}
	}
	return all
}
