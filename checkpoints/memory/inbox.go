package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

type inboxRow struct {
	checkpoints.InboxEvent
	tokenAt   time.Time
	decidedAt time.Time
}

func (r *inboxRow) view() checkpoints.InboxEvent {
	v := r.InboxEvent
	v.Body = bytes.Clone(r.Body)
	return v
}

// Receive implements checkpoints.Inbox. An event without an id gets one.
func (s *Store) Receive(ctx context.Context, e checkpoints.InboxEvent) (fresh bool, err error) {
	err = s.do(ctx, func(c *call) error {
		for _, known := range c.inbox {
			if known.ID == e.ID || e.Delivery != "" && known.Delivery == e.Delivery || e.Key != "" && known.Key == e.Key {
				return nil
			}
		}
		if e.ID == "" {
			e.ID = checkpoints.NewID(c.now)
		}
		if e.At.IsZero() {
			e.At = c.now
		}
		e.At, e.Body = e.At.UTC().Truncate(time.Microsecond), bytes.Clone(e.Body)
		e.Decision, e.Explanation = "", ""
		c.inbox = append(c.inbox, &inboxRow{InboxEvent: e, tokenAt: c.now})
		c.tokens = append(c.tokens, queue.Token{Kind: queue.Event, ID: e.ID})
		fresh = true
		return nil
	})
	return fresh, err
}

func (c *call) received(id string) (*inboxRow, error) {
	for _, row := range c.inbox {
		if row.ID == id {
			return row, nil
		}
	}
	return nil, fmt.Errorf("inbox event %s: %w", id, checkpoints.ErrNotFound)
}

// Received implements checkpoints.Inbox.
func (s *Store) Received(ctx context.Context, id string) (out checkpoints.InboxEvent, err error) {
	err = s.do(ctx, func(c *call) error {
		row, err := c.received(id)
		if err == nil {
			out = row.view()
		}
		return err
	})
	return out, err
}

// Decided implements checkpoints.Inbox. A later decision replaces the first.
func (s *Store) Decided(ctx context.Context, id, decision, explanation string) error {
	return s.do(ctx, func(c *call) error {
		if decision == "" {
			return errors.New("checkpoints: an empty decision would leave the event pending")
		}
		row, err := c.received(id)
		if err == nil {
			row.Decision, row.Explanation, row.decidedAt = decision, explanation, c.now
		}
		return err
	})
}

// Inbox implements checkpoints.Inbox; a limit of 0 means 100.
func (s *Store) Inbox(ctx context.Context, limit int) (out []checkpoints.InboxEvent, err error) {
	if limit <= 0 {
		limit = 100
	}
	err = s.do(ctx, func(c *call) error {
		for _, row := range slices.Backward(c.inbox) {
			if len(out) == limit {
				break
			}
			out = append(out, row.view())
		}
		return nil
	})
	return out, err
}

// Cursor implements checkpoints.Inbox.
func (s *Store) Cursor(ctx context.Context, name string) (value string, err error) {
	err = s.do(ctx, func(c *call) error {
		value = c.cursors[name]
		return nil
	})
	return value, err
}

// SetCursor implements checkpoints.Inbox.
func (s *Store) SetCursor(ctx context.Context, name, value string) error {
	return s.do(ctx, func(c *call) error {
		c.cursors[name] = value
		return nil
	})
}
