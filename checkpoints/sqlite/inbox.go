package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Receive implements checkpoints.Inbox. An event without an id gets one.
func (s *Store) Receive(ctx context.Context, e checkpoints.InboxEvent) (fresh bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		if e.ID == "" {
			e.ID = checkpoints.NewID(t.at)
		}
		if e.At.IsZero() {
			e.At = t.at
		}
		n, err := t.exec(`INSERT INTO inbox (id, delivery, key, kind, body, at, token_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			e.ID, e.Delivery, e.Key, e.Kind, string(e.Body), micros(e.At), t.now)
		if err != nil {
			return fmt.Errorf("storing inbox event %s: %w", e.ID, err)
		}
		if fresh = n == 1; fresh {
			t.tokens = append(t.tokens, queue.Token{Kind: queue.Event, ID: e.ID})
		}
		return nil
	})
	return fresh && err == nil, err
}

const selectInbox = `SELECT id, delivery, key, kind, body, at, decision, explanation FROM inbox `

func scanInbox(row scanner) (e checkpoints.InboxEvent, err error) {
	var body string
	var at int64
	err = row.Scan(&e.ID, &e.Delivery, &e.Key, &e.Kind, &body, &at, &e.Decision, &e.Explanation)
	if body != "" {
		e.Body = json.RawMessage(body)
	}
	e.At = fromMicros(at)
	return e, err
}

// Received implements checkpoints.Inbox.
func (s *Store) Received(ctx context.Context, id string) (checkpoints.InboxEvent, error) {
	e, err := scanInbox(s.reads.QueryRowContext(ctx, selectInbox+`WHERE id = ?`, id))
	if err != nil {
		return checkpoints.InboxEvent{}, notFound(err, "inbox event %s", id)
	}
	return e, nil
}

// Decided implements checkpoints.Inbox. A later decision replaces the first.
func (s *Store) Decided(ctx context.Context, id, decision, explanation string) error {
	if decision == "" {
		return errors.New("checkpoints: an empty decision would leave the event pending")
	}
	return s.write(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE inbox SET decision = ?, explanation = ?, decided_at = ? WHERE id = ?`, decision, explanation, t.now, id)
		if err != nil {
			return fmt.Errorf("recording the decision on inbox event %s: %w", id, err)
		}
		if n == 0 {
			return fmt.Errorf("inbox event %s: %w", id, checkpoints.ErrNotFound)
		}
		return nil
	})
}

// Inbox implements checkpoints.Inbox; a limit of 0 means 100.
func (s *Store) Inbox(ctx context.Context, limit int) ([]checkpoints.InboxEvent, error) {
	if limit <= 0 {
		limit = 100
	}
	rows, err := collect(ctx, s.reads, scanInbox, selectInbox+`ORDER BY n DESC LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("listing the inbox: %w", err)
	}
	return rows, nil
}

// Cursor implements checkpoints.Inbox.
func (s *Store) Cursor(ctx context.Context, name string) (value string, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, name).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", explain(fmt.Errorf("reading cursor %s: %w", name, err))
	}
	return value, nil
}

// SetCursor implements checkpoints.Inbox.
func (s *Store) SetCursor(ctx context.Context, name, value string) error {
	return s.write(ctx, func(t *tx) error {
		err := t.exec1(`INSERT INTO cursors (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
		if err != nil {
			return fmt.Errorf("setting cursor %s: %w", name, err)
		}
		return nil
	})
}
