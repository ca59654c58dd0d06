package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Claim implements checkpoints.Leases.
func (s *Store) Claim(ctx context.Context, id string, epoch int64, owner string, ttl time.Duration) (out checkpoints.Run, l checkpoints.Lease, err error) {
	if owner == "" {
		return out, l, errors.New("checkpoints: a claim needs an owner")
	}
	err = s.write(ctx, func(t *tx) error {
		p, err := t.position(id)
		if err != nil {
			return err
		}
		if p.epoch != epoch || !p.claimable(t.now) {
			return fmt.Errorf("run %s is %s at epoch %d, asked for %d: %w", id, p.status, p.epoch, epoch, checkpoints.ErrBusy)
		}
		err = t.exec1(`UPDATE runs SET status = iif(ended, 'ending', 'running'), epoch = epoch + 1, starts = starts + 1,
			owner = ?, lease_until = ?, updated_at = ? WHERE id = ? AND epoch = ?`,
			owner, t.at.Add(ttl).UnixMicro(), t.now, id, epoch)
		if err != nil {
			return fmt.Errorf("claiming run %s: %w", id, err)
		}
		s.numbers.put(id, p.n)
		out, err = getRun(t.ctx, t, id)
		return err
	})
	if err != nil {
		return checkpoints.Run{}, l, err
	}
	return out, checkpoints.Lease{RunID: id, Owner: owner, Fence: out.Epoch}, nil
}

func (p position) claimable(now int64) bool {
	switch p.status {
	case checkpoints.Ready, checkpoints.Ending, checkpoints.Running:
		return p.owner == "" || p.leaseUntil <= now
	case checkpoints.Waiting:
		return p.waitUntil > 0 && p.waitUntil <= now
	default:
		return false
	}
}

// Renew implements checkpoints.Leases.
func (s *Store) Renew(ctx context.Context, l checkpoints.Lease, ttl time.Duration) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.held(l); err != nil {
			return err
		}
		return t.exec1(`UPDATE runs SET lease_until = ? WHERE id = ?`, t.at.Add(ttl).UnixMicro(), l.RunID)
	})
}

// Release implements checkpoints.Leases.
func (s *Store) Release(ctx context.Context, l checkpoints.Lease) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		return t.leave(l.RunID, p, p.rest())
	})
}

// Sweep implements checkpoints.Leases. A run that is swept becomes Ready (or
// Ending), so that the next sweep leaves it alone until its token is aged.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		aged := t.at.Add(-age).UnixMicro()
		// What is aged is found before what is over gets a fresh token.
		lost, err := collect(t.ctx, t, scanToken, `SELECT 'run', id, epoch FROM runs
			WHERE status IN ('ready', 'ending') AND owner = '' AND token_at <= ? ORDER BY n`, aged)
		if err != nil {
			return fmt.Errorf("finding lost tokens of runs: %w", err)
		}
		over, err := collect(t.ctx, t, scanToken, `
			UPDATE runs SET status = iif(ended, 'ending', 'ready'), epoch = epoch + 1, owner = '', lease_until = 0,
				token_at = ?1, updated_at = ?1
			WHERE n IN (SELECT n FROM runs WHERE owner <> '' AND lease_until <= ?1
				UNION SELECT n FROM runs WHERE status = 'waiting' AND wait_until > 0 AND wait_until <= ?1)
			RETURNING 'run', id, epoch`, t.now)
		if err != nil {
			return fmt.Errorf("ending leases and waits that are over: %w", err)
		}
		pending, err := collect(t.ctx, t, scanToken, `SELECT 'event', id, 0 FROM inbox
			WHERE decision = '' AND token_at <= ? ORDER BY n`, aged)
		if err != nil {
			return fmt.Errorf("finding lost tokens of the inbox: %w", err)
		}
		if _, err := t.exec(`UPDATE runs SET token_at = ? WHERE status IN ('ready', 'ending') AND owner = '' AND token_at <= ?`, t.now, aged); err != nil {
			return fmt.Errorf("dating tokens of runs: %w", err)
		}
		if _, err := t.exec(`UPDATE inbox SET token_at = ? WHERE decision = '' AND token_at <= ?`, t.now, aged); err != nil {
			return fmt.Errorf("dating tokens of the inbox: %w", err)
		}
		t.tokens = append(append(over, lost...), pending...)
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

// ExpireAll implements checkpoints.Leases. The epochs rise, so that the
// leases that end are lost to their holders as well.
func (s *Store) ExpireAll(ctx context.Context) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.exec(`UPDATE runs SET epoch = epoch + 1, lease_until = ? WHERE owner <> ''`, t.now); err != nil {
			return fmt.Errorf("ending all leases: %w", err)
		}
		return nil
	})
}
