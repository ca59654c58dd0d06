package memory

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
	err = s.do(ctx, func(c *call) error {
		if owner == "" {
			return errors.New("checkpoints: a claim needs an owner")
		}
		r, err := c.find(id)
		if err != nil {
			return err
		}
		if r.Epoch != epoch || !r.claimable(c.now) {
			return fmt.Errorf("run %s is %s at epoch %d, asked for %d: %w", id, r.Status, r.Epoch, epoch, checkpoints.ErrBusy)
		}
		r.Status = checkpoints.Running
		if r.ended {
			r.Status = checkpoints.Ending
		}
		r.Epoch++
		r.Starts++
		r.Owner, r.LeaseUntil, r.Updated = owner, c.now.Add(ttl), c.now
		out, l = c.view(r), checkpoints.Lease{RunID: id, Owner: owner, Fence: r.Epoch}
		return nil
	})
	return out, l, err
}

func (r *run) claimable(now time.Time) bool {
	switch r.Status {
	case checkpoints.Ready, checkpoints.Ending, checkpoints.Running:
		return r.Owner == "" || r.leaseOver(now)
	case checkpoints.Waiting:
		return r.Wait.Over(now)
	default:
		return false
	}
}

// Renew implements checkpoints.Leases.
func (s *Store) Renew(ctx context.Context, l checkpoints.Lease, ttl time.Duration) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err == nil {
			r.LeaseUntil = c.now.Add(ttl)
		}
		return err
	})
}

// Release implements checkpoints.Leases.
func (s *Store) Release(ctx context.Context, l checkpoints.Lease) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err == nil {
			r.leave(r.rest(), c.now)
			c.wake(r)
		}
		return err
	})
}

// Sweep implements checkpoints.Leases. A run that is swept becomes Ready (or
// Ending), so that the next sweep leaves it alone until its token is aged.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (n int, err error) {
	err = s.do(ctx, func(c *call) error {
		aged := c.now.Add(-age)
		for _, r := range c.order {
			switch {
			case r.leaseOver(c.now), r.Status == checkpoints.Waiting && r.Wait.Over(c.now):
				r.Epoch++
				r.leave(r.rest(), c.now)
				c.wake(r)
			case r.Owner == "" && r.Status == r.rest() && !r.tokenAt.After(aged):
				c.wake(r)
			}
		}
		for _, row := range c.inbox {
			if row.Decision == "" && !row.tokenAt.After(aged) {
				row.tokenAt = c.now
				c.tokens = append(c.tokens, queue.Token{Kind: queue.Event, ID: row.ID})
			}
		}
		n = len(c.tokens)
		return nil
	})
	return n, err
}

// ExpireAll implements checkpoints.Leases. The epochs rise, so that the
// leases that end are lost to their holders as well.
func (s *Store) ExpireAll(ctx context.Context) error {
	return s.do(ctx, func(c *call) error {
		for _, r := range c.order {
			if r.Owner != "" {
				r.Epoch++
				r.LeaseUntil = c.now
			}
		}
		return nil
	})
}
