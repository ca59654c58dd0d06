package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// appendNode appends a node to the history of a run that is where the lease
// and the commit say, and touches nothing otherwise.
const appendNode = `INSERT INTO history (run, prev, seq, node, kind, visit, attempt, outcome, next, delta, guards, event_key, note, usage, began_at, took, input_hash)
	SELECT n, last, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
	FROM runs WHERE n = ? AND id = ? AND epoch = ? AND owner = ? AND owner <> '' AND seq = ? AND ended = 0`

// advance moves a run behind that node, and touches no index. What wait_event
// and wait_until say counts for waiting runs only, so they may stay.
const advance = `UPDATE runs SET last = ?, seq = ?, node = ?, next = ?, state = ?, visits = ?, starts = 0, wait = '', updated_at = ? WHERE n = ?`

// Commit implements checkpoints.Progress. As long as nothing is wrong it is
// two statements; only a commit that is refused reads why.
func (s *Store) Commit(ctx context.Context, l checkpoints.Lease, c checkpoints.Commit) error {
	r, err := encodeRecord(c.Record)
	if err != nil {
		return fmt.Errorf("encoding node %s of run %s: %w", c.Record.Node, l.RunID, err)
	}
	visits, err := encodeVisits(c.Visits)
	if err != nil {
		return fmt.Errorf("encoding the visits of run %s: %w", l.RunID, err)
	}
	invalid := c.Validate()
	return s.write(ctx, func(t *tx) error {
		if invalid != nil {
			if _, err := t.held(l); err != nil {
				return err
			}
			return invalid
		}
		n, known := s.numbers.get(l.RunID)
		if !known {
			p, err := t.held(l)
			if err != nil {
				return err
			}
			n = p.n
		}
		last, err := t.record(n, l, c, r)
		if err != nil {
			return fmt.Errorf("recording node %s of run %s: %w", c.Record.Node, l.RunID, err)
		}
		if last == 0 {
			return t.refusal(l, c)
		}
		if c.EventKey != "" {
			if err := t.consume(l.RunID, c.EventKey); err != nil {
				return err
			}
		}
		err = t.exec1(advance, last, c.Seq, c.Record.Node, c.Next, string(c.State), visits, t.now, n)
		if err != nil {
			return fmt.Errorf("committing node %s of run %s: %w", c.Record.Node, l.RunID, err)
		}
		switch {
		case c.Ending != nil:
			return t.end(l.RunID, *c.Ending)
		case c.Park != nil:
			return t.park(l.RunID, position{epoch: l.Fence}, *c.Park)
		}
		return nil
	})
}

// refusal says why a run did not advance.
func (t *tx) refusal(l checkpoints.Lease, c checkpoints.Commit) error {
	p, err := t.held(l)
	switch {
	case err != nil:
		return err
	case p.ended:
		return fmt.Errorf("run %s has ended: %w", l.RunID, checkpoints.ErrConflict)
	default:
		return fmt.Errorf("run %s: commit %d after %d: %w", l.RunID, c.Seq, p.seq, checkpoints.ErrConflict)
	}
}

// encoded are the parts of a record that are kept as JSON; "" is nothing.
type encoded struct{ guards, usage string }

func encodeRecord(r checkpoints.NodeRecord) (e encoded, err error) {
	if len(r.Guards) > 0 {
		text, err := json.Marshal(r.Guards)
		if err != nil {
			return e, err
		}
		e.guards = string(text)
	}
	e.usage = encodeUsage(r.Usage)
	return e, nil
}

// record appends a node to the history of run n and returns its place, 0 when
// the run is not where it should be.
func (t *tx) record(n int64, l checkpoints.Lease, c checkpoints.Commit, e encoded) (last int64, err error) {
	r := c.Record
	res, err := t.ExecContext(t.ctx, appendNode,
		c.Seq, r.Node, r.Kind, r.Visit, r.Attempt, r.Outcome, c.Next, string(r.Delta), e.guards,
		c.EventKey, r.Note, e.usage, micros(r.Began), r.Took.Microseconds(), r.InputHash,
		n, l.RunID, l.Fence, l.Owner, c.Seq-1)
	if err != nil {
		return 0, err
	}
	if added, err := res.RowsAffected(); err != nil || added == 0 {
		return 0, err
	}
	return res.LastInsertId()
}
