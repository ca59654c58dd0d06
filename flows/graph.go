package flows

import (
	"slices"
	"strings"
)

// checkGraph looks at the graph as a whole. It is silent when names could not
// be resolved, since all it would say followed from that.
func (l *loader) checkGraph() {
	if l.wild || len(l.nodes) == 0 {
		return
	}
	next := map[string][]string{}
	for _, e := range l.links() {
		next[e.From] = append(next[e.From], e.To)
	}
	fromEntry := reach(l.flow.entry, next)
	for _, n := range l.nodes {
		if !fromEntry[n.ID] {
			l.add(at(n.m.at, n.ID), "unreachable", "lead an edge to it or remove it", "no edges lead from %s to %s", l.flow.entry, n.ID)
		}
	}
	cyclic := l.checkCycles()
	l.checkDeadEnds(next, cyclic)
	if cyclic || len(l.problems) > l.before {
		return
	}
	for _, n := range l.nodes {
		if n.Kind == Loop && !reach(n.BackTo, next)[n.ID] {
			l.add(n.m.where("back_to"), "loop-back-to", "", "from %s no edges lead to the loop again", n.BackTo)
		}
	}
	l.checkAssigned()
}

func reach(from string, next map[string][]string) map[string]bool {
	seen, todo := map[string]bool{from: true}, []string{from}
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		for _, to := range next[id] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}

// checkDeadEnds names the nodes without any edge, or else all that can't
// reach the sink.
func (l *loader) checkDeadEnds(next map[string][]string, cyclic bool) {
	back := map[string][]string{}
	for _, e := range l.links() {
		back[e.To] = append(back[e.To], e.From)
	}
	ends := reach(l.flow.sink, back)
	var lost []*rawNode
	for _, n := range l.nodes {
		switch {
		case ends[n.ID]:
		case len(next[n.ID]) == 0:
			l.add(at(n.m.at, n.ID), "dead-end", "add an edge", "no edge leaves %s", n.ID)
			cyclic = true // the others follow from it
		default:
			lost = append(lost, n)
		}
	}
	if cyclic {
		return
	}
	for _, n := range lost {
		l.add(at(n.m.at, n.ID), "dead-end", "lead an edge towards the sink", "from %s there is no way to the sink", n.ID)
	}
}

// checkCycles sorts the graph without the way back of its loops (Kahn); what
// is left over is in or behind a circle.
func (l *loader) checkCycles() bool {
	incoming, next := map[string]int{}, map[string][]string{}
	for _, e := range l.links() {
		if from := l.ids[e.From]; from.Kind == Loop && e.Takes(OK) && e.To == from.BackTo {
			continue
		}
		incoming[e.To]++
		next[e.From] = append(next[e.From], e.To)
	}
	var ready []string
	for _, n := range l.nodes {
		if incoming[n.ID] == 0 {
			ready = append(ready, n.ID)
		}
	}
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		for _, to := range next[id] {
			if incoming[to]--; incoming[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	for _, n := range l.nodes {
		if incoming[n.ID] == 0 {
			continue
		}
		if circle := circleThrough(n.ID, next); circle != nil {
			l.add(at(n.m.at, n.ID), "cycle-without-loop", "put a node of kind loop with max into it", "a circle passes no loop: %s", strings.Join(circle, " → "))
			return true
		}
	}
	return false
}

// circleThrough is a shortest way from a node to itself, or nil.
func circleThrough(id string, next map[string][]string) []string {
	from, todo := map[string]string{}, []string{id}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, to := range next[at] {
			if to == id {
				circle := []string{id}
				for ; at != id; at = from[at] {
					circle = append(circle, at)
				}
				circle = append(circle, id)
				slices.Reverse(circle)
				return circle
			}
			if _, seen := from[to]; !seen {
				from[to] = at
				todo = append(todo, to)
			}
		}
	}
	return nil
}

// checkAssigned refuses guards and templates that read a value which not
// every path from the entry has set.
func (l *loader) checkAssigned() {
	start := map[string]bool{}
	for _, f := range l.flow.fields {
		if f.Default != nil || f.Required {
			start[f.Key] = true
		}
	}
	sets := map[string]map[string]bool{l.flow.entry: start}
	for changed := true; changed; {
		changed = false
		for _, e := range l.edges {
			before := sets[e.From]
			if before == nil {
				continue
			}
			after := l.assignedAfter(before, e)
			if have := sets[e.To]; have == nil {
				sets[e.To], changed = after, true
			} else {
				for key := range have {
					if !after[key] {
						delete(have, key)
						changed = true
					}
				}
			}
		}
	}
	for _, n := range l.nodes {
		set := sets[n.ID]
		if fanout := l.fanoutOf[n.ID]; fanout != nil {
			set = sets[fanout.ID]
		}
		l.needs(set, n.reads, at(n.m.at, n.ID))
	}
	l.needs(start, l.keyReads, l.top.where("concurrency"))
	for _, e := range l.edges {
		if e.When != nil {
			l.needs(l.assignedAfter(sets[e.From], e), e.When.reads, e.m.where("when"))
		}
	}
}

// assignedAfter is what is set where an edge arrives.
func (l *loader) assignedAfter(before map[string]bool, e *rawEdge) map[string]bool {
	after := map[string]bool{}
	for key := range before {
		after[key] = true
	}
	if slices.Equal(e.On, []Outcome{OK}) {
		for _, key := range l.surely(l.ids[e.From]) {
			after[key] = true
		}
	}
	for key := range e.Set {
		after[key] = true
	}
	return after
}

// surely are the keys that a node has set when it ends with ok.
func (l *loader) surely(n *rawNode) []string {
	switch n.Kind {
	case Fanout:
		var keys []string
		for _, id := range n.Branches {
			if b := l.ids[id]; !b.Optional {
				keys = append(keys, b.Writes...)
			}
		}
		return keys
	case Merge:
		if n.Report != "" {
			return append(slices.Clone(n.Writes), n.Report)
		}
	case Subflow:
		return slices.DeleteFunc(slices.Clone(n.Writes), func(key string) bool { return slices.Contains(n.maybe, key) })
	case Step, Gate, Loop, Wait, Approval, Command, Sink:
	}
	return n.Writes
}

// links are all ways through the graph: the edges, and those from a fanout
// over its branches to its join.
func (l *loader) links() []Edge {
	var links []Edge
	for _, e := range l.edges {
		links = append(links, e.Edge)
	}
	for _, n := range l.nodes {
		if fanout := l.fanoutOf[n.ID]; fanout != nil {
			links = append(links, Edge{From: fanout.ID, To: n.ID, On: []Outcome{OK}}, Edge{From: n.ID, To: fanout.Join, On: []Outcome{OK}})
		}
	}
	return links
}

func (l *loader) needs(set map[string]bool, reads []string, p place) {
	for _, key := range reads {
		if !set[key] {
			l.add(p, "ref-not-before", "give state."+key+" a default, or ask has(state."+key+") first", "state.%s is read, but not every path here has set it", key)
		}
	}
}
