package flows

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// defaultMaxSteps bounds the nodes of a run where the flow says nothing.
const defaultMaxSteps = 100

// loader builds a flow from a file and collects every problem on the way.
type loader struct {
	*reader
	opts  LoadOptions
	reg   *Registry
	flow  *Flow
	top   mapping
	nodes []*rawNode
	ids   map[string]*rawNode
	edges []*rawEdge
	// leaving are the edges out of a node, in their order.
	leaving map[string][]*rawEdge
	// fanoutOf is the fanout of a branch, by the branch's id.
	fanoutOf map[string]*rawNode
	inline   *inline
	// names are the flows around this one and itself, from the outermost.
	names []string
	// before is how many problems there were when this flow began.
	before int
	// guards and countable, what visits() can count, are made when the first
	// guard needs them.
	guards    *guards
	specs     map[Kind]kindSpec
	countable []string
	// keyReads are the state keys of the concurrency key.
	keyReads []string
	// wild says that names in the graph could not be resolved, so that what
	// follows from the graph as a whole is not worth saying.
	wild bool
	// saidNoStop and lacks are what has been said of early ends already.
	saidNoStop bool
	lacks      []string
}

// rawNode and rawEdge remember where they were read.
type rawNode struct {
	Node
	m      mapping
	with   any // With as it was read
	action Action
	known  bool // action is set
	reads  []string
	// maybe are the keys among Writes that even ok does not surely set.
	maybe []string
	child *Flow
	// unfit says that a branch can't be one, or that a fanout has such.
	unfit bool
}

type rawEdge struct {
	Edge
	m        mapping
	priority int64
	// meant are the outcomes that misspelt ones are near to.
	meant []Outcome
}

func topKeys() []string {
	return []string{
		"apiVersion", "name", "version", "phase", "entry", "sink", "state", "stop", "limits", "concurrency", "nodes", "edges", "finally", "flows",
	}
}

// LoadOptions is what a flow is loaded with.
type LoadOptions struct {
	// Registry holds the actions that the flow may use; nil is an empty one.
	Registry *Registry
	// Child finds a flow that a subflow names and the file does not hold. Its
	// error is ErrNoFlow, ErrRecursion or another reason why the parent is
	// refused. Nil knows none.
	Child func(name string) (*Flow, error)
	// Names are the flows that Child knows, for hints.
	Names []string
	// Phases are the phases within which flows run, each with the results that
	// are known there; nil lets every phase pass. The flow that is called like
	// a phase is the one that the phase runs, so that it must be of it and end
	// with nothing else.
	Phases map[string][]string
	// frozen says that the source is a canonical form, which may be larger
	// than a file.
	frozen bool
}

// Load reads and checks a flow file that holds all its children. name is how
// problems call the file. It returns either a flow or every problem found, in
// the order of their places.
func Load(name string, src []byte, reg *Registry) (*Flow, Problems) {
	return LoadWith(name, src, LoadOptions{Registry: reg})
}

// LoadWith is Load for files whose subflows may name flows of other files.
func LoadWith(name string, src []byte, o LoadOptions) (*Flow, Problems) {
	if o.Registry == nil {
		o.Registry = &Registry{}
	}
	l := newLoader(&reader{file: name, most: maxFile}, o)
	parse := l.parse
	if o.frozen {
		l.most, parse = maxDefinition, l.parseFrozen
	}
	if root, ok := parse(src); ok {
		l.document(root)
	}
	if len(l.problems) == 0 {
		l.finish()
	}
	if len(l.problems) > 0 {
		slices.SortStableFunc(l.problems, func(a, b Problem) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return nil, l.problems.once()
	}
	return l.flow, nil
}

func newLoader(r *reader, o LoadOptions) *loader {
	return &loader{
		reader: r, opts: o, reg: o.Registry, ids: map[string]*rawNode{}, fanoutOf: map[string]*rawNode{}, specs: map[Kind]kindSpec{}, before: len(r.problems),
		flow: &Flow{
			byKey: map[string]*Field{}, byID: map[string]*Node{}, out: map[string][]*Edge{}, actions: map[string]string{},
			children: map[string]*Flow{}, fanoutOf: map[string]string{}, spends: map[string]bool{},
		},
	}
}

func (l *loader) document(root *yaml.Node) {
	var ok bool
	if l.top, ok = l.mapping(root, "", "the flow", topKeys()); !ok {
		return
	}
	l.header()
	l.readState()
	l.checkPhase()
	l.readLimits()
	l.readConcurrency()
	l.readInline()
	l.readNodes()
	l.findBranches()
	l.readEdges()
	l.joinEdges()
	l.readFinally()
	l.ends()
	l.checkNodes()
	l.checkEdges()
	l.checkGraph()
}

func (l *loader) header() {
	l.top.need("apiVersion", "name", "phase", "state")
	if v := l.top.str("apiVersion"); v != "" && v != "flows/v1" {
		l.top.bad("apiVersion", "must be flows/v1")
	}
	l.flow.name = l.top.name("name", nameForm)
	l.flow.phase = l.top.name("phase", nameForm)
	l.flow.version = 1
	if l.top.has("version") {
		l.flow.version = int(l.top.integer("version", 1))
	}
	if l.top.has("stop") {
		if m, ok := l.mapping(l.top.value("stop"), "", "stop", []string{"to"}); ok {
			m.need("to")
			if to := m.str("to"); to != "" && to != l.top.str("sink") {
				m.bad("to", "must be the sink")
			}
			l.flow.stop = true
		}
	}
}

func (l *loader) readLimits() {
	l.flow.limits = FlowLimits{MaxSteps: defaultMaxSteps, WarnAt: 0.8}
	if !l.top.has("limits") {
		return
	}
	m, ok := l.mapping(l.top.value("limits"), "", "limits", []string{"max_steps", "wall", "tokens", "tool_calls", "cost_usd", "warn_at"})
	if !ok {
		return
	}
	lim := &l.flow.limits
	if m.has("max_steps") {
		lim.MaxSteps = int(m.positive("max_steps"))
	}
	lim.Wall, lim.Tokens, lim.ToolCalls, lim.MicroUSD = m.duration("wall"), m.positive("tokens"), m.positive("tool_calls"), m.money("cost_usd")
	if m.has("warn_at") {
		lim.WarnAt = m.decimal("warn_at", 0, 1)
	}
}

func (l *loader) readFinally() {
	l.flow.finally = l.top.texts("finally")
	for i, name := range l.flow.finally {
		a, ok := l.reg.Get(name)
		if !ok {
			l.add(at(l.top.items("finally")[i], ""), "finally-unknown", didYouMean(name, l.reg.Names()), "no action is called %s", name)
			continue
		}
		l.flow.actions[name] = a.Version
	}
}

// ends checks the entry and the sink.
func (l *loader) ends() {
	if len(l.nodes) == 0 {
		return
	}
	var ids []string
	var sinks []*rawNode
	for _, n := range l.nodes {
		ids = append(ids, n.ID)
		if n.Kind == Sink {
			sinks = append(sinks, n)
		}
	}
	l.flow.entry, l.flow.sink = l.top.str("entry"), l.top.str("sink")
	switch n := l.ids[l.flow.entry]; {
	case n != nil && l.fanoutOf[n.ID] != nil:
		l.wild = true
		l.add(l.top.where("entry"), "branch-has-edges", "enter at "+l.fanoutOf[n.ID].ID, "the entry %s is a branch of a fanout", n.ID)
	case n != nil && n.Kind == Merge:
		l.wild = true
		l.add(l.top.where("entry"), "merge-entry", "enter at its fanout", "the entry %s is a merge, which only its fanout leads to", n.ID)
	case n != nil:
	default:
		l.wild = true
		if l.top.misspelt("entry") {
			break
		}
		if l.flow.entry == "" {
			l.add(l.top.where("entry"), "no-entry", "add entry: "+ids[0], "the flow has no entry")
		} else {
			l.add(l.top.where("entry"), "no-entry", didYouMean(l.flow.entry, ids), "the entry %s is no node", l.flow.entry)
		}
	}
	switch sink := l.ids[l.flow.sink]; {
	case l.flow.sink == "" && l.top.misspelt("sink"):
		l.wild = true
	case l.flow.sink == "":
		l.wild = true
		l.add(l.top.where("sink"), "no-sink", "add sink: and a node of kind sink", "the flow has no sink")
	case sink == nil:
		l.wild = true
		l.add(l.top.where("sink"), "no-sink", didYouMean(l.flow.sink, ids), "the sink %s is no node", l.flow.sink)
	case sink.Kind != Sink:
		l.wild = true
		l.add(l.top.where("sink"), "no-sink", "", "the node %s is of kind %s, not sink", sink.ID, sink.Kind)
	default:
		for _, n := range sinks {
			if n != sink {
				l.wild = true
				l.add(n.m.where("kind"), "second-sink", "lead its edges to "+sink.ID, "%s is a second sink beside %s", n.ID, sink.ID)
			}
		}
	}
}

// finish assembles the flow, once nothing is wrong with it.
func (l *loader) finish() {
	f := l.flow
	f.nodes, f.edges = make([]Node, 0, len(l.nodes)), make([]Edge, 0, len(l.edges))
	for _, n := range l.nodes {
		f.nodes = append(f.nodes, n.Node)
		if n.known {
			f.actions[n.Uses] = n.action.Version
			f.spends[n.ID] = n.action.Spends
		}
		if n.child != nil {
			f.children[n.Child] = n.child
			maps.Copy(f.actions, n.child.actions)
			f.depth = max(f.depth, n.child.depth+1)
		}
	}
	for i := range f.nodes {
		f.byID[f.nodes[i].ID] = &f.nodes[i]
		for _, id := range f.nodes[i].Branches {
			f.fanoutOf[id] = f.nodes[i].ID
		}
	}
	for _, e := range l.edges {
		f.edges = append(f.edges, e.Edge)
	}
	for i := range f.edges {
		f.out[f.edges[i].From] = append(f.out[f.edges[i].From], &f.edges[i])
	}
	size := 0
	for _, child := range f.children {
		size += len(child.definition)
	}
	if size <= maxDefinition {
		if err := f.freeze(); err != nil {
			l.add(place{1, 1, ""}, "bad-value", "", "the flow can't be written in its canonical form: %v", err)
			return
		}
		size = len(f.definition)
	}
	if size > maxDefinition {
		l.add(at(l.top.at, ""), "too-large", "let fewer flows be its children", "with its children the flow has more than %d bytes", maxDefinition)
	}
}

func fieldKeys(m map[string]*Field) []string { return slices.Sorted(maps.Keys(m)) }
