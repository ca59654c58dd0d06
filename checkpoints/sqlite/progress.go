package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

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
