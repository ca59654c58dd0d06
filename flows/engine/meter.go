package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// meter is a node's part of the budgets. What the visit has used so far is
// what the store says the run has spent beyond its completed nodes, so a
// resume goes on where the visit stood, calls that never settled included.
type meter struct {
	c *call

	mu     sync.Mutex
	used   checkpoints.Usage
	over   error // the first refusal
	warned bool
}

var errClosed = errors.New("the node is over")

// broken notes an error of the store that an action must not be able to hide.
func (w *walk) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fatal == nil {
		w.fatal = err
	}
}

// stuck reports that the walk is over whatever the action says.
func (w *walk) stuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fatal != nil || w.refused != nil
}

// quantity is one unit of a budget.
type quantity struct {
	unit        string
	used, limit int64
}

func (m *meter) quantities(u checkpoints.Usage) [3]quantity {
	b := &m.c.node.Budget
	return [3]quantity{
		{"tokens", u.Tokens(), b.Tokens},
		{"tool calls", u.ToolCalls, b.ToolCalls},
		{"micro-USD", u.MicroUSD, b.MicroUSD},
	}
}

// Reserve implements flows.Meter.
func (m *meter) Reserve(ctx context.Context, est checkpoints.Usage) (flows.Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.c.node.ID
	run, open := m.c.snapshot()
	switch {
	case !open:
		return nil, fmt.Errorf("node %s: %w", node, errClosed)
	case m.forbidden():
		return nil, m.refuse(fmt.Errorf("%w: node %s may not spend anything", flows.ErrBudget, node))
	}
	for _, q := range m.quantities(m.used.Add(est)) {
		if q.limit == 0 || q.used <= q.limit {
			continue
		}
		m.c.w.onBudget(ctx, BudgetEvent{Run: run, Node: node, Scope: "node", Unit: q.unit, Used: q.used, Limit: q.limit, Exhausted: true})
		return nil, m.refuse(fmt.Errorf("%w: node %s, limit of %d %s: %d with this call", flows.ErrBudget, node, q.limit, q.unit, q.used))
	}
	held, err := m.c.w.e.Store.Reserve(ctx, m.c.w.lease, node, est, m.c.w.limits(run))
	switch {
	case errors.Is(err, flows.ErrBudget):
		m.c.w.onBudget(ctx, BudgetEvent{Run: run, Node: node, Scope: "run", Unit: err.Error(), Exhausted: true})
		return nil, m.refuse(err)
	case err != nil:
		m.c.w.unsure()
		if ctx.Err() == nil {
			m.c.w.broken(err)
		}
		return nil, fmt.Errorf("reserving for node %s: %w", node, err)
	}
	m.c.count(est)
	m.used = m.used.Add(est)
	m.warn(ctx, run)
	return &reservation{m: m, held: held, est: est}, nil
}

// forbidden nodes may not spend at all: gates decide without a model, and the
// end of a run is free.
func (m *meter) forbidden() bool { return m.c.free || m.c.node.Kind == flows.Gate }

// refuse keeps the first refusal; m.mu is held.
func (m *meter) refuse(err error) error {
	if m.over == nil {
		m.over = err
	}
	return err
}

func (m *meter) refusal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

func (m *meter) total() checkpoints.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// warn tells once that the node's budget comes near.
func (m *meter) warn(ctx context.Context, run checkpoints.Run) {
	if m.warned {
		return
	}
	for _, q := range m.quantities(m.used) {
		if q.limit > 0 && float64(q.used) >= m.c.w.plan.limits.WarnAt*float64(q.limit) {
			m.warned = true
			m.c.w.onBudget(ctx, BudgetEvent{Run: run, Node: m.c.node.ID, Scope: "node", Unit: q.unit, Used: q.used, Limit: q.limit})
		}
	}
}

// Left implements flows.Meter. A limit of tokens bounds input and output
// together; what is left of it stands in both.
func (m *meter) Left() checkpoints.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := func(limit, used int64) int64 {
		switch {
		case m.forbidden():
			return 0
		case limit == 0:
			return -1
		}
		return max(limit-used, 0)
	}
	b := &m.c.node.Budget
	tokens := left(b.Tokens, m.used.Tokens())
	return checkpoints.Usage{
		InputTokens: tokens, OutputTokens: tokens, CachedTokens: -1, ModelCalls: left(0, 0),
		ToolCalls: left(b.ToolCalls, m.used.ToolCalls), MicroUSD: left(b.MicroUSD, m.used.MicroUSD),
	}
}

// MoneyLimited reports that some limit on money applies to the node.
func (m *meter) MoneyLimited() bool {
	run, open := m.c.snapshot()
	if !open || m.forbidden() || m.c.node.Budget.MicroUSD > 0 {
		return true
	}
	l := m.c.w.limits(run)
	for _, a := range l.Ancestors {
		if a.MicroUSD != nil {
			return true
		}
	}
	return l.Run.MicroUSD != nil || l.Issue.MicroUSD != nil || l.Day.MicroUSD != nil
}

type reservation struct {
	m    *meter
	held checkpoints.Reservation
	est  checkpoints.Usage

	mu      sync.Mutex
	settled bool
}

// Settle implements flows.Reservation. The money is spent whatever became of
// the node, so neither its end nor that of ctx prevents it.
func (r *reservation) Settle(ctx context.Context, used checkpoints.Usage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return fmt.Errorf("node %s: a reservation was settled twice", r.m.c.node.ID)
	}
	w := r.m.c.w
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.Settle(sctx, r.held, used); err != nil {
		err = fmt.Errorf("settling for node %s: %w", r.m.c.node.ID, err)
		w.broken(err)
		return err
	}
	r.settled = true
	r.m.c.count(minus(used, r.est))
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.used = r.m.used.Add(minus(used, r.est))
	r.m.c.passing(ctx, r.m.used)
	return nil
}

// limits are the run's limits, the flow's own among them.
func (w *walk) limits(run checkpoints.Run) checkpoints.Limits {
	l := limitsOf(w.e, run, w.plan.limits)
	if l.Ancestors == nil {
		l.Ancestors = w.ancestors
	}
	return l
}

func limitsOf(e *Engine, run checkpoints.Run, f flows.FlowLimits) checkpoints.Limits {
	var l checkpoints.Limits
	if e.Limits != nil {
		l = e.Limits(run)
	}
	l.Run.Tokens = lower(l.Run.Tokens, f.Tokens)
	l.Run.MicroUSD = lower(l.Run.MicroUSD, f.MicroUSD)
	l.Run.ToolCalls = lower(l.Run.ToolCalls, f.ToolCalls)
	return l
}

func lower(limit *int64, flow int64) *int64 {
	if flow == 0 || limit != nil && *limit <= flow {
		return limit
	}
	return &flow
}

// flowLimits are the limits of a run's flow. They hold whatever this program
// makes of the flow's actions.
func (e *Engine) flowLimits(run *checkpoints.Run) (flows.FlowLimits, error) {
	if p := e.plans.get(run); p != nil {
		return p.limits, nil
	}
	return flows.FrozenLimits(run.Definition, run.DefinitionHash)
}

// ancestorLimits are the limits of the runs for which this one is counted. An
// ancestor that was deleted bounds nothing; one that can't be read bounds
// everything, since what it has left is unknown.
func (e *Engine) ancestorLimits(ctx context.Context, run *checkpoints.Run) (map[string]checkpoints.Limit, error) {
	var out map[string]checkpoints.Limit
	for child := *run; child.Counted && child.Parent != "" && len(out) < 16; {
		parent, err := e.Store.Get(ctx, child.Parent)
		if errors.Is(err, checkpoints.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the limits of run %s, for which run %s is counted: %w", child.Parent, run.ID, err)
		}
		own, err := e.flowLimits(&parent)
		if err != nil {
			return nil, fmt.Errorf("the limits of run %s, for which run %s is counted: %w", parent.ID, run.ID, err)
		}
		if out == nil {
			out = map[string]checkpoints.Limit{}
		}
		out[parent.ID] = limitsOf(e, parent, own).Run
		child = parent
	}
	return out, nil
}
