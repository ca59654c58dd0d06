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
	reg   *Registry
	flow  *Flow
	top   mapping
	nodes []*rawNode
	ids   map[string]*rawNode
	edges []*rawEdge
	// wild says that names in the graph could not be resolved, so that what
	// follows from the graph as a whole is not worth saying.
	wild bool
}

// rawNode and rawEdge remember where they were read.
type rawNode struct {
	Node
	m      mapping
	action Action
	known  bool // action is set
	reads  []string
}

type rawEdge struct {
	Edge
	m mapping
}

func topKeys() []string {
	return []string{"apiVersion", "name", "version", "phase", "entry", "sink", "state", "stop", "limits", "nodes", "edges", "finally"}
}

// Load reads and checks a flow file. name is how problems call the file. It
// returns either a flow or every problem found, in the order of their places.
func Load(name string, src []byte, reg *Registry) (*Flow, Problems) {
	if reg == nil {
		reg = &Registry{}
	}
	l := &loader{
		reader: &reader{file: name}, reg: reg, ids: map[string]*rawNode{},
		flow: &Flow{byKey: map[string]*Field{}, byID: map[string]*Node{}, out: map[string][]*Edge{}, actions: map[string]string{}},
	}
	if root, ok := l.parse(src); ok {
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
		return nil, l.problems
	}
	return l.flow, nil
}

func (l *loader) document(root *yaml.Node) {
	var ok bool
	if l.top, ok = l.mapping(root, "", "the flow", topKeys()); !ok {
		return
	}
	l.header()
	l.readState()
	l.readLimits()
	l.readNodes()
	l.readEdges()
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
		if m, ok := l.mapping(l.top.values["stop"], "", "stop", []string{"to"}); ok {
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
	m, ok := l.mapping(l.top.values["limits"], "", "limits", []string{"max_steps", "wall", "tokens", "tool_calls", "cost_usd", "warn_at"})
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
	if l.ids[l.flow.entry] == nil {
		l.wild = true
		if l.flow.entry == "" {
			l.add(l.top.where("entry"), "no-entry", "add entry: "+ids[0], "the flow has no entry")
		} else {
			l.add(l.top.where("entry"), "no-entry", didYouMean(l.flow.entry, ids), "the entry %s is no node", l.flow.entry)
		}
	}
	switch sink := l.ids[l.flow.sink]; {
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
	for _, n := range l.nodes {
		f.nodes = append(f.nodes, n.Node)
		if n.known {
			f.actions[n.Uses] = n.action.Version
		}
	}
	for i := range f.nodes {
		f.byID[f.nodes[i].ID] = &f.nodes[i]
	}
	for _, e := range l.edges {
		f.edges = append(f.edges, e.Edge)
	}
	for i := range f.edges {
		f.out[f.edges[i].From] = append(f.out[f.edges[i].From], &f.edges[i])
	}
	if err := f.freeze(); err != nil {
		l.add(place{1, 1, ""}, "bad-value", "", "the flow can't be written in its canonical form: %v", err)
	}
}

func fieldKeys(m map[string]*Field) []string { return slices.Sorted(maps.Keys(m)) }
