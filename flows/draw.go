package flows

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws a flow as a Mermaid flowchart: every node and edge once, and
// the shared stop edge from one stand-in.
func Mermaid(f *Flow) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, n := range f.nodes {
		open, shut := shape(n.Kind)
		fmt.Fprintf(&b, "  n_%s%s\"%s\"%s\n", n.ID, open, escape(n.label()), shut)
	}
	for _, e := range f.edges {
		label := e.label()
		if label == "" {
			fmt.Fprintf(&b, "  n_%s --> n_%s\n", e.From, e.To)
			continue
		}
		fmt.Fprintf(&b, "  n_%s -->|\"%s\"| n_%s\n", e.From, escape(label), e.To)
	}
	if f.stop {
		fmt.Fprintf(&b, "  any_stop([\"any node\"]) -.->|\"_stop\"| n_%s\n", f.sink)
	}
	return b.String()
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

func (n Node) label() string {
	switch {
	case n.Uses != "":
		return fmt.Sprintf("%s: %s %s", n.ID, n.Kind, n.Uses)
	case n.Kind == Loop:
		return fmt.Sprintf("%s: loop, at most %d", n.ID, n.Max)
	case n.Kind == Wait:
		return fmt.Sprintf("%s: wait for %s, %s at most", n.ID, n.Event, n.Expires)
	}
	return fmt.Sprintf("%s: %s", n.ID, n.Kind)
}

// label is "" for a plain edge on ok.
func (e Edge) label() string {
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

// Layers is a flow as plain text: each node once, with the edges that leave
// it, in layers of how far it is from the entry at most, loops not counted.
func Layers(f *Flow) string {
	depth := map[string]int{}
	// Nodes are at most as deep as there are nodes, so this settles.
	for range f.nodes {
		for _, e := range f.edges {
			if n := f.byID[e.From]; n.Kind == Loop && e.To == n.BackTo {
				continue
			}
			depth[e.To] = max(depth[e.To], depth[e.From]+1)
		}
	}
	layers := make([][]Node, len(f.nodes)+1)
	for _, n := range f.nodes {
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
			for _, e := range f.out[n.ID] {
				fmt.Fprintf(&b, "    -> %s", e.To)
				if label := e.label(); label != "" {
					fmt.Fprintf(&b, "  [%s]", label)
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
