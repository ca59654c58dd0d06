package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Commit implements checkpoints.Progress.
func (s *Store) Commit(ctx context.Context, l checkpoints.Lease, cm checkpoints.Commit) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err != nil {
			return err
		}
		if err := cm.Validate(); err != nil {
			return err
		}
		if r.ended {
			return fmt.Errorf("run %s has ended: %w", r.ID, checkpoints.ErrConflict)
		}
		if cm.Seq != r.Seq+1 {
			return fmt.Errorf("run %s: commit %d after %d: %w", r.ID, cm.Seq, r.Seq, checkpoints.ErrConflict)
		}
		var resolved *event
		if cm.EventKey != "" {
			if resolved, err = r.unconsumed(cm.EventKey); err != nil {
				return err
			}
			resolved.consumed = true
		}
		rec := cloneRecord(cm.Record)
		rec.Seq, rec.EventKey, rec.Next = cm.Seq, cm.EventKey, cm.Next
		r.history = append(r.history, rec)
		r.Seq, r.Node, r.Next, r.Starts = cm.Seq, rec.Node, cm.Next, 0
		r.State, r.Visits = bytes.Clone(cm.State), maps.Clone(cm.Visits)
		if r.Visits == nil {
			r.Visits = map[string]int{}
		}
		r.Wait, r.Updated = nil, c.now
		switch {
		case cm.Ending != nil:
			r.end(*cm.Ending, c.now)
		case cm.Park != nil:
			c.park(r, *cm.Park)
		}
		return nil
	})
}

// park makes a held run wait, or ready at once when the event is there.
func (c *call) park(r *run, w checkpoints.Wait) {
	r.Wait = &w
	if r.pending(w.Event) != nil {
		r.leave(r.rest(), c.now)
		c.wake(r)
		return
	}
	r.leave(checkpoints.Waiting, c.now)
}

// Park implements checkpoints.Progress.
func (s *Store) Park(ctx context.Context, l checkpoints.Lease, w checkpoints.Wait) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err == nil {
			r.Starts = max(r.Starts-1, 0)
			c.park(r, w)
		}
		return err
	})
}

// Halt implements checkpoints.Progress. A run whose flow is over keeps the
// code and the reason of its end.
func (s *Store) Halt(ctx context.Context, l checkpoints.Lease, code, reason string) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err != nil {
			return err
		}
		if !r.ended {
			r.Code, r.Reason = code, reason
		}
		r.leave(checkpoints.Halted, c.now)
		return nil
	})
}

// End implements checkpoints.Progress.
func (s *Store) End(ctx context.Context, l checkpoints.Lease, e checkpoints.Ended) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err == nil {
			r.end(e, c.now)
		}
		return err
	})
}

// Finish implements checkpoints.Progress. When next is in conflict with
// another run, that run is returned with ErrConflict and nothing is changed.
func (s *Store) Finish(ctx context.Context, l checkpoints.Lease, final checkpoints.Status, next *checkpoints.StartReq) (out *checkpoints.Run, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err != nil {
			return err
		}
		if !final.Final() {
			return fmt.Errorf("finishing run %s: %q is no final status", r.ID, final)
		}
		if !r.ended {
			return fmt.Errorf("finishing run %s, which is %s and not ending: %w", r.ID, r.Status, checkpoints.ErrConflict)
		}
		heir := c.heir(r)
		if next != nil {
			started, err := c.start(*next, r, heir)
			if started.ID != "" {
				out = &started
			}
			if err != nil {
				return err
			}
		}
		r.leave(final, c.now)
		if heir != nil {
			heir.Status, heir.Updated = checkpoints.Ready, c.now
			c.wake(heir)
		}
		return nil
	})
	return out, err
}

// PutBranch implements checkpoints.Progress.
func (s *Store) PutBranch(ctx context.Context, l checkpoints.Lease, b checkpoints.BranchRecord) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err != nil {
			return err
		}
		if err := b.Validate(); err != nil {
			return err
		}
		for _, known := range r.branches {
			if known.Fanout == b.Fanout && known.Visit == b.Visit && known.Branch == b.Branch {
				return nil
			}
		}
		r.branches = append(r.branches, cloneBranch(b))
		return nil
	})
}
