package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Start implements checkpoints.Runs.
func (s *Store) Start(ctx context.Context, req checkpoints.StartReq) (out checkpoints.Run, err error) {
	err = s.do(ctx, func(c *call) error {
		out, err = c.start(req, "")
		return err
	})
	return out, err
}

// start creates a run; closing is the id of a run that the same call makes
// final and that is not in the way any more.
func (c *call) start(req checkpoints.StartReq, closing string) (checkpoints.Run, error) {
	req, err := req.Normalize()
	if err != nil {
		return checkpoints.Run{}, err
	}
	if id, used := c.triggers[req.Trigger]; used && req.Trigger != "" {
		err := fmt.Errorf("trigger %s has started run %s: %w", req.Trigger, id, checkpoints.ErrConflict)
		if r, ok := c.runs[id]; ok {
			return c.view(r), err
		}
		return checkpoints.Run{ID: id, Key: req.Key, Trigger: req.Trigger}, err
	}
	for _, r := range c.order {
		if r.Key == req.Key && !r.Status.Final() && r.ID != closing {
			return c.view(r), fmt.Errorf("run %s of %s is open: %w", r.ID, r.Key, checkpoints.ErrConflict)
		}
	}
	r := &run{Run: checkpoints.Run{
		ID: checkpoints.NewID(c.now), Key: req.Key, Trigger: req.Trigger, Lineage: req.Lineage,
		Repo: req.Repo, Issue: req.Issue, Phase: req.Phase, Flow: req.Flow, Round: req.Round,
		Status: checkpoints.Ready, Epoch: 1, Next: req.Entry,
		State: bytes.Clone(req.State), Visits: map[string]int{},
		Definition: bytes.Clone(req.Definition), DefinitionHash: req.DefinitionHash,
		Actions: maps.Clone(req.Actions), Created: c.now, Updated: c.now,
	}}
	if r.Lineage == "" {
		r.Lineage = r.ID
	}
	if r.Actions == nil {
		r.Actions = map[string]string{}
	}
	if r.Trigger != "" {
		c.triggers[r.Trigger] = r.ID
	}
	c.runs[r.ID] = r
	c.order = append(c.order, r)
	c.wake(r)
	return c.view(r), nil
}

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
	repo := checkpoints.FoldScope(f.Repo)
	err = s.do(ctx, func(c *call) error {
		newest := slices.Clone(c.order)
		slices.Reverse(newest)
		slices.SortStableFunc(newest, func(a, b *run) int { return b.Created.Compare(a.Created) })
		for _, r := range newest {
			if len(out) == f.Limit {
				break
			}
			if (repo == "" || checkpoints.FoldScope(r.Repo) == repo) &&
				(f.Issue == 0 || r.Issue == f.Issue) &&
				(f.Phase == "" || r.Phase == f.Phase) &&
				(f.Lineage == "" || r.Lineage == f.Lineage) &&
				(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) {
				out = append(out, c.view(r))
			}
		}
		return nil
	})
	return out, err
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

// Prune implements checkpoints.Runs. What the runs cost and their triggers
// stay: the limits of an issue and of a day must not be refilled, and a
// trigger is used for ever.
func (s *Store) Prune(ctx context.Context, ret checkpoints.Retention) (n int, err error) {
	err = s.do(ctx, func(c *call) error {
		c.order = slices.DeleteFunc(c.order, func(r *run) bool {
			if !r.Status.Final() || !r.Updated.Before(ret.Before) {
				return false
			}
			delete(c.runs, r.ID)
			n++
			return true
		})
		return nil
	})
	return n, err
}
