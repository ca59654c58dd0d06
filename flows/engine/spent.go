package engine

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// What a run has spent is read from the store when a walk begins and counted
// from then on: nobody else spends for a run that is claimed. Where an answer
// of the store was lost, it is read again.

// unsure makes the next look at what was spent ask the store.
func (w *walk) unsure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
}

// spentNow is what the run has spent so far. Only the walk's goroutine asks.
func (w *walk) spentNow(ctx context.Context) (checkpoints.Usage, error) {
	w.mu.Lock()
	spent, stale := w.spent, w.stale
	w.stale = false
	if !stale {
		w.run.Spent = spent // branches may be looking at the run
	}
	w.mu.Unlock()
	if !stale {
		return spent, nil
	}
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	spent, _, _, err := w.e.Store.Spent(sctx, w.run.ID, w.run.Repo, w.run.Issue, w.run.Created)
	if err != nil {
		return spent, fmt.Errorf("reading what run %s has spent: %w", w.run.ID, err)
	}
	w.mu.Lock()
	w.spent, w.run.Spent = spent, spent
	w.mu.Unlock()
	return spent, nil
}

// uncharged is what the run has spent beyond its completed nodes.
func (w *walk) uncharged(ctx context.Context) (checkpoints.Usage, error) {
	spent, err := w.spentNow(ctx)
	if err != nil {
		return checkpoints.Usage{}, err
	}
	if spent == w.charged {
		return checkpoints.Usage{}, nil
	}
	return atLeastZero(minus(spent, w.charged)), nil
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

// overspent ends a node before it is entered, when a limit of its flow is
// reached already.
func (w *walk) overspent(ctx context.Context, node *planned) (result, bool) {
	f := &w.plan.limits
	if f.Wall > 0 && w.worked >= f.Wall {
		return exhausted(node, "wall time", int64(w.worked.Seconds()), int64(f.Wall.Seconds())), true
	}
	if node.Kind == flows.Gate || f.Tokens == 0 && f.MicroUSD == 0 && f.ToolCalls == 0 {
		return result{}, false
	}
	spent, err := w.spentNow(ctx)
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

func exhausted(node *planned, unit string, used, limit int64) result {
	return result{outcome: flows.Budget, err: fmt.Errorf(
		"%w: node %s was not entered, the flow's %s are used up: %d of %d", flows.ErrBudget, node.ID, unit, used, limit)}
}
