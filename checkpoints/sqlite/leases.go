package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
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
