package flows

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

func (l *loader) readEdges() {
	items := l.top.items("edges")
	if len(items) > maxEdges {
		l.add(l.top.where("edges"), "too-large", "", "the flow has %d edges, the limit is %d", len(items), maxEdges)
		l.wild = true
		return
	}
	for _, item := range items {
		m, ok := l.mapping(item, "", "an edge", []string{"from", "to", "on", "when", "set", "priority"})
		if !ok {
			l.wild = true
			continue
		}
		m.need("from", "to")
		e := &rawEdge{Edge: Edge{From: m.str("from"), To: m.str("to"), On: []Outcome{OK}}}
		m.id = e.From
		e.m = m
		if e.From == "" || e.To == "" {
			l.wild = true
			continue
		}
		if m.has("on") {
			e.On = nil
			for _, o := range m.texts("on") {
				e.On = append(e.On, Outcome(o))
			}
			switch on := m.value("on"); {
			case on.Kind == yaml.SequenceNode && len(on.Content) == 0:
				m.bad("on", "must name at least one outcome")
			case on.Kind == yaml.ScalarNode:
				e.On = []Outcome{Outcome(on.Value)} // what was meant
			}
		}
		if m.has("priority") {
			e.priority = m.integer("priority", -maxPriority)
			if e.priority > maxPriority {
				m.bad("priority", "must be at most %d", maxPriority)
			}
		}
		l.edges = append(l.edges, e)
	}
	l.sortEdges()
}

// maxPriority bounds the priority of edges, on both sides of 0.
const maxPriority = 1000

// sortEdges puts the edges that leave one node into the order of their
// priority, higher first, equal ones as they stand. From here on only the
// order counts.
func (l *loader) sortEdges() {
	places := map[string][]int{}
	for i, e := range l.edges {
		places[e.From] = append(places[e.From], i)
	}
	for _, at := range places {
		leaving := make([]*rawEdge, len(at))
		for i, place := range at {
			leaving[i] = l.edges[place]
		}
		slices.SortStableFunc(leaving, func(a, b *rawEdge) int { return cmp.Compare(b.priority, a.priority) })
		for i, place := range at {
			l.edges[place] = leaving[i]
		}
	}
}

// indexEdges remembers the edges by the nodes that they leave.
func (l *loader) indexEdges() {
	l.leaving = make(map[string][]*rawEdge, len(l.nodes))
	for _, e := range l.edges {
		l.leaving[e.From] = append(l.leaving[e.From], e)
	}
}

// edgeEnd is a node that an edge names, under a key.
type edgeEnd struct{ key, id string }

func (e *rawEdge) ends() [2]edgeEnd { return [2]edgeEnd{{"from", e.From}, {"to", e.To}} }

func (l *loader) checkEdges() {
	if len(l.ids) == 0 && len(l.top.items("nodes")) > maxNodes {
		return // none of them was read, so every edge would dangle
	}
	ids := slices.Sorted(maps.Keys(l.ids))
	for _, e := range l.edges {
		dangling := false
		for _, end := range e.ends() {
			if l.ids[end.id] == nil {
				dangling = true
				l.add(e.m.where(end.key), "dangling-edge", l.meantNode(end, ids), "the edge names %s, which is no node", end.id)
			}
		}
		if dangling {
			l.wild = true
		}
		e.When = l.guard(e.m, "when", false)
		l.checkSet(e)
		if from := l.ids[e.From]; from != nil {
			l.checkOutcomes(e, from)
		}
	}
	for _, n := range l.nodes {
		l.checkTotal(n)
	}
}

// meantNode is a hint for an edge that names no node: the id that is near, or
// the one node that is renamed most likely, since no edge names it where this
// one should.
func (l *loader) meantNode(end edgeEnd, ids []string) string {
	if hint := nearest(end.id, ids); hint != "" {
		return hint
	}
	var bare []string
	for _, n := range l.nodes {
		named := n.Kind == Sink && end.key == "from" || n.Kind == Merge && end.key == "to" || n.ID == l.top.str("entry") && end.key == "to" || l.fanoutOf[n.ID] != nil
		for _, e := range l.edges {
			for _, other := range e.ends() {
				named = named || other.key == end.key && other.id == n.ID
			}
		}
		if !named {
			bare = append(bare, n.ID)
		}
	}
	if len(bare) != 1 {
		return didYouMean(end.id, ids)
	}
	if end.key == "to" {
		return "did you mean " + bare[0] + "? no edge leads there"
	}
	return "did you mean " + bare[0] + "? no edge leaves it"
}

func (l *loader) checkOutcomes(e *rawEdge, from *rawNode) {
	if from.Kind == Sink {
		l.wild = true
		l.add(e.m.where("from"), "sink-has-edges", "remove the edge", "the sink %s ends the flow", from.ID)
		return
	}
	spec, ok := l.spec(from.Kind)
	if !ok {
		return
	}
	has := spec.outcomes(from)
	for i, o := range e.On {
		if slices.Contains(has, o) {
			continue
		}
		hint := didYouMean(string(o), words(has))
		if near := nearestOutcome(string(o), words(has)); near != "" {
			hint = "did you mean " + near + "?"
			e.meant = append(e.meant, Outcome(near))
		}
		p := e.m.where("on")
		if items := e.m.items("on"); i < len(items) {
			p = at(items[i], from.ID)
		}
		l.add(p, "outcome-unknown", hint, "%s never ends with %s", from.ID, o)
	}
}

// nearestOutcome is the outcome that is near to a word or begins like it, as
// denied does like deny.
func nearestOutcome(word string, known []string) string {
	if near := strictyaml.Nearest(word, known); near != "" || len(word) < 3 {
		return near
	}
	for _, k := range known {
		if strings.HasPrefix(k, strings.ToLower(word[:3])) {
			return k
		}
	}
	return ""
}

func words(outcomes []Outcome) []string {
	var out []string
	for _, o := range outcomes {
		if !slices.Contains(out, string(o)) {
			out = append(out, string(o))
		}
	}
	return out
}

func (l *loader) checkSet(e *rawEdge) {
	if !e.m.has("set") {
		return
	}
	m, ok := l.mapping(e.m.value("set"), e.From, "set", nil)
	if !ok {
		return
	}
	e.Set = map[string]json.RawMessage{}
	for _, key := range m.order {
		f, v := l.flow.byKey[key], m.value(key)
		switch {
		case f == nil:
			l.add(at(m.key(key), e.From), "ref-unknown", didYouMean(key, fieldKeys(l.flow.byKey)), "set names %s, which is no field of the state", key)
			continue
		case v.Kind != yaml.ScalarNode || strings.Contains(v.Value, "{{") || v.ShortTag() == "!!null":
			l.add(m.where(key), "set-not-literal", "a text, a number or a truth value", "set of %s is no literal", key)
			continue
		}
		raw := l.json(v, e.From)
		if err := f.Check(raw); err != nil && raw != nil {
			hint := ""
			if f.Type == EnumField {
				hint = nearest(v.Value, f.Values) // the error lists them all
			}
			l.add(m.where(key), "bad-value", hint, "%s of set %v", key, err)
		}
		e.Set[key] = raw
	}
}

// guarded is an outcome under a guard.
type guarded struct {
	outcome Outcome
	when    string
}

// checkTotal wants an unguarded edge for every outcome that is sure to
// happen, and no edge that an earlier one makes useless.
func (l *loader) checkTotal(n *rawNode) {
	spec, ok := l.spec(n.Kind)
	if !ok {
		return
	}
	leaving := l.leaving[n.ID]
	if len(leaving) == 0 {
		return // a dead end
	}
	covered, seen := map[Outcome]bool{}, map[guarded]bool{}
	for _, e := range leaving {
		for _, o := range e.meant {
			covered[o] = covered[o] || !e.m.has("when")
		}
		useless := len(e.On) > 0
		for _, o := range e.On {
			same := guarded{o, e.m.str("when")}
			if !covered[o] && !seen[same] {
				useless = false
			}
			seen[same] = true
			if !e.m.has("when") {
				covered[o] = true
			}
		}
		if useless {
			l.add(at(e.m.at, n.ID), "shadowed-edge", "put the guarded edges first", "the edge to %s can never be taken, an earlier one is", e.To)
		}
	}
	for _, o := range spec.total(n) {
		if !covered[o] {
			l.add(at(n.m.at, n.ID), "not-total", "add an edge without when, as the last", "%s may end with %s and have nowhere to go", n.ID, o)
		}
	}
}
