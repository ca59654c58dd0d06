package flowops

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Adopt is a flow file, called name, of what a run did: a chain of the nodes
// that it completed with ok, each once, in the order in which they first were.
// Steps, gates, commands, waits, approvals and subflows stay as the run froze
// them, a fanout comes with its branches and its merge, loops are gone, and
// what the taken edges set is set. It is made of what the run recorded and of
// nobody's word; whether the chain makes sense without what it leaves out, the
// loader's checks say. ErrNothing when the run has completed no such node.
func Adopt(r Record, name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	top, err := document(r.Run)
	if err != nil {
		return nil, err
	}
	var def definition
	if err := json.Unmarshal(r.Run.Definition, &def); err != nil {
		return nil, fmt.Errorf("reading the definition of run %s: %w", r.Run.ID, err)
	}
	c := newChain(def, r)
	if len(c.links) == 0 {
		return nil, fmt.Errorf("run %s: %w", r.Run.ID, ErrNothing)
	}
	if err := c.write(top, name); err != nil {
		return nil, fmt.Errorf("making a flow of run %s: %w", r.Run.ID, err)
	}
	return file(r.Run, fmt.Sprintf("What of the flow %s went well when run", r.Run.Flow), name, top)
}

// definition is what must be known of a frozen flow to make a chain of it.
type definition struct {
	Sink  string `json:"sink"`
	State map[string]struct {
		Values []string `json:"values"`
	} `json:"state"`
	Nodes []node `json:"nodes"`
	Edges []edge `json:"edges"`
}

type node struct {
	ID       string        `json:"id"`
	Kind     flows.Kind    `json:"kind"`
	Branches []string      `json:"branches"`
	Join     string        `json:"join"`
	OnExpire flows.Outcome `json:"on_expire"`
	Child    string        `json:"flow"`
}

type edge struct {
	From string                     `json:"from"`
	To   string                     `json:"to"`
	On   []flows.Outcome            `json:"on,omitempty"`
	When string                     `json:"when,omitempty"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
}

// Words of flow files.
const (
	resultKey  = "result"
	noResult   = "none"
	needsHuman = "needs_human" // no phase goes on after it
)

// chain is a run's way without its detours.
type chain struct {
	def   definition
	nodes map[string]node
	// links are the nodes of the chain; a fanout and its merge are two.
	links  []link
	result string // what the run ended with, "" unless the flow knows it
	ends   bool   // something sets the result
}

// link is a node, and what is set behind it.
type link struct {
	node
	set map[string]json.RawMessage
}

func newChain(def definition, r Record) *chain {
	c := &chain{def: def, nodes: map[string]node{}}
	fanouts := map[string]node{} // by their merge
	for _, n := range def.Nodes {
		c.nodes[n.ID] = n
		if n.Kind == flows.Fanout {
			fanouts[n.Join] = n
		}
	}
	if slices.Contains(def.State[resultKey].Values, r.Run.Result) && r.Run.Result != noResult {
		c.result = r.Run.Result
	}
	seen := map[string]bool{}
	for _, rec := range r.History {
		n, ok := c.nodes[rec.Node]
		if ok && rec.Outcome == string(flows.OK) && !seen[n.ID] {
			seen[n.ID] = true
			switch n.Kind {
			case flows.Merge:
				c.links = append(c.links, link{node: fanouts[n.ID]}, link{node: n})
			case flows.Step, flows.Gate, flows.Command, flows.Wait, flows.Approval, flows.Subflow:
				c.links = append(c.links, link{node: n})
			case flows.Fanout, flows.Loop, flows.Sink:
				// A fanout comes with its merge.
			}
			c.ends = c.ends || wrote(rec)
		}
		c.take(def.taken(rec))
	}
	return c
}

// wrote reports that a node has settled the result.
func wrote(rec checkpoints.NodeRecord) bool {
	var delta map[string]json.RawMessage
	if json.Unmarshal(rec.Delta, &delta) != nil {
		return false
	}
	value, ok := delta[resultKey]
	return ok && string(value) != `"`+noResult+`"`
}

// take keeps what an edge sets with the last link. What was set before the
// first one is lost: the flow begins there.
func (c *chain) take(set map[string]json.RawMessage) {
	if len(set) == 0 || len(c.links) == 0 {
		return
	}
	last := &c.links[len(c.links)-1]
	if last.set == nil {
		last.set = map[string]json.RawMessage{}
	}
	maps.Copy(last.set, set)
	_, ends := set[resultKey]
	c.ends = c.ends || ends
}

// taken is what the edge sets that was taken from a node.
func (d definition) taken(rec checkpoints.NodeRecord) map[string]json.RawMessage {
	when := ""
	for _, g := range rec.Guards {
		if g.Taken {
			when = g.When
		}
	}
	for _, e := range d.Edges {
		if e.From == rec.Node && e.To == rec.Next && e.When == when && e.takes(flows.Outcome(rec.Outcome)) {
			return e.Set
		}
	}
	return nil
}

func (e edge) takes(o flows.Outcome) bool {
	return slices.Contains(e.On, o) || len(e.On) == 0 && o == flows.OK
}

// write makes the definition in top that of the chain.
func (c *chain) write(top *yaml.Node, name string) error {
	edges, err := encoded(c.edges())
	if err != nil {
		return err
	}
	text := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	put(top, "name", text(name))
	put(top, "version", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "1"})
	put(top, "entry", text(c.links[0].ID))
	if err := c.keepNodes(top); err != nil {
		return err
	}
	c.keepChildren(top)
	put(top, "edges", edges)
	if values := field(field(field(top, "state"), resultKey), "values"); c.people() && values != nil && !c.knows(needsHuman) {
		values.Content = append(values.Content, text(needsHuman))
	}
	return nil
}

func (c *chain) knows(result string) bool {
	return slices.Contains(c.def.State[resultKey].Values, result)
}

// people reports that an edge of the chain leaves the run to people.
func (c *chain) people() bool {
	return slices.ContainsFunc(c.edges(), func(e edge) bool { return string(e.Set[resultKey]) == `"`+needsHuman+`"` })
}

// edges are the chain's, and of the original's those that end the flow at once
// when a node does not end with ok. Where a node must have such an edge and has
// none, a person looks at it.
func (c *chain) edges() []edge {
	var out []edge
	ask := map[string]json.RawMessage{resultKey: json.RawMessage(`"` + needsHuman + `"`)}
	for i, l := range c.links {
		next, last := c.def.Sink, i+1 == len(c.links)
		if !last {
			next = c.links[i+1].ID
		}
		if l.Kind != flows.Fanout {
			e := edge{From: l.ID, To: next, Set: l.set}
			if last && !c.ends {
				e.Set = maps.Clone(e.Set)
				if e.Set == nil {
					e.Set = map[string]json.RawMessage{}
				}
				e.Set[resultKey] = json.RawMessage(`"` + cmp.Or(c.result, needsHuman) + `"`)
			}
			out = append(out, e)
		}
		covered := map[flows.Outcome]bool{flows.OK: true}
		for _, e := range c.def.Edges {
			if e.From != l.ID || e.To != c.def.Sink || e.When != "" {
				continue
			}
			e.On = slices.DeleteFunc(slices.Clone(e.On), func(o flows.Outcome) bool { return covered[o] })
			if len(e.On) == 0 {
				continue
			}
			for _, o := range e.On {
				covered[o] = true
			}
			out = append(out, e)
		}
		if open := slices.DeleteFunc(l.sure(), func(o flows.Outcome) bool { return covered[o] }); len(open) > 0 {
			out = append(out, edge{From: l.ID, To: c.def.Sink, On: open, Set: ask})
		}
	}
	return out
}

// sure are the outcomes beside ok for which a node must have an edge.
func (n node) sure() []flows.Outcome {
	var out []flows.Outcome
	if n.Kind == flows.Approval {
		out = append(out, flows.Denied)
	}
	if n.OnExpire != "" && !slices.Contains(out, n.OnExpire) {
		out = append(out, n.OnExpire)
	}
	return out
}

// keepNodes leaves of the nodes those of the chain, in its order, with the
// branches of its fanouts, and the sink.
func (c *chain) keepNodes(top *yaml.Node) error {
	list := field(top, "nodes")
	if list == nil {
		return errors.New("the definition has no nodes")
	}
	all := map[string]*yaml.Node{}
	for _, item := range list.Content {
		if id := field(item, "id"); id != nil {
			all[id.Value] = item
		}
	}
	list.Content = nil
	keep := func(id string) error {
		item := all[id]
		if item == nil {
			return fmt.Errorf("the definition has no node %q", id)
		}
		list.Content = append(list.Content, item)
		return nil
	}
	var err error
	for _, l := range c.links {
		err = errors.Join(err, keep(l.ID))
		for _, b := range l.Branches {
			err = errors.Join(err, keep(b))
		}
	}
	return errors.Join(err, keep(c.def.Sink))
}

// keepChildren leaves the children that the chain starts.
func (c *chain) keepChildren(top *yaml.Node) {
	children := field(top, "flows")
	if children == nil {
		return
	}
	used := map[string]bool{}
	for _, l := range c.links {
		used[l.Child] = true
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(children.Content); i += 2 {
		if used[children.Content[i].Value] {
			kept = append(kept, children.Content[i], children.Content[i+1])
		}
	}
	if children.Content = kept; len(kept) == 0 {
		put(top, "flows", nil)
	}
}

// field is the value of a mapping's key, nil when there is none.
func field(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// encoded is a value as a part of a YAML file.
func encoded(v any) (*yaml.Node, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}
