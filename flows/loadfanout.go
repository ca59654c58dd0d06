package flows

import (
	"fmt"
	"slices"
	"strings"
)

// maxBranches bounds a fanout.
const maxBranches = 32

func (l *loader) readFanout(n *rawNode) {
	m := n.m
	m.need("branches")
	n.Branches, n.Join = m.texts("branches"), m.str("join")
	if m.has("branches") && (len(n.Branches) == 0 || len(n.Branches) > maxBranches) {
		m.bad("branches", "must name 1 to %d nodes", maxBranches)
	}
	l.wild = l.wild || len(n.Branches) == 0
	n.MaxParallel = int(m.positive("max_parallel"))
	if !m.has("join") {
		l.wild = true
		if m.misspelt("join") {
			return
		}
		l.add(m.where("join"), "fanout-no-merge", "add join: and a node of kind merge", "the fanout has no join")
	}
}

// mergeKeys go only with uses.
func mergeKeys() []string {
	return []string{"with", "in", "writes", "budget", "timeout", "idle", "retry"}
}

func (l *loader) readMerge(n *rawNode) {
	m := n.m
	m.need("of")
	n.Of, n.Report = m.texts("of"), m.str("report")
	if m.has("uses") {
		l.readUses(n)
		return
	}
	for _, key := range mergeKeys() {
		if m.has(key) {
			m.bad(key, "goes only with uses")
		}
	}
}

// findBranches tells which nodes are branches, once all nodes are read.
func (l *loader) findBranches() {
	for _, n := range l.nodes {
		if n.Kind != Fanout {
			continue
		}
		for i, id := range n.Branches {
			p := at(n.m.items("branches")[i], n.ID)
			b := l.ids[id]
			switch {
			case b == nil:
				l.wild = true
				l.add(p, "ref-unknown", didYouMean(id, l.steps()), "branches names %s, which is no node", id)
			case b == n:
				l.wild = true
				l.add(p, "ref-self", "", "the fanout is its own branch")
			case l.fanoutOf[id] != nil:
				l.wild = true
				l.add(p, "branch-twice", "give each fanout its own nodes", "%s is a branch of %s already", id, l.fanoutOf[id].ID)
			case l.writes(b):
				l.wild, b.unfit, n.unfit = true, true, true
				l.add(b.m.where("uses"), "fanout-writes", "use a subflow for work that writes", "the action %s is not registered as one that only reads, so it can't be a branch", b.Uses)
			case b.Kind != Step && b.Kind != "":
				l.wild = true
				l.add(at(b.m.at, b.ID), "branch-kind", "use kind: step", "%s is of kind %s, and only steps can be branches of a fanout", id, b.Kind)
			default:
				l.fanoutOf[id] = n
			}
		}
	}
}

// writes tells that a step's action is known and can't be a branch.
func (l *loader) writes(n *rawNode) bool {
	a, known := l.reg.Get(n.Uses)
	return known && n.Kind == Step && (!a.ReadOnly || a.Effects)
}

func (l *loader) steps() []string {
	var ids []string
	for _, n := range l.nodes {
		if n.Kind == Step {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// joinEdges adds the edge from each fanout to its join, and refuses the edges
// that would lead past it: into or out of branches, from a fanout to elsewhere,
// into a merge from elsewhere.
func (l *loader) joinEdges() {
	l.checkJoins()
	kept := l.edges[:0:0]
	for _, e := range l.edges {
		if l.allowed(e) {
			kept = append(kept, e)
		}
	}
	l.edges = kept
	for _, n := range l.nodes {
		if n.Kind == Fanout && l.ids[n.Join] != nil {
			l.edges = append(l.edges, &rawEdge{Edge: Edge{From: n.ID, To: n.Join, On: []Outcome{OK}}, m: n.m})
		}
	}
	l.indexEdges()
}

func (l *loader) allowed(e *rawEdge) bool {
	from, to := l.ids[e.From], l.ids[e.To]
	for _, end := range e.ends() {
		if f := l.fanoutOf[end.id]; f != nil {
			l.wild = true
			l.add(e.m.where(end.key), "branch-has-edges", "a branch is run by its fanout and leads to the merge", "%s is a branch of the fanout %s and has no edges", end.id, f.ID)
			return false
		}
	}
	switch {
	case from == nil || to == nil:
		return true
	case from.Kind == Fanout && e.Takes(OK):
		if e.To == from.Join && len(e.On) == 1 && !e.m.has("when") && !e.m.has("set") {
			return false // says what is so anyway
		}
		l.wild = true
		l.add(e.m.where("to"), "fanout-no-merge", "leave the edge out", "on ok the fanout %s leads to its join, always and to nothing else", from.ID)
		return false
	case to.Kind == Merge:
		l.add(e.m.where("to"), "merge-entry", "lead it to the fanout", "only its fanout leads to the merge %s", to.ID)
	}
	return true
}

// checkJoins wants a merge of exactly its branches for each fanout.
func (l *loader) checkJoins() {
	joined := map[string]*rawNode{}
	bad := func(p place, hint, format string, args ...any) {
		l.wild = true
		l.add(p, "fanout-no-merge", hint, format, args...)
	}
	for _, n := range l.nodes {
		if n.Kind != Fanout || n.Join == "" {
			continue
		}
		p := n.m.where("join")
		switch merge := l.ids[n.Join]; {
		case merge == nil:
			bad(p, didYouMean(n.Join, l.merges()), "the join %s is no node", n.Join)
		case merge.Kind == "":
		case merge.Kind != Merge:
			bad(p, "", "the join %s is of kind %s, not merge", n.Join, merge.Kind)
		case joined[n.Join] != nil:
			bad(p, "give each fanout its own", "%s is the join of %s already", n.Join, joined[n.Join].ID)
		default:
			joined[n.Join] = n
			if of, branches := slices.Sorted(slices.Values(merge.Of)), slices.Sorted(slices.Values(n.Branches)); !slices.Equal(of, branches) && merge.m.has("of") && n.m.has("branches") {
				bad(merge.m.where("of"), "of: ["+strings.Join(n.Branches, ", ")+"]", "of is not the branches of the fanout %s", n.ID)
			}
		}
	}
	for _, n := range l.nodes {
		if n.Kind == Merge && joined[n.ID] == nil && !l.meant(n) {
			bad(at(n.m.at, n.ID), "name it as the join of one", "no fanout joins in the merge %s", n.ID)
		}
	}
}

// meant says that a fanout which names no merge has branches of this one:
// that is said of its join already.
func (l *loader) meant(merge *rawNode) bool {
	return slices.ContainsFunc(l.nodes, func(n *rawNode) bool {
		if n.Kind != Fanout {
			return false
		}
		if join := l.ids[n.Join]; join != nil && (join.Kind == Merge || join.Kind == "") {
			return false
		}
		return slices.ContainsFunc(n.Branches, func(id string) bool { return slices.Contains(merge.Of, id) })
	})
}

func (l *loader) merges() []string {
	var ids []string
	for _, n := range l.nodes {
		if n.Kind == Merge {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// checkFanouts looks at branches together, once their actions are known.
func (l *loader) checkFanouts() {
	for _, n := range l.nodes {
		if n.Kind != Fanout {
			continue
		}
		writer := map[string]string{}
		for _, id := range n.Branches {
			b := l.ids[id]
			if b == nil || l.fanoutOf[id] != n {
				continue
			}
			for _, key := range b.Writes {
				if other := writer[key]; other != "" {
					l.add(b.m.where("writes"), "branch-key-clash", "give each its own key", "the branches %s and %s both write %s", other, id, key)
				}
				writer[key] = id
			}
		}
		l.checkBranchReads(n, writer)
		if merge := l.ids[n.Join]; merge != nil && writer[merge.Report] != "" {
			l.add(merge.m.where("report"), "branch-key-clash", "give it its own key", "report and the branch %s both write %s", writer[merge.Report], merge.Report)
		}
	}
}

// checkBranchReads refuses templates that would show a branch what another one
// has not written yet.
func (l *loader) checkBranchReads(n *rawNode, writer map[string]string) {
	for _, id := range n.Branches {
		b := l.ids[id]
		if b == nil || l.fanoutOf[id] != n {
			continue
		}
		for _, key := range slices.Compact(slices.Sorted(slices.Values(b.reads))) {
			if other := writer[key]; other != "" && other != id {
				l.add(b.m.where("with"), "ref-branch", "read it after the merge", "the branch %s writes state.%s at the same time", other, key)
			}
		}
	}
}

// unfit tells that a branch was refused of the fanout that joins in a merge.
func (l *loader) unfit(merge *rawNode) bool {
	return slices.ContainsFunc(l.nodes, func(n *rawNode) bool { return n.Kind == Fanout && n.Join == merge.ID && n.unfit })
}

func (l *loader) checkMerge(n *rawNode) {
	if n.Uses != "" {
		l.checkAction(n)
	}
	if n.Report == "" {
		return
	}
	p := n.m.where("report")
	switch f := l.flow.byKey[n.Report]; {
	case f == nil:
		l.add(p, "ref-unknown", didYouMean(n.Report, fieldKeys(l.flow.byKey)), "report names %s, which is no field of the state", n.Report)
	case f.Type != ListField || f.Of != StringField:
		l.add(p, "take-mismatch", "{type: list, of: string, default: []}", "report needs a list of texts, and state.%s is of type %s", n.Report, f.typeName())
	case f.MaxItems < len(n.Of) && !l.unfit(n):
		l.add(p, "take-mismatch", fmt.Sprintf("max_items: %d", len(n.Of)), "report needs a place for each branch: max_items of state.%s is %d, and there are %d branches", n.Report, f.MaxItems, len(n.Of))
	case slices.Contains(n.Writes, n.Report):
		l.add(p, "branch-key-clash", "give it its own key", "report and the action %s both write %s", n.Uses, n.Report)
	}
}
