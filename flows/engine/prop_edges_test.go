package engine_test

import "slices"

// outcomes are those, beside ok, that a node may end with.
func (n *propNode) outcomes() []string {
	switch n.kind {
	case "step":
		return []string{"failed", "timeout", "budget-exhausted", "denied"}
	case "gate":
		return []string{"failed", "timeout", "denied"}
	case "wait":
		return []string{"denied", "failed", n.onExpire}
	case "approval":
		return []string{"denied", n.onExpire}
	case "command":
		return []string{"failed", "timeout", "budget-exhausted"}
	case "fanout":
		return []string{"failed", "budget-exhausted"}
	case "merge", "subflow":
		return []string{"failed"}
	}
	return nil
}

// edges gives a node its edges: guarded ones ahead, the default to the next
// node, and some for the outcomes other than ok, those that must be taken
// among them.
func (g propGen) edges(f *propFlow, i int, n *propNode) {
	next, ahead := propSink, append(f.targets(i+1, len(f.nodes)), propSink)
	if i+1 < len(f.nodes) {
		next = f.nodes[i+1].id
	}
	guards := guardGen{rnd: g.rnd, nodes: append(f.targets(0, len(f.nodes)), propSink)}
	var edges []propEdge
	add := func(on []string, to string, when *propGuard) {
		e := propEdge{to: to, on: on, when: when}
		if to == propSink && chance(g.rnd, 85) {
			e.set = propState{"result": oneOf(g.rnd, []string{"ok", "ok", "late"})}
		} else if chance(g.rnd, 20) {
			e.set = g.literals()
		}
		edges = append(edges, e)
	}
	guarded := func(own guardGen) *propGuard {
		w := own.make(2)
		return &w
	}
	if n.kind == "loop" {
		add([]string{"ok"}, n.backTo, nil)
		add([]string{"exhausted"}, next, nil)
		n.edges = edges
		return
	}
	if n.kind != "fanout" { // its way to the merge is no edge
		for range g.rnd.IntN(3) {
			own := guards
			if (n.kind == "step" || n.kind == "gate") && slices.Contains(n.writes, "o0") && chance(g.rnd, 30) {
				own.unset = "o0"
			}
			add([]string{"ok"}, oneOf(g.rnd, ahead), guarded(own))
		}
		on := []string{"ok"}
		if out := n.outcomes(); chance(g.rnd, 25) {
			on = append(on, oneOf(g.rnd, out))
		}
		add(on, next, nil)
	}
	for _, o := range n.outcomes() {
		must := o == n.onExpire || o == "denied" && n.kind == "approval"
		if chance(g.rnd, 15) {
			add([]string{o}, oneOf(g.rnd, ahead), guarded(guards))
		}
		if must || chance(g.rnd, 45) {
			add([]string{o}, oneOf(g.rnd, ahead), nil)
		}
	}
	n.edges = useful(edges)
}

// useful leaves out edges that can never be taken, which the loader refuses.
func useful(edges []propEdge) []propEdge {
	covered, seen := map[string]bool{}, map[string]bool{}
	return slices.DeleteFunc(edges, func(e propEdge) bool {
		useless, when := true, ""
		if e.when != nil {
			when = e.when.text
		}
		for _, o := range e.on {
			if !covered[o] && !seen[o+"\x00"+when] {
				useless = false
			}
		}
		if useless {
			return true
		}
		for _, o := range e.on {
			seen[o+"\x00"+when] = true
			covered[o] = covered[o] || e.when == nil
		}
		return false
	})
}

func (g propGen) literals() propState {
	all := propState{
		"n0": g.rnd.IntN(5), "b0": chance(g.rnd, 50), "s0": oneOf(g.rnd, []string{"", "set", "{ x }"}), "e0": oneOf(g.rnd, propColors()),
		"o0": g.rnd.IntN(5), "result": oneOf(g.rnd, []string{"ok", "late", "none"}),
	}
	set := propState{}
	for _, key := range g.some([]string{"n0", "b0", "s0", "e0", "o0", "result"}) {
		set[key] = all[key]
	}
	return set
}
