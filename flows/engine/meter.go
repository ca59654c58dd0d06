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
	w      *walk
	run    checkpoints.Run
	node   string
	budget flows.NodeBudget
	// forbidden nodes may not spend at all: gates decide without a model.
	forbidden bool
	settled   func(context.Context) // may be nil

	mu     sync.Mutex
	used   checkpoints.Usage
	over   error // the first refusal
	closed bool
	warned bool
}

var errClosed = errors.New("engine: the node is over")

// uncharged is what the run has spent beyond its completed nodes.
func (w *walk) uncharged(ctx context.Context) (checkpoints.Usage, error) {
	spent, err := w.spent(ctx)
	if err != nil {
		return checkpoints.Usage{}, err
	}
	return atLeastZero(minus(spent, w.charged)), nil
}

func (w *walk) spent(ctx context.Context) (checkpoints.Usage, error) {
	sctx, done := w.storeCtx(ctx)
	defer done()
	spent, _, _, err := w.e.Store.Spent(sctx, w.run.ID, w.run.Repo, w.run.Issue, w.run.Created)
	if err != nil {
		return spent, fmt.Errorf("reading what run %s has spent: %w", w.run.ID, err)
	}
	w.run.Spent = spent
	return spent, nil
}

func minus(a, b checkpoints.Usage) checkpoints.Usage {
	return checkpoints.Usage{
		InputTokens: a.InputTokens - b.InputTokens, OutputTokens: a.OutputTokens - b.OutputTokens,
		CachedTokens: a.CachedTokens - b.CachedTokens, ToolCalls: a.ToolCalls - b.ToolCalls,
		ModelCalls: a.ModelCalls - b.ModelCalls, MicroUSD: a.MicroUSD - b.MicroUSD,
	}
}

func atLeastZero(u checkpoints.Usage) checkpoints.Usage {
	return checkpoints.Usage{
		InputTokens: max(u.InputTokens, 0), OutputTokens: max(u.OutputTokens, 0), CachedTokens: max(u.CachedTokens, 0),
		ToolCalls: max(u.ToolCalls, 0), ModelCalls: max(u.ModelCalls, 0), MicroUSD: max(u.MicroUSD, 0),
	}
}

func (m *meter) load(ctx context.Context) error {
	if m.forbidden {
		return nil
	}
	used, err := m.w.uncharged(ctx)
	if err != nil {
		m.w.broken(err)
		return err
	}
	m.used = used
	return nil
}

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

func (m *meter) quantities(u checkpoints.Usage) []quantity {
	return []quantity{
		{"tokens", u.Tokens(), m.budget.Tokens},
		{"tool calls", u.ToolCalls, m.budget.ToolCalls},
		{"micro-USD", u.MicroUSD, m.budget.MicroUSD},
	}
}

// Reserve implements flows.Meter.
func (m *meter) Reserve(ctx context.Context, est checkpoints.Usage) (flows.Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("node %s: %w", m.node, errClosed)
	case m.forbidden:
		return nil, m.refuse(fmt.Errorf("%w: node %s may not spend anything", flows.ErrBudget, m.node))
	}
	for _, q := range m.quantities(m.used.Add(est)) {
		if q.limit == 0 || q.used <= q.limit {
			continue
		}
		m.w.onBudget(ctx, BudgetEvent{Run: m.run, Node: m.node, Scope: "node", Unit: q.unit, Used: q.used, Limit: q.limit, Exhausted: true})
		return nil, m.refuse(fmt.Errorf("%w: node %s, limit of %d %s: %d with this call", flows.ErrBudget, m.node, q.limit, q.unit, q.used))
	}
	held, err := m.w.e.Store.Reserve(ctx, m.w.lease, m.node, est, m.w.limits(m.run))
	switch {
	case errors.Is(err, flows.ErrBudget):
		m.w.onBudget(ctx, BudgetEvent{Run: m.run, Node: m.node, Scope: "run", Unit: err.Error(), Exhausted: true})
		return nil, m.refuse(err)
	case err != nil:
		if ctx.Err() == nil {
			m.w.broken(err)
		}
		return nil, fmt.Errorf("reserving for node %s: %w", m.node, err)
	}
	m.used = m.used.Add(est)
	m.warn(ctx)
	return &reservation{m: m, held: held, est: est}, nil
}

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

// warn tells once that the node's budget comes near.
func (m *meter) warn(ctx context.Context) {
	if m.warned {
		return
	}
	for _, q := range m.quantities(m.used) {
		if q.limit > 0 && float64(q.used) >= m.w.flow.Limits().WarnAt*float64(q.limit) {
			m.warned = true
			m.w.onBudget(ctx, BudgetEvent{Run: m.run, Node: m.node, Scope: "node", Unit: q.unit, Used: q.used, Limit: q.limit})
		}
	}
}

func (m *meter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// Left implements flows.Meter. A limit of tokens bounds input and output
// together; what is left of it stands in both.
func (m *meter) Left() checkpoints.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := func(limit, used int64) int64 {
		switch {
		case m.forbidden:
			return 0
		case limit == 0:
			return -1
		}
		return max(limit-used, 0)
	}
	tokens := left(m.budget.Tokens, m.used.Tokens())
	return checkpoints.Usage{
		InputTokens: tokens, OutputTokens: tokens, CachedTokens: -1, ModelCalls: left(0, 0),
		ToolCalls: left(m.budget.ToolCalls, m.used.ToolCalls), MicroUSD: left(m.budget.MicroUSD, m.used.MicroUSD),
	}
}

// MoneyLimited reports that some limit on money applies to the node.
func (m *meter) MoneyLimited() bool {
	l := m.w.limits(m.run)
	return m.forbidden || m.budget.MicroUSD > 0 || l.Run.MicroUSD != nil || l.Issue.MicroUSD != nil || l.Day.MicroUSD != nil
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
		return fmt.Errorf("node %s: a reservation was settled twice", r.m.node)
	}
	sctx, done := r.m.w.storeCtx(ctx)
	defer done()
	if err := r.m.w.e.Store.Settle(sctx, r.held, used); err != nil {
		err = fmt.Errorf("settling for node %s: %w", r.m.node, err)
		r.m.w.broken(err)
		return err
	}
	r.settled = true
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.used = r.m.used.Add(minus(used, r.est))
	if r.m.settled != nil && !r.m.closed {
		r.m.settled(ctx)
	}
	return nil
}

// limits are the run's limits, the flow's own among them.
func (w *walk) limits(run checkpoints.Run) checkpoints.Limits {
	var l checkpoints.Limits
	if w.e.Limits != nil {
		l = w.e.Limits(run)
	}
	f := w.flow.Limits()
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

// overspent ends a node before it is entered, when a limit of its flow is
// reached already.
func (w *walk) overspent(ctx context.Context, node flows.Node) (result, bool) {
	f := w.flow.Limits()
	if f.Wall > 0 && w.worked >= f.Wall {
		return exhausted(node, "wall time", int64(w.worked.Seconds()), int64(f.Wall.Seconds())), true
	}
	if node.Kind != flows.Step || f.Tokens == 0 && f.MicroUSD == 0 && f.ToolCalls == 0 {
		return result{}, false
	}
	spent, err := w.spent(ctx)
	if err != nil {
		return result{fatal: err}, true
	}
	for _, q := range []quantity{
		{"tokens", spent.Tokens(), f.Tokens}, {"micro-USD", spent.MicroUSD, f.MicroUSD}, {"tool calls", spent.ToolCalls, f.ToolCalls},
	} {
		switch {
		case q.limit == 0:
		case q.used >= q.limit:
			w.onBudget(ctx, BudgetEvent{Node: node.ID, Scope: "run", Unit: q.unit, Used: q.used, Limit: q.limit, Exhausted: true})
			return exhausted(node, q.unit, q.used, q.limit), true
		case float64(q.used) >= f.WarnAt*float64(q.limit):
			w.onBudget(ctx, BudgetEvent{Node: node.ID, Scope: "run", Unit: q.unit, Used: q.used, Limit: q.limit})
		}
	}
	return result{}, false
}

func exhausted(node flows.Node, unit string, used, limit int64) result {
	return result{outcome: flows.Budget, err: fmt.Errorf(
		"%w: node %s was not entered, the flow's %s are used up: %d of %d", flows.ErrBudget, node.ID, unit, used, limit)}
}
