package engine

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// maxPlans is how many thawed flows an engine keeps.
const maxPlans = 64

// plan is a thawed flow with everything that a walk looks up in it. It is
// shared by walks and never changed.
type plan struct {
	flow       *flows.Flow
	definition []byte
	actions    map[string]string
	nodes      map[string]*planned
	limits     flows.FlowLimits
}

// planned is a node with what belongs to it.
type planned struct {
	*flows.Node
	out []*flows.Edge
	// taken is, for each edge, the record of one that is looked at first and
	// taken; it is shared and never changed.
	taken [][]checkpoints.Guard
	// counts says that a guard of its edges may look at how often nodes were
	// visited.
	counts bool
	// action is what the node runs, nil for kinds that run none.
	action *flows.Action
	// writes is what the node's result may change.
	writes []string
	// fanout is a merge's, or the one whose branch the node is.
	fanout *planned
}

// newPlan looks everything up. An action that is gone is ErrDrift.
func newPlan(f *flows.Flow, reg *flows.Registry, run checkpoints.Run) (*plan, error) {
	p := &plan{
		flow: f, definition: run.Definition, actions: maps.Clone(run.Actions), nodes: map[string]*planned{}, limits: f.Limits(),
	}
	for _, n := range f.Nodes() {
		node := f.Lookup(n.ID)
		pn := &planned{Node: node, out: f.Out(n.ID), writes: node.Writes}
		for _, edge := range pn.out {
			pn.counts = pn.counts || strings.Contains(edge.When.String(), "visits")
			pn.taken = append(pn.taken, []checkpoints.Guard{{To: edge.To, When: edge.When.String(), Taken: true}})
		}
		name := node.Uses
		switch node.Kind {
		case flows.Command:
			name, pn.writes = flows.CommandAction, slices.Sorted(maps.Keys(node.Take))
		case flows.Wait, flows.Approval, flows.Subflow:
			pn.writes = slices.Sorted(maps.Keys(node.Take))
		case flows.Step, flows.Gate, flows.Merge, flows.Loop, flows.Fanout, flows.Sink:
		}
		if name != "" {
			action, ok := reg.Get(name)
			if !ok {
				return nil, fmt.Errorf("%w: no action is called %s", flows.ErrDrift, name)
			}
			pn.action = &action
		}
		p.nodes[n.ID] = pn
	}
	for _, pn := range p.nodes {
		if pn.Kind != flows.Fanout {
			continue
		}
		for _, id := range append(slices.Clone(pn.Branches), pn.Join) {
			if of := p.nodes[id]; of != nil {
				of.fanout = pn
			}
		}
	}
	return p, nil
}

// plans keeps the plans used last, by definition hash.
type plans struct {
	mu     sync.Mutex
	byHash map[string]*list.Element
	recent *list.List // of *cachedPlan, the one used last in front
}

type cachedPlan struct {
	hash string
	plan *plan
}

func newPlans() *plans { return &plans{byHash: map[string]*list.Element{}, recent: list.New()} }

// get returns the plan of exactly this definition and these actions, or nil.
func (ps *plans) get(run *checkpoints.Run) *plan {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	el := ps.byHash[run.DefinitionHash]
	if el == nil {
		return nil
	}
	p := el.Value.(*cachedPlan).plan
	if !bytes.Equal(p.definition, run.Definition) || !maps.Equal(p.actions, run.Actions) {
		return nil
	}
	ps.recent.MoveToFront(el)
	return p
}

func (ps *plans) put(hash string, p *plan) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if el := ps.byHash[hash]; el != nil {
		el.Value.(*cachedPlan).plan = p
		ps.recent.MoveToFront(el)
		return
	}
	ps.byHash[hash] = ps.recent.PushFront(&cachedPlan{hash, p})
	if ps.recent.Len() > maxPlans {
		last := ps.recent.Back()
		delete(ps.byHash, last.Value.(*cachedPlan).hash)
		ps.recent.Remove(last)
	}
}

// thaw returns the plan of a run's frozen flow; code says what is wrong.
func (e *Engine) thaw(run *checkpoints.Run) (p *plan, code string, err error) {
	if p := e.plans.get(run); p != nil {
		return p, "", nil
	}
	f, err := flows.Thaw(run.Definition, run.DefinitionHash, run.Actions, e.Registry)
	if err == nil {
		p, err = newPlan(f, e.Registry, *run)
	}
	switch {
	case errors.Is(err, flows.ErrDrift):
		return nil, "drift", err
	case err != nil:
		return nil, "corrupt", err
	}
	e.plans.put(run.DefinitionHash, p)
	return p, "", nil
}
