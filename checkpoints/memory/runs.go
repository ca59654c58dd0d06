package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Get implements checkpoints.Runs.
func (s *Store) Get(ctx context.Context, id string) (out checkpoints.Run, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.find(id)
		if err == nil {
			out = c.view(r)
		}
		return err
	})
	return out, err
}

// List implements checkpoints.Runs.
func (s *Store) List(ctx context.Context, f checkpoints.Filter) (out []checkpoints.Run, err error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	err = s.do(ctx, func(c *call) error {
		for _, r := range slices.Backward(c.selected(f)) {
			if len(out) == f.Limit {
				break
			}
			out = append(out, c.view(r))
		}
		return nil
	})
	return out, err
}

// IDs implements checkpoints.Runs.
func (s *Store) IDs(ctx context.Context, f checkpoints.Filter) (ids []string, err error) {
	err = s.do(ctx, func(c *call) error {
		for _, r := range c.selected(f) {
			ids = append(ids, r.ID)
		}
		return nil
	})
	return ids, err
}

// selected are the runs of a filter without its limit, oldest first.
func (c *call) selected(f checkpoints.Filter) []*run {
	repo := checkpoints.FoldScope(f.Repo)
	var out []*run
	for _, r := range c.order {
		if (repo == "" || checkpoints.FoldScope(r.Repo) == repo) &&
			(f.Issue == 0 || r.Issue == f.Issue) &&
			(f.Phase == "" || r.Phase == f.Phase) &&
			(f.Lineage == "" || r.Lineage == f.Lineage) &&
			(f.Parent == "" || r.Parent == f.Parent) &&
			(!f.Roots || r.Parent == "") &&
			(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *run) int { return a.Created.Compare(b.Created) })
	return out
}

// History implements checkpoints.Runs.
func (s *Store) History(ctx context.Context, id string) (out []checkpoints.NodeRecord, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.find(id)
		if err != nil {
			return err
		}
		for _, rec := range r.history {
			out = append(out, cloneRecord(rec))
		}
		return nil
	})
	return out, err
}

// Wake implements checkpoints.Runs.
func (s *Store) Wake(ctx context.Context, id string) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.find(id)
		if err != nil {
			return err
		}
		if r.Status != checkpoints.Halted {
			return fmt.Errorf("run %s is %s, not halted: %w", id, r.Status, checkpoints.ErrConflict)
		}
		if !r.ended {
			r.Code, r.Reason = "", ""
		}
		r.Status, r.Updated = r.rest(), c.now
		c.wake(r)
		return nil
	})
}

// Nudge implements checkpoints.Runs.
func (s *Store) Nudge(ctx context.Context, id string, since time.Time) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.find(id)
		if err != nil {
			return err
		}
		if r.Status != checkpoints.Waiting || !r.Wait.Nudged(since) {
			return fmt.Errorf("run %s is %s and does not wait to look again since %s: %w", id, r.Status, since, checkpoints.ErrConflict)
		}
		r.Status, r.Updated = r.rest(), c.now
		c.wake(r)
		return nil
	})
}

// Cancel implements checkpoints.Runs.
func (s *Store) Cancel(ctx context.Context, id string, e checkpoints.Ended) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.find(id)
		switch {
		case err != nil:
			return err
		case r.Status.Final() || r.ended:
			return fmt.Errorf("run %s is over already (%s): %w", id, r.Status, checkpoints.ErrConflict)
		case r.Owner != "":
			return fmt.Errorf("run %s is held by %s: %w", id, r.Owner, checkpoints.ErrBusy)
		}
		r.end(e, c.now)
		c.wake(r)
		return nil
	})
}
