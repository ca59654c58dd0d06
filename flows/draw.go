package flows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Marks are what a drawing shows of a run.
type Marks struct {
	// Visits is how often each node was completed.
	Visits map[string]int
	// Taken is how often a run went from a node to another.
	Taken map[[2]string]int
	// At is the node at which the run stands, "" for none.
	At string
}

// MarkPath is the marks of a run that completed these nodes in this order and
// stands at the node at, "" for none.
func MarkPath(path []string, at string) Marks {
	m := Marks{Visits: map[string]int{}, Taken: map[[2]string]int{}, At: at}
	for i, id := range path {
		m.Visits[id]++
		switch {
		case i+1 < len(path):
			m.Taken[[2]string{id, path[i+1]}]++
		case at != "":
			m.Taken[[2]string{id, at}]++
		}
	}
	return m
}

func (m Marks) none() bool { return len(m.Visits) == 0 && len(m.Taken) == 0 && m.At == "" }

// way is a line in a drawing: an edge, or one from a fanout to a branch or from
// a branch to its join, which stand for the edge between these two.
type way struct {
	from, to, label string
	// back is a loop's way back, dashed one that may be absent.
	back, dashed bool
	// on is the pair of nodes of which Marks tells whether it was taken.
	on [2]string
}

// ways are all lines, each once, in the order of the file.
func (f *Flow) ways() []way {
	var ways []way
	for i := range f.edges {
		e := &f.edges[i]
		from, on := f.byID[e.From], [2]string{e.From, e.To}
		if from.Kind != Fanout || !e.Takes(OK) {
			ways = append(ways, way{from: e.From, to: e.To, label: e.label(), back: from.Kind == Loop && e.Takes(OK), on: on})
			continue
		}
		for _, id := range from.Branches {
			w := way{from: e.From, to: id, on: on}
			if f.byID[id].Optional {
				w.label, w.dashed = "optional", true
			}
			ways = append(ways, w)
		}
		for _, id := range from.Branches {
			ways = append(ways, way{from: id, to: e.To, dashed: f.byID[id].Optional, on: on})
		}
	}
	return ways
}

// visits is how often a node was completed, a branch as often as its fanout.
func (f *Flow) visits(m Marks, id string) int {
	if fanout := f.fanoutOf[id]; fanout != "" {
		return m.Visits[fanout]
	}
	return m.Visits[id]
}

// Mermaid draws a flow as a Mermaid flowchart: every node and edge once, and
// the shared stop edge from one stand-in. With marks, what was visited and
// taken stands out.
func Mermaid(f *Flow, marks ...Marks) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range f.nodes {
		n := &f.nodes[i]
		open, shut := shape(n.Kind)
		fmt.Fprintf(&b, "  n_%s%s\"%s\"%s\n", n.ID, open, escape(n.label()), shut)
	}
	ways := f.ways()
	for _, w := range ways {
		line := "-->"
		if w.dashed {
			line = "-.->"
		}
		if w.label == "" {
			fmt.Fprintf(&b, "  n_%s %s n_%s\n", w.from, line, w.to)
			continue
		}
		fmt.Fprintf(&b, "  n_%s %s|\"%s\"| n_%s\n", w.from, line, escape(w.label), w.to)
	}
	if f.stop {
		fmt.Fprintf(&b, "  any_stop([\"any node\"]) -.->|\"_stop\"| n_%s\n", f.sink)
	}
	for _, m := range marks {
		f.mermaidMarks(&b, m, ways)
	}
	return b.String()
}

func (f *Flow) mermaidMarks(b *strings.Builder, m Marks, ways []way) {
	if m.none() {
		return
	}
	b.WriteString("  classDef visited stroke:#2da44e,stroke-width:3px\n  classDef here stroke:#bf8700,stroke-width:4px\n")
	for i := range f.nodes {
		switch id := f.nodes[i].ID; {
		case id == m.At:
			fmt.Fprintf(b, "  class n_%s here\n", id)
		case f.visits(m, id) > 0:
			fmt.Fprintf(b, "  class n_%s visited\n", id)
		}
	}
	var taken []string
	for i, w := range ways {
		if m.Taken[w.on] > 0 {
			taken = append(taken, strconv.Itoa(i))
		}
	}
	if f.stop && f.stopped(m) {
		taken = append(taken, strconv.Itoa(len(ways)))
	}
	if len(taken) > 0 {
		fmt.Fprintf(b, "  linkStyle %s stroke:#2da44e,stroke-width:3px\n", strings.Join(taken, ","))
	}
}

// stopped tells that a run went to the sink from where no edge leads to it.
func (f *Flow) stopped(m Marks) bool {
	for pair := range m.Taken {
		if pair[1] == f.sink && !slices.ContainsFunc(f.out[pair[0]], func(e *Edge) bool { return e.To == f.sink }) {
			return true
		}
	}
	return false
}

func shape(k Kind) (open, shut string) {
	switch k {
	case Gate:
		return "{", "}"
	case Loop:
		return "{{", "}}"
	case Wait, Approval:
		return "([", "])"
	case Sink:
		return "(((", ")))"
	case Fanout:
		return "[/", "\\]"
	case Merge:
		return "[\\", "/]"
	case Subflow:
		return "[[", "]]"
	case Command:
		return ">", "]"
	case Step:
	}
	return "[", "]"
}

func (n *Node) label() string { return n.ID + ": " + n.what() }

// what says in a few words what a node does.
func (n *Node) what() string {
	switch n.Kind {
	case Loop:
		return fmt.Sprintf("loop, at most %d", n.Max)
	case Wait:
		return fmt.Sprintf("wait for %s, %s at most", n.Event, duration(n.Expires))
	case Approval:
		return fmt.Sprintf("approval by %s, %s at most", strings.Join(n.Approvers, " or "), duration(n.Expires))
	case Command:
		return "command " + strings.Join(n.Argv, " ")
	case Fanout:
		if n.MaxParallel > 0 {
			return fmt.Sprintf("fanout, %d at once", n.MaxParallel)
		}
	case Subflow:
		if !n.Await {
			return "subflow " + n.Child + ", not waited for"
		}
		return "subflow " + n.Child
	case Step, Gate, Merge, Sink:
	}
	if n.Uses != "" {
		return fmt.Sprintf("%s %s", n.Kind, n.Uses)
	}
	return string(n.Kind)
}

// label is "" for a plain edge on ok.
func (e *Edge) label() string {
	var parts []string
	if !slices.Equal(e.On, []Outcome{OK}) {
		parts = append(parts, strings.Join(words(e.On), ", "))
	}
	if e.When != nil {
		parts = append(parts, "when "+e.When.String())
	}
	return strings.Join(parts, " ")
}

// escape writes as entities what Mermaid would read as its own syntax.
func escape(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune("\"#<>&`\\", c) || c < ' ' {
			fmt.Fprintf(&b, "#%d;", c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// depths is how far each node is from the entry at most, loops not counted.
func (f *Flow) depths(ways []way) map[string]int {
	depth := make(map[string]int, len(f.nodes))
	// Nodes are at most as deep as there are nodes, so this settles.
	for changed := true; changed; {
		changed = false
		for _, w := range ways {
			if d := depth[w.from] + 1; !w.back && d > depth[w.to] {
				depth[w.to], changed = d, true
			}
		}
	}
	return depth
}

// Layers is a flow as plain text: each node once, with the edges that leave
// it, in layers of how far it is from the entry at most, loops not counted.
func Layers(f *Flow) string {
	ways := f.ways()
	depth := f.depths(ways)
	layers := make([][]*Node, len(f.nodes)+1)
	for i := range f.nodes {
		n := &f.nodes[i]
		layers[depth[n.ID]] = append(layers[depth[n.ID]], n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "flow %s, version %d, phase %s, sha256 %.12s\n", f.name, f.version, f.phase, f.hash)
	for i, layer := range layers {
		if len(layer) == 0 {
			continue
		}
		fmt.Fprintf(&b, "layer %d\n", i)
		for _, n := range layer {
			fmt.Fprintf(&b, "  %s\n", n.label())
			for _, w := range ways {
				if w.from != n.ID {
					continue
				}
				fmt.Fprintf(&b, "    -> %s", w.to)
				if w.label != "" {
					fmt.Fprintf(&b, "  [%s]", w.label)
				}
				b.WriteByte('\n')
			}
		}
	}
	if f.stop {
		fmt.Fprintf(&b, "any node -> %s  [_stop]\n", f.sink)
	}
	if len(f.finally) > 0 {
		fmt.Fprintf(&b, "finally %s\n", strings.Join(f.finally, ", "))
	}
	return b.String()
}
