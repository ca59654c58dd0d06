package flows

import (
	"maps"
	"slices"
	"strings"
)

// checkGraph looks at the graph as a whole. It is silent when names could not
// be resolved, since all it would say followed from that.
func (l *loader) checkGraph() {
	if l.wild || len(l.nodes) == 0 {
		return
	}
	number := make(map[string]int, len(l.nodes))
	for i, n := range l.nodes {
		number[n.ID] = i
	}
	links := l.links(number)
	next := make(ways, len(l.nodes))
	for _, e := range links {
		next.add(e.from, e.to)
	}
	fromEntry := next.reach(number[l.flow.entry])
	for i, n := range l.nodes {
		if !fromEntry[i] {
			l.add(at(n.m.at, n.ID), "unreachable", "lead an edge to it or remove it", "no edges lead from %s to %s", l.flow.entry, n.ID)
		}
	}
	cyclic := l.checkCycles(links)
	l.checkDeadEnds(links, next, number[l.flow.sink], cyclic)
	if cyclic || len(l.problems) > l.before {
		return
	}
	for i, n := range l.nodes {
		if n.Kind == Loop && !next.reach(number[n.BackTo])[i] {
			l.add(n.m.where("back_to"), "loop-back-to", "", "from %s no edges lead to the loop again", n.BackTo)
		}
	}
	l.checkAssigned()
}

// ways are the nodes to which each node leads; nodes are numbers.
type ways [][]int

func (w ways) add(from, to int) { w[from] = append(w[from], to) }

// reach tells which nodes can be reached from one, itself among them.
func (w ways) reach(from int) []bool {
	seen, todo := make([]bool, len(w)), make([]int, 1, len(w))
	seen[from], todo[0] = true, from
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range w[at] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}

// circle is a shortest way from a node to itself, or nil.
func (w ways) circle(through int) []int {
	from, todo := map[int]int{}, []int{through}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, to := range w[at] {
			if to == through {
				circle := []int{through}
				for ; at != through; at = from[at] {
					circle = append(circle, at)
				}
				circle = append(circle, through)
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

// checkDeadEnds names the nodes without any edge, or else all that can't
// reach the sink.
func (l *loader) checkDeadEnds(links []link, next ways, sink int, cyclic bool) {
	back := make(ways, len(l.nodes))
	for _, e := range links {
		back.add(e.to, e.from)
	}
	ends := back.reach(sink)
	var lost []*rawNode
	for i, n := range l.nodes {
		switch {
		case ends[i]:
		case len(next[i]) == 0:
			hint := "add an edge"
			if n.action.Ends != nil {
				hint = "add an edge to " + l.flow.sink + ", also where the action ends the flow itself"
			}
			l.add(at(n.m.at, n.ID), "dead-end", hint, "no edge leaves %s", n.ID)
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
func (l *loader) checkCycles(links []link) bool {
	incoming, next := make([]int, len(l.nodes)), make(ways, len(l.nodes))
	for _, e := range links {
		if !e.back {
			incoming[e.to]++
			next.add(e.from, e.to)
		}
	}
	var ready []int
	for i, n := range incoming {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		at := ready[0]
		ready = ready[1:]
		for _, to := range next[at] {
			if incoming[to]--; incoming[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	for i, n := range l.nodes {
		if incoming[i] == 0 {
			continue
		}
		if circle := next.circle(i); circle != nil {
			var ids []string
			for _, at := range circle {
				ids = append(ids, l.nodes[at].ID)
			}
			l.add(at(n.m.at, n.ID), "cycle-without-loop", "put a node of kind loop with max into it", "a circle passes no loop: %s", strings.Join(ids, " → "))
			return true
		}
	}
	return false
}

// keySet is a set of state keys, by their place among the fields; there are
// at most maxKeys.
type keySet [(maxKeys + 63) / 64]uint64

func (s *keySet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s *keySet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// checkAssigned refuses guards and templates that read a value which not
// every path from the entry has set.
func (l *loader) checkAssigned() {
	var start keySet
	index := make(map[string]int, len(l.flow.fields))
	for i, f := range l.flow.fields {
		index[f.Key] = i
		if f.Default != nil || f.Required {
			start.add(i)
		}
	}
	// What an edge adds does not depend on the way there.
	adds, drops := make([]keySet, len(l.edges)), make([]keySet, len(l.edges))
	for i, e := range l.edges {
		for _, key := range l.forgets(e) {
			drops[i].add(index[key])
		}
		if len(e.On) == 1 && e.On[0] == OK {
			for _, key := range l.surely(l.ids[e.From]) {
				adds[i].add(index[key])
			}
		}
		for key := range e.Set {
			adds[i].add(index[key])
		}
	}
	sets := make(map[string]*keySet, len(l.nodes))
	sets[l.flow.entry] = &start
	first := start
	for changed := true; changed; {
		changed = false
		for i, e := range l.edges {
			before := sets[e.From]
			if before == nil {
				continue
			}
			after := *before
			for w := range after {
				after[w] = after[w]&^drops[i][w] | adds[i][w]
			}
			have := sets[e.To]
			if have == nil {
				sets[e.To], changed = &after, true
				continue
			}
			for w := range have {
				if both := have[w] & after[w]; both != have[w] {
					have[w], changed = both, true
				}
			}
		}
	}
	for _, n := range l.nodes {
		set := sets[n.ID]
		if fanout := l.fanoutOf[n.ID]; fanout != nil {
			set = sets[fanout.ID]
		}
		l.needs(*set, index, n.reads, at(n.m.at, n.ID))
	}
	l.needs(first, index, l.keyReads, l.top.where("concurrency"))
	for i, e := range l.edges {
		if e.When != nil {
			after := *sets[e.From]
			for w := range after {
				after[w] = after[w]&^drops[i][w] | adds[i][w]
			}
			l.needs(after, index, e.When.reads, e.m.where("when"))
		}
	}
}

// forgets are the keys that may be without a value on an edge because the node
// before takes them and brought none; those with a default go back to it. What
// is frozen was checked when it was.
func (l *loader) forgets(e *rawEdge) []string {
	n := l.ids[e.From]
	keys := n.maybe // even ok brings these not surely
	if len(e.On) != 1 || e.On[0] != OK {
		keys = slices.Collect(maps.Keys(n.Take))
	}
	if l.opts.frozen {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		f := l.flow.byKey[key]
		return f == nil || f.Default != nil || f.Required
	})
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

// link is a way from a node to another, by their numbers; back says that it is
// a loop's.
type link struct {
	from, to int
	back     bool
}

// links are all ways through the graph: the edges, and those from a fanout
// over its branches to its join.
func (l *loader) links(number map[string]int) []link {
	links := make([]link, 0, len(l.edges)+2*len(l.fanoutOf))
	for _, e := range l.edges {
		from := l.ids[e.From]
		links = append(links, link{number[e.From], number[e.To], from.Kind == Loop && e.Takes(OK) && e.To == from.BackTo})
	}
	for i, n := range l.nodes {
		if fanout := l.fanoutOf[n.ID]; fanout != nil {
			links = append(links, link{number[fanout.ID], i, false}, link{i, number[fanout.Join], false})
		}
	}
	return links
}

func (l *loader) needs(set keySet, index map[string]int, reads []string, p place) {
	for _, key := range reads {
		if i, ok := index[key]; !ok || !set.has(i) {
			l.add(p, "ref-not-before", "give state."+key+" a default, or ask has(state."+key+") first", "state.%s is read, but not every path here has set it", key)
		}
	}
}
