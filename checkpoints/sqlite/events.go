package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Deliver implements checkpoints.Runs.
func (s *Store) Deliver(ctx context.Context, id string, e checkpoints.Event) (fresh bool, err error) {
	if err := e.Validate(); err != nil {
		return false, err
	}
	err = s.write(ctx, func(t *tx) error {
		p, err := t.position(id)
		if err != nil {
			return err
		}
		if e.At.IsZero() {
			e.At = t.at
		}
		n, err := t.exec(`INSERT INTO events (run_id, key, kind, data, at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (run_id, key) DO NOTHING`, id, e.Key, e.Kind, string(e.Data), micros(e.At))
		if err != nil {
			return fmt.Errorf("delivering event %s to run %s: %w", e.Key, id, err)
		}
		if fresh = n == 1; !fresh {
			return nil
		}
		if p.status == checkpoints.Waiting && p.waitEvent == e.Kind {
			return t.leave(id, p, p.rest())
		}
		return nil
	})
	return fresh && err == nil, err
}

// Pending implements checkpoints.Events.
func (s *Store) Pending(ctx context.Context, runID, kind string) (e checkpoints.Event, err error) {
	var data string
	var at int64
	err = s.reads.QueryRowContext(ctx, `SELECT key, kind, data, at FROM events
		WHERE run_id = ? AND kind = ? AND consumed = 0 ORDER BY n LIMIT 1`, runID, kind).
		Scan(&e.Key, &e.Kind, &data, &at)
	if err != nil {
		return e, notFound(err, "pending %s event of run %s", kind, runID)
	}
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	e.At = fromMicros(at)
	return e, nil
}

// consume marks an event as used by a commit.
func (t *tx) consume(id, key string) error {
	var consumed bool
	err := t.row(`SELECT consumed FROM events WHERE run_id = ? AND key = ?`, id, key).Scan(&consumed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("event %s of run %s: %w", key, id, checkpoints.ErrNotFound)
	case err != nil:
		return fmt.Errorf("reading event %s of run %s: %w", key, id, err)
	case consumed:
		return fmt.Errorf("event %s of run %s was consumed before: %w", key, id, checkpoints.ErrConflict)
	}
	return t.exec1(`UPDATE events SET consumed = 1 WHERE run_id = ? AND key = ?`, id, key)
}
