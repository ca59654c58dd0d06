package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Commit implements checkpoints.Progress.
func (s *Store) Commit(ctx context.Context, l checkpoints.Lease, c checkpoints.Commit) error {
	if c.Visits == nil {
		c.Visits = map[string]int{}
	}
	visits, err := json.Marshal(c.Visits)
	if err != nil {
		return fmt.Errorf("encoding visits: %w", err)
	}
	return s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return err
		}
		if p.ended {
			return fmt.Errorf("run %s has ended: %w", l.RunID, checkpoints.ErrConflict)
		}
		if c.Seq != p.seq+1 {
			return fmt.Errorf("run %s: commit %d after %d: %w", l.RunID, c.Seq, p.seq, checkpoints.ErrConflict)
		}
		if c.EventKey != "" {
			if err := t.consume(l.RunID, c.EventKey); err != nil {
				return err
			}
		}
		err = t.exec1(`UPDATE runs SET seq = ?, node = ?, next = ?, state = ?, visits = ?, starts = 0,
			wait = '', wait_event = '', wait_until = 0, updated_at = ? WHERE id = ? AND epoch = ? AND seq = ?`,
			c.Seq, c.Record.Node, c.Next, string(c.State), string(visits), t.now, l.RunID, l.Fence, p.seq)
		if err != nil {
			return fmt.Errorf("committing node %s of run %s: %w", c.Record.Node, l.RunID, err)
		}
		if err := t.record(l.RunID, c); err != nil {
			return fmt.Errorf("recording node %s of run %s: %w", c.Record.Node, l.RunID, err)
		}
		switch {
		case c.Ending != nil:
			return t.end(l.RunID, *c.Ending)
		case c.Park != nil:
			return t.park(l.RunID, p, *c.Park)
		}
		return nil
	})
}

// record appends a node to the history.
func (t *tx) record(id string, c checkpoints.Commit) error {
	r := c.Record
	guards, err := json.Marshal(r.Guards)
	if err != nil {
		return err
	}
	usage, err := json.Marshal(r.Usage)
	if err != nil {
		return err
	}
	return t.exec1(`INSERT INTO nodes (run_id, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, c.Seq, r.Node, r.Kind, r.Visit, r.Attempt, r.Outcome, c.Next, string(r.Delta), string(guards),
		c.EventKey, r.Note, string(usage), micros(r.Began), r.Took.Microseconds(), r.InputHash)
}

// History implements checkpoints.Runs.
func (s *Store) History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error) {
	var one int
	if err := s.reads.QueryRowContext(ctx, `SELECT 1 FROM runs WHERE id = ?`, id).Scan(&one); err != nil {
		return nil, notFound(err, "run %s", id)
	}
	records, err := collect(ctx, s.reads, scanRecord, `SELECT seq, node, kind, visit, attempt, outcome, next, delta, guards,
		event_key, note, usage, began_at, took, input_hash FROM nodes WHERE run_id = ? ORDER BY seq`, id)
	if err != nil {
		return nil, fmt.Errorf("reading the history of run %s: %w", id, err)
	}
	return records, nil
}

func scanRecord(row scanner) (r checkpoints.NodeRecord, err error) {
	var delta, guards, usage string
	var began, took int64
	err = row.Scan(&r.Seq, &r.Node, &r.Kind, &r.Visit, &r.Attempt, &r.Outcome, &r.Next, &delta, &guards,
		&r.EventKey, &r.Note, &usage, &began, &took, &r.InputHash)
	if err != nil {
		return r, err
	}
	if delta != "" {
		r.Delta = json.RawMessage(delta)
	}
	r.Began, r.Took = fromMicros(began), time.Duration(took)*time.Microsecond
	if err := json.Unmarshal([]byte(guards), &r.Guards); err != nil {
		return r, fmt.Errorf("node %d: column guards is damaged: %w", r.Seq, err)
	}
	if err := json.Unmarshal([]byte(usage), &r.Usage); err != nil {
		return r, fmt.Errorf("node %d: column usage is damaged: %w", r.Seq, err)
	}
	return r, nil
}

// park makes a held run wait, or ready at once when the event is there.
func (t *tx) park(id string, p position, w checkpoints.Wait) error {
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encoding the wait of run %s: %w", id, err)
	}
	err = t.exec1(`UPDATE runs SET wait = ?, wait_event = ?, wait_until = ? WHERE id = ?`,
		string(text), w.Event, micros(w.Until), id)
	if err != nil {
		return fmt.Errorf("parking run %s: %w", id, err)
	}
	there, err := t.exists(`SELECT 1 FROM events WHERE run_id = ? AND kind = ? AND consumed = 0`, id, w.Event)
	if err != nil {
		return fmt.Errorf("parking run %s: %w", id, err)
	}
	if there {
		return t.leave(id, p, p.rest())
	}
	return t.leave(id, p, checkpoints.Waiting)
}

// Park implements checkpoints.Progress.
func (s *Store) Park(ctx context.Context, l checkpoints.Lease, w checkpoints.Wait) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		if err := t.exec1(`UPDATE runs SET starts = max(starts - 1, 0) WHERE id = ?`, l.RunID); err != nil {
			return fmt.Errorf("parking run %s: %w", l.RunID, err)
		}
		return t.park(l.RunID, p, w)
	})
}

// Halt implements checkpoints.Progress. A run whose flow is over keeps the
// code and the reason of its end.
func (s *Store) Halt(ctx context.Context, l checkpoints.Lease, code, reason string) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		if !p.ended {
			if err := t.exec1(`UPDATE runs SET code = ?, reason = ? WHERE id = ?`, code, reason, l.RunID); err != nil {
				return fmt.Errorf("halting run %s: %w", l.RunID, err)
			}
		}
		return t.leave(l.RunID, p, checkpoints.Halted)
	})
}

// End implements checkpoints.Progress.
func (s *Store) End(ctx context.Context, l checkpoints.Lease, e checkpoints.Ended) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.held(l); err != nil {
			return err
		}
		return t.end(l.RunID, e)
	})
}

// Finish implements checkpoints.Progress. When next is in conflict with
// another run, that run is returned with ErrConflict and nothing is changed.
func (s *Store) Finish(ctx context.Context, l checkpoints.Lease, final checkpoints.Status, next *checkpoints.StartReq) (out *checkpoints.Run, err error) {
	err = s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		if !final.Final() {
			return fmt.Errorf("finishing run %s: %q is no final status", l.RunID, final)
		}
		if !p.ended {
			return fmt.Errorf("finishing run %s, which is %s and not ending: %w", l.RunID, p.status, checkpoints.ErrConflict)
		}
		if err := t.leave(l.RunID, p, final); err != nil {
			return fmt.Errorf("finishing run %s: %w", l.RunID, err)
		}
		heir, epoch, err := t.promote(p.concurrency)
		if err != nil {
			return fmt.Errorf("finishing run %s: %w", l.RunID, err)
		}
		if next != nil {
			started, err := t.start(*next)
			if started.ID != "" {
				out = &started
			}
			if err != nil {
				return err
			}
		}
		if heir != "" {
			t.wake(heir, epoch)
		}
		return nil
	})
	return out, err
}
