package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// propFlow is a generated flow together with the script of its world. It is
// written as YAML (prop_yaml_test.go), walked by the engine
// (prop_world_test.go) and interpreted (prop_ref_test.go).
type propFlow struct {
	name     string
	stop     bool // has the shared stop edge
	human    bool // result can be needs_human
	maxSteps int
	tokens   int // limit of the run, 0 none
	finally  bool
	nodes    []*propNode // in the order of the default path; the sink is not among them
	children map[string]*propFlow
	input    map[string]int
	early    []propEvent // delivered before the run begins
	halts    []int       // before these commits the kill switch is on once
}

// propNode is a node and what its world does at each visit.
type propNode struct {
	id, kind, uses string
	in, writes     []string
	echo           string // a template in `with`
	budget         int
	retries        int
	cache          bool
	optional       bool // a branch that is not required
	backTo         string
	max            int
	event, match   string
	onExpire       string
	approvers      []string
	take           map[string]string
	branches       []*propNode
	parallel       int
	join           string
	report         bool
	child, key     string
	give           map[string]string
	await          bool
	edges          []propEdge

	acts   []propAct     // by visit, over and over
	events [][]propEvent // by visit, over and over; then nothing more comes
}

type propEdge struct {
	to   string
	on   []string
	when *propGuard
	set  propState
}

// propAct is what an action does at a visit: it fails for now a few times,
// spends, and ends.
type propAct struct {
	again int // calls that fail with a cause to try again
	spend []propSpend
	end   string // ok failed denied timeout panic stop undeclared badtype badkey
	sets  []propSet
}

type propSpend struct{ estimate, used int }

// propSet makes a value of a delta: a literal, or from an int of the input.
type propSet struct {
	key  string
	from string // "" for lit, "echo" for the expanded template, else an int key
	add  int
	lit  any
}

type propEvent struct {
	kind, by, role, outcome, tag string
	n                            int
	bare                         bool // without the fields that are taken
}

// propGen makes random valid flows.
type propGen struct {
	rnd   *rand.Rand
	crash bool // nothing may depend on what a crash spends twice
	kinds []string
	depth int
	// limited says that a run above has a limit: what branches spend at the
	// same time must not decide by its order who passes it.
	limited bool
}

const propSink = "done"

// flow makes a flow of at most most nodes on its default path.
func (g propGen) flow(name string, most int) *propFlow {
	f := &propFlow{
		name: name, stop: chance(g.rnd, 75), human: chance(g.rnd, 60), maxSteps: 40, finally: chance(g.rnd, 30),
		children: map[string]*propFlow{}, input: map[string]int{},
	}
	if chance(g.rnd, 25) {
		f.maxSteps = 1 + g.rnd.IntN(15)
	}
	if chance(g.rnd, 20) && !g.crash {
		f.tokens = 10 + g.rnd.IntN(80)
	}
	if chance(g.rnd, 50) {
		f.input["i0"] = g.rnd.IntN(5)
	}
	for i, n := 0, 1+g.rnd.IntN(most); i < n; i++ {
		g.slot(f, i)
	}
	for i, n := range f.nodes {
		g.edges(f, i, n)
	}
	for range g.rnd.IntN(3) {
		f.early = append(f.early, g.event(oneOf(g.rnd, []string{"news", "mail", "approval"})))
	}
	for range g.rnd.IntN(3) {
		f.halts = append(f.halts, g.rnd.IntN(12))
	}
	return f
}

func (g propGen) slot(f *propFlow, i int) {
	kind := oneOf(g.rnd, g.kinds)
	if chance(g.rnd, 45) || kind == "cache" || kind == "loop" && i == 0 {
		kind = "step"
	}
	n := &propNode{id: fmt.Sprintf("%s_%d", f.name, i), kind: kind}
	f.nodes = append(f.nodes, n)
	switch kind {
	case "step", "gate":
		g.action(f, n)
	case "loop":
		n.backTo, n.max = oneOf(g.rnd, f.targets(0, i)), 1+g.rnd.IntN(3)
	case "wait":
		g.wait(n)
	case "approval":
		g.approval(n)
	case "command":
		n.take = map[string]string{}
		if chance(g.rnd, 60) {
			n.take["n2"] = "code"
		}
		for range 1 + g.rnd.IntN(2) {
			n.acts = append(n.acts, propAct{
				end:  oneOf(g.rnd, []string{"ok", "ok", "ok", "exit", "timeout", "failed"}),
				sets: []propSet{{key: "code", lit: g.rnd.IntN(4)}},
			})
		}
	case "fanout":
		g.fanout(f, n)
	case "subflow":
		g.subflow(f, n)
	}
}

// targets are the nodes from one place to before another that edges may lead
// to: merges belong to their fanouts.
func (f *propFlow) targets(from, to int) []string {
	var ids []string
	for _, n := range f.nodes[from:to] {
		if n.kind != "merge" {
			ids = append(ids, n.id)
		}
	}
	return ids
}

func (g propGen) action(f *propFlow, n *propNode) {
	n.uses = oneOf(g.rnd, []string{"p.step", "p.read", "p.effect"})
	if n.kind == "gate" {
		n.uses = "p.gate"
	}
	n.in, n.writes = g.some([]string{"n0", "n1", "n2", "i0"}), g.some([]string{"n0", "n1", "n2", "o0", "s0", "s1", "b0", "e0", "result"})
	if n.kind == "step" {
		if chance(g.rnd, 30) {
			n.echo = oneOf(g.rnd, []string{"{{state.s0}}x", "{{state.n0}}/{{state.s1}}", "{{state.e0}}", "$(rm) {{state.b0}}"})
		}
		if chance(g.rnd, 30) && n.uses != "p.effect" {
			n.retries = 1 + g.rnd.IntN(2)
		}
		n.cache = n.uses == "p.read" && slices.Contains(g.kinds, "cache") && chance(g.rnd, 50)
	}
	for range 1 + g.rnd.IntN(3) {
		n.acts = append(n.acts, g.act(n))
	}
	g.budget(n)
}

// act is what happens at one visit.
func (g propGen) act(n *propNode) propAct {
	a := propAct{end: "ok"}
	if chance(g.rnd, 25) {
		a.end = oneOf(g.rnd, []string{"failed", "denied", "timeout", "panic", "stop", "undeclared", "badtype", "badkey"})
	}
	if chance(g.rnd, 12) && n.kind == "step" {
		a.again = 1 + g.rnd.IntN(3)
	}
	if chance(g.rnd, 35) && n.kind == "step" {
		a.spend = g.spend()
	}
	for _, key := range n.writes {
		if chance(g.rnd, 70) || key == "result" {
			a.sets = append(a.sets, g.set(n, key))
		}
	}
	return a
}

func (g propGen) spend() (calls []propSpend) {
	for range 1 + g.rnd.IntN(3) {
		calls = append(calls, propSpend{5 + g.rnd.IntN(30), g.rnd.IntN(30)})
	}
	return calls
}

func (g propGen) set(n *propNode, key string) propSet {
	s := propSet{key: key}
	switch key {
	case "b0":
		s.lit = chance(g.rnd, 50)
	case "e0":
		s.lit = oneOf(g.rnd, propColors())
	case "s0", "s1":
		s.lit = oneOf(g.rnd, []string{"", "a", "{{state.n0}}", "; rm x", "two\nlines", "\"q\" é"})
		if n.echo != "" {
			s.from = "echo"
		}
	case "result":
		s.lit = oneOf(g.rnd, []string{"ok", "late"})
	case "o0":
		if chance(g.rnd, 30) {
			return s // nil: taken away
		}
		s.lit = g.rnd.IntN(5)
	default:
		s.lit = g.rnd.IntN(6)
		if len(n.in) > 0 && chance(g.rnd, 60) {
			// Sometimes a key that the node may not read.
			s.from, s.add = oneOf(g.rnd, []string{n.in[0], "n0", "i0"}), 1+g.rnd.IntN(2)
		}
	}
	return s
}

// budget gives the node a budget: while crashes are tried, one that is passed
// by the first call of each visit or never.
func (g propGen) budget(n *propNode) {
	if n.kind != "step" || !chance(g.rnd, 40) {
		return
	}
	n.budget = 10 + g.rnd.IntN(60)
	if !g.crash {
		return
	}
	n.budget = 10000
	if chance(g.rnd, 40) {
		n.budget = 3
	}
}

func (g propGen) event(kind string) propEvent {
	return propEvent{
		kind: kind, tag: oneOf(g.rnd, []string{"x", "x", "y"}), n: g.rnd.IntN(5),
		by: oneOf(g.rnd, []string{"ann", "bob", "cleo"}), role: oneOf(g.rnd, []string{"admin", "maintain", "write", "triage", "read", "none", "operator"}),
		outcome: oneOf(g.rnd, []string{"ok", "ok", "ok", "denied", "", "maybe"}), bare: chance(g.rnd, 8),
	}
}

func (g propGen) comes(n *propNode) {
	for range 1 + g.rnd.IntN(2) {
		var visit []propEvent
		for range g.rnd.IntN(4) {
			visit = append(visit, g.event(n.event))
		}
		n.events = append(n.events, visit)
	}
}

func (g propGen) wait(n *propNode) {
	n.event, n.onExpire = oneOf(g.rnd, []string{"news", "mail"}), oneOf(g.rnd, []string{"timeout", "denied", "exhausted"})
	n.take = map[string]string{}
	if chance(g.rnd, 60) {
		n.take["n1"] = "n"
	}
	if chance(g.rnd, 30) {
		n.take["s1"] = "by"
	}
	if chance(g.rnd, 50) {
		n.match = "x"
	}
	g.comes(n)
}

func (g propGen) approval(n *propNode) {
	n.event, n.onExpire = "approval", oneOf(g.rnd, []string{"timeout", "denied", "exhausted"})
	n.approvers = g.some([]string{"role:maintain", "role:write", "user:ann", "role:admin"})
	if len(n.approvers) == 0 {
		n.approvers = []string{"role:triage"}
	}
	n.take = map[string]string{}
	if chance(g.rnd, 40) {
		n.take["s1"] = "by"
	}
	g.comes(n)
}

// fanout makes the fanout, its branches and its merge, which is the next slot.
func (g propGen) fanout(f *propFlow, n *propNode) {
	keys := []string{"n0", "n1", "n2", "s0", "s1", "b0", "e0"}
	g.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	count := 2 + g.rnd.IntN(2)
	n.parallel, n.join = g.rnd.IntN(count+1), n.id+"_m"
	breaks := -1
	if chance(g.rnd, 35) {
		breaks = g.rnd.IntN(count)
	}
	for i := range count {
		b := &propNode{id: fmt.Sprintf("%s_b%d", n.id, i), kind: "step", uses: "p.read", in: g.some([]string{"n0", "n1", "n2", "i0"})}
		b.optional = i != breaks && chance(g.rnd, 50)
		b.writes = keys[:1+g.rnd.IntN(2)]
		keys = keys[len(b.writes):]
		for range 2 {
			a := propAct{end: "ok"}
			if i == breaks && chance(g.rnd, 60) || b.optional && chance(g.rnd, 40) {
				a.end = oneOf(g.rnd, []string{"failed", "timeout", "panic"})
			}
			for _, key := range b.writes {
				a.sets = append(a.sets, g.set(b, key))
			}
			if f.tokens == 0 && !g.limited && (b.optional || i == breaks) {
				a.spend = g.spend()
			}
			b.acts = append(b.acts, a)
		}
		g.budget(b)
		n.branches = append(n.branches, b)
	}
	m := &propNode{id: n.join, kind: "merge", report: chance(g.rnd, 60)}
	m.branches = slices.Clone(n.branches)
	g.rnd.Shuffle(count, func(i, j int) { m.branches[i], m.branches[j] = m.branches[j], m.branches[i] })
	if chance(g.rnd, 40) {
		m.uses, m.in, m.writes = "p.read", []string{"n0", "n1"}, []string{"n0", "s0"}
		m.acts = []propAct{{end: oneOf(g.rnd, []string{"ok", "ok", "failed"}), sets: []propSet{g.set(m, "n0"), g.set(m, "s0")}}}
	}
	f.nodes = append(f.nodes, m)
}

func (g propGen) subflow(f *propFlow, n *propNode) {
	if g.depth == 0 {
		n.kind = "step"
		g.action(f, n)
		return
	}
	n.child = fmt.Sprintf("%s_c", n.id)
	n.key = oneOf(g.rnd, []string{"only", "k-{{state.n0}}"})
	n.await = chance(g.rnd, 80)
	n.give, n.take = map[string]string{}, map[string]string{}
	if chance(g.rnd, 60) {
		n.give["i0"] = "n1"
	}
	if n.await && chance(g.rnd, 60) {
		n.take["n2"] = "n0"
	}
	child := g
	child.depth--
	child.limited = g.limited || f.tokens > 0
	c := child.flow(n.child, 3)
	c.early, c.input = nil, nil
	f.children[n.child] = c
}

// some is a random part of a list, in its order.
func (g propGen) some(from []string) []string {
	var out []string
	for _, s := range from {
		if chance(g.rnd, 50) {
			out = append(out, s)
		}
	}
	return out
}
