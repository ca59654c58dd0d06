package memory

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Deliver implements checkpoints.Runs.
func (s *Store) Deliver(ctx context.Context, id string, e checkpoints.Event) (fresh bool, err error) {
	err = s.do(ctx, func(c *call) error {
		if err := e.Validate(); err != nil {
			return err
		}
		r, err := c.find(id)
		if err != nil {
			return err
		}
		for _, known := range r.events {
			if known.Key == e.Key {
				return nil
			}
		}
		fresh = true
		if e.At.IsZero() {
			e.At = c.now
		}
		e.At, e.Data = e.At.UTC().Truncate(time.Microsecond), bytes.Clone(e.Data)
		r.events = append(r.events, &event{Event: e})
		if r.Status == checkpoints.Waiting && r.Wait.Awaits(e.Kind) {
			r.Status, r.Updated = r.rest(), c.now
			c.wake(r)
		}
		return nil
	})
	return fresh, err
}

// Pending implements checkpoints.Events.
func (s *Store) Pending(ctx context.Context, runID, kind string) (out checkpoints.Event, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.find(runID)
		if err != nil {
			return err
		}
		e := r.pending(kind)
		if e == nil {
			return fmt.Errorf("pending %s event of run %s: %w", kind, runID, checkpoints.ErrNotFound)
		}
		out = e.Event
		out.Data = bytes.Clone(e.Data)
		return nil
	})
	return out, err
}

// pending is the oldest unconsumed event of a kind, or nil.
func (r *run) pending(kind string) *event {
	for _, e := range r.events {
		if e.Kind == kind && !e.consumed {
			return e
		}
	}
	return nil
}

// unconsumed is the event with a key that no commit has consumed.
func (r *run) unconsumed(key string) (*event, error) {
	for _, e := range r.events {
		switch {
		case e.Key != key:
		case e.consumed:
			return nil, fmt.Errorf("event %s of run %s was consumed before: %w", key, r.ID, checkpoints.ErrConflict)
		default:
			return e, nil
		}
	}
	return nil, fmt.Errorf("event %s of run %s: %w", key, r.ID, checkpoints.ErrNotFound)
}
