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

// family selects a run and the children that are counted for it.
const family = `run_id IN (
	WITH RECURSIVE family (id) AS (
		SELECT ?1 UNION SELECT c.id FROM runs c JOIN family f ON c.parent = f.id WHERE c.parent <> '' AND c.counted)
	SELECT id FROM family)`

func scanUsage(row scanner) (u checkpoints.Usage, err error) {
	err = row.Scan(&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ToolCalls, &u.ModelCalls, &u.MicroUSD)
	return u, err
}

// sumAll sums the three scopes at once, as rows: a run, an issue, a day.
const sumAll = sumLedger + family + ` UNION ALL ` + sumLedger + `repo_folded = ?2 AND issue = ?3 UNION ALL ` + sumLedger + `at >= ?4`

// spent sums the three scopes.
func spent(ctx context.Context, q querier, runID, repo string, issue int, since time.Time) (u [3]checkpoints.Usage, err error) {
	sums, err := collect(ctx, q, scanUsage, sumAll, runID, checkpoints.FoldScope(repo), issue, since.UnixMicro())
	if err != nil {
		return u, fmt.Errorf("summing the ledger: %w", err)
	}
	copy(u[:], sums)
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
		if err := t.checkAncestors(l.RunID, est, lim); err != nil {
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

// checkAncestors checks the limits of the runs that a run is counted for.
func (t *tx) checkAncestors(id string, est checkpoints.Usage, lim checkpoints.Limits) error {
	if len(lim.Ancestors) == 0 {
		return nil
	}
	scan := func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}
	ids, err := collect(t.ctx, t, scan, `WITH RECURSIVE up (id, depth) AS (
			SELECT parent, 1 FROM runs WHERE id = ?1 AND counted
			UNION SELECT r.parent, depth + 1 FROM runs r JOIN up ON r.id = up.id WHERE r.counted)
		SELECT id FROM up ORDER BY depth`, id)
	if err != nil {
		return fmt.Errorf("reading the ancestors of run %s: %w", id, err)
	}
	for _, ancestor := range ids {
		used, err := scanUsage(t.row(sumLedger+family, ancestor))
		if err != nil {
			return fmt.Errorf("summing the ledger of run %s: %w", ancestor, err)
		}
		if err := lim.CheckAncestor(ancestor, est, used); err != nil {
			return err
		}
	}
	return nil
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
