package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

const sumLedger = `
SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0),
       coalesce(sum(tool_calls), 0), coalesce(sum(model_calls), 0), coalesce(sum(micro_usd), 0)
FROM ledger WHERE `

// spent sums the three scopes.
func spent(ctx context.Context, q querier, runID, repo string, issue int, since time.Time) (u [3]checkpoints.Usage, err error) {
	for i, c := range []struct {
		where string
		args  []any
	}{
		{`run_id = ?`, []any{runID}},
		{`repo_folded = ? AND issue = ?`, []any{checkpoints.FoldScope(repo), issue}},
		{`at >= ?`, []any{since.UnixMicro()}},
	} {
		err := q.QueryRowContext(ctx, sumLedger+c.where, c.args...).Scan(&u[i].InputTokens, &u[i].OutputTokens,
			&u[i].CachedTokens, &u[i].ToolCalls, &u[i].ModelCalls, &u[i].MicroUSD)
		if err != nil {
			return u, explain(fmt.Errorf("summing the ledger: %w", err))
		}
	}
	return u, nil
}

// Reserve implements checkpoints.Ledger.
func (s *Store) Reserve(ctx context.Context, l checkpoints.Lease, node string, est checkpoints.Usage, lim checkpoints.Limits) (out checkpoints.Reservation, err error) {
	err = s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		u, err := spent(t.ctx, t, l.RunID, p.repo, p.issue, checkpoints.Midnight(t.at))
		if err != nil {
			return err
		}
		if err := lim.Check(est, u[0], u[1], u[2]); err != nil {
			return err
		}
		out = checkpoints.Reservation{ID: checkpoints.NewID(t.at), RunID: l.RunID, Node: node}
		err = t.exec1(`INSERT INTO ledger (id, run_id, node, repo_folded, issue, at,
				input_tokens, output_tokens, cached_tokens, tool_calls, model_calls, micro_usd)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, out.ID, l.RunID, node, p.repo, p.issue, t.now,
			est.InputTokens, est.OutputTokens, est.CachedTokens, est.ToolCalls, est.ModelCalls, est.MicroUSD)
		if err != nil {
			return fmt.Errorf("reserving for node %s of run %s: %w", node, l.RunID, err)
		}
		return nil
	})
	if err != nil {
		return checkpoints.Reservation{}, err
	}
	return out, nil
}

// Settle implements checkpoints.Ledger. Settling again replaces again.
func (s *Store) Settle(ctx context.Context, r checkpoints.Reservation, used checkpoints.Usage) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE ledger SET settled = 1, input_tokens = ?, output_tokens = ?, cached_tokens = ?,
			tool_calls = ?, model_calls = ?, micro_usd = ? WHERE id = ?`,
			used.InputTokens, used.OutputTokens, used.CachedTokens, used.ToolCalls, used.ModelCalls, used.MicroUSD, r.ID)
		if err != nil {
			return fmt.Errorf("settling reservation %s: %w", r.ID, err)
		}
		if n == 0 {
			return fmt.Errorf("reservation %s of run %s: %w", r.ID, r.RunID, checkpoints.ErrNotFound)
		}
		return nil
	})
}

// Spent implements checkpoints.Ledger.
func (s *Store) Spent(ctx context.Context, runID, repo string, issue int, since time.Time) (run, issueTotal, day checkpoints.Usage, err error) {
	u, err := spent(ctx, s.reads, runID, repo, issue, since)
	return u[0], u[1], u[2], err
}
