package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// The sweep's searches go by the indexes that hold what is at work, due or
// claimable, and never through the runs that are parked; +n is so that none
// walks the table for the sake of its order.
const (
	lostRuns = `SELECT 'run', id, epoch FROM runs
		WHERE status IN ('ready', 'ending') AND owner = '' AND token_at <= ? ORDER BY +n`
	lostEvents = `SELECT 'event', id, 0 FROM inbox WHERE decision = '' AND token_at <= ? ORDER BY +n`
	overLeases = `SELECT 'run', id, epoch + 1 FROM runs WHERE owner <> '' AND lease_until <= ? ORDER BY +n`
	overWaits  = `SELECT 'run', id, epoch + 1 FROM runs
		WHERE status = 'waiting' AND wait_until > 0 AND wait_until <= ? ORDER BY +n`
)

// Sweep implements checkpoints.Leases. A run that is swept becomes Ready (or
// Ending), so that the next sweep leaves it alone until its token is aged.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		aged := t.at.Add(-age).UnixMicro()
		// What is aged is found before what is over gets a fresh token.
		lost, err := collect(t.ctx, t, scanToken, lostRuns, aged)
		if err != nil {
			return fmt.Errorf("finding lost tokens of runs: %w", err)
		}
		pending, err := collect(t.ctx, t, scanToken, lostEvents, aged)
		if err != nil {
			return fmt.Errorf("finding lost tokens of the inbox: %w", err)
		}
		due, err := collect(t.ctx, t, scanToken, overLeases, t.now)
		if err != nil {
			return fmt.Errorf("finding leases that are over: %w", err)
		}
		waits, err := collect(t.ctx, t, scanToken, overWaits, t.now)
		if err != nil {
			return fmt.Errorf("finding waits that are over: %w", err)
		}
		due = append(due, waits...)
		for _, tok := range due {
			err := t.exec1(`UPDATE runs SET status = iif(ended, 'ending', 'ready'), epoch = ?1, owner = '', lease_until = 0,
				token_at = ?2, updated_at = ?2 WHERE id = ?3`, tok.Epoch, t.now, tok.ID)
			if err != nil {
				return fmt.Errorf("ending the lease or wait of run %s: %w", tok.ID, err)
			}
		}
		for _, tok := range lost {
			if err := t.exec1(`UPDATE runs SET token_at = ? WHERE id = ?`, t.now, tok.ID); err != nil {
				return fmt.Errorf("dating the token of run %s: %w", tok.ID, err)
			}
		}
		for _, tok := range pending {
			if err := t.exec1(`UPDATE inbox SET token_at = ? WHERE id = ?`, t.now, tok.ID); err != nil {
				return fmt.Errorf("dating the token of inbox event %s: %w", tok.ID, err)
			}
		}
		t.tokens = append(append(due, lost...), pending...)
		n = len(t.tokens)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func scanToken(row scanner) (t queue.Token, err error) {
	err = row.Scan(&t.Kind, &t.ID, &t.Epoch)
	return t, err
}
