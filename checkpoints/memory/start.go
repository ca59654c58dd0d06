package memory

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Start implements checkpoints.Runs.
func (s *Store) Start(ctx context.Context, req checkpoints.StartReq) (out checkpoints.Run, err error) {
	err = s.do(ctx, func(c *call) error {
		out, err = c.start(req, nil, nil)
		return err
	})
	return out, err
}

// start creates a run. closing is the run that the same call makes final and
// that is not in the way any more, promoted the one that takes its turn.
func (c *call) start(req checkpoints.StartReq, closing, promoted *run) (checkpoints.Run, error) {
	req, err := req.Normalize()
	if err != nil {
		return checkpoints.Run{}, err
	}
	if known, err := c.known(req, closing); err != nil {
		return known, err
	}
	status, replaces := checkpoints.Ready, ""
	if active, queued := c.concurrent(req, closing, promoted); active != nil || len(queued) > 0 {
		switch {
		case req.OnConflict == checkpoints.OnConflictReject:
			if active == nil {
				active = queued[0]
			}
			return c.view(active), fmt.Errorf("run %s of concurrency key %s is open: %w", active.ID, req.Concurrency, checkpoints.ErrConflict)
		case active != nil && req.OnConflict == checkpoints.OnConflictReplace:
			replaces = active.ID
		}
		status = checkpoints.Queued
	}
	id := checkpoints.NewID(c.now)
	if req.OnConflict == checkpoints.OnConflictReplace {
		c.supersede(req, closing, promoted, id)
	}
	r := &run{Run: req.Begin(id, status, replaces, c.now)}
	if r.Trigger != "" {
		c.triggers[r.Trigger] = r.ID
	}
	c.version(r)
	c.runs[r.ID] = r
	c.order = append(c.order, r)
	if r.Parent != "" {
		c.children[r.Parent] = append(c.children[r.Parent], r)
	}
	if status == checkpoints.Ready {
		c.wake(r)
	}
	return c.view(r), nil
}

// known returns the run that the request has started before, or that has its
// key, with ErrConflict.
func (c *call) known(req checkpoints.StartReq, closing *run) (checkpoints.Run, error) {
	if id, used := c.triggers[req.Trigger]; used && req.Trigger != "" {
		err := fmt.Errorf("trigger %s has started run %s: %w", req.Trigger, id, checkpoints.ErrConflict)
		if r, ok := c.runs[id]; ok {
			return c.view(r), err
		}
		return checkpoints.Run{ID: id, Key: req.Key, Trigger: req.Trigger}, err
	}
	for _, r := range c.order {
		switch {
		case r.Key != req.Key:
		case req.Parent != "" && r.Parent == req.Parent:
			return c.view(r), fmt.Errorf("run %s has spawned run %s as %s: %w", req.Parent, r.ID, r.Key, checkpoints.ErrConflict)
		case !r.Status.Final() && r != closing && !req.LinesUp(r.Concurrency):
			return c.view(r), fmt.Errorf("run %s of %s is open: %w", r.ID, r.Key, checkpoints.ErrConflict)
		}
	}
	return checkpoints.Run{}, nil
}

// concurrent returns what is in a start's way: the oldest open run of its
// concurrency key that is not queued, and those that are; nothing when an
// ancestor holds the key.
func (c *call) concurrent(req checkpoints.StartReq, closing, promoted *run) (active *run, queued []*run) {
	if req.Concurrency == "" {
		return nil, nil
	}
	for id := req.Parent; id != ""; {
		r, ok := c.runs[id]
		if !ok {
			break
		}
		if r.Concurrency == req.Concurrency && !r.Status.Final() {
			return nil, nil
		}
		id = r.Parent
	}
	for _, r := range c.order {
		switch {
		case r.Concurrency != req.Concurrency || r.Status.Final() || r == closing:
		case r.Status == checkpoints.Queued && r != promoted:
			queued = append(queued, r)
		case active == nil:
			active = r
		}
	}
	return active, queued
}

// supersede cancels the runs that are queued before a newer one.
func (c *call) supersede(req checkpoints.StartReq, closing, promoted *run, by string) {
	_, queued := c.concurrent(req, closing, promoted)
	for _, r := range queued {
		r.end(checkpoints.ReplacedBy(by), c.now)
		c.wake(r)
	}
}

// heir is the run that becomes Ready when closing is final, or nil.
func (c *call) heir(closing *run) (oldest *run) {
	if closing.Concurrency == "" {
		return nil
	}
	for _, r := range c.order {
		switch {
		case r.Concurrency != closing.Concurrency || r.Status.Final() || r == closing:
		case r.Status != checkpoints.Queued:
			return nil // another has the key still
		case oldest == nil:
			oldest = r
		}
	}
	return oldest
}
