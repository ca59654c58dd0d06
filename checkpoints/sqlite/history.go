package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// chain selects the places of a run's nodes from the last one back; what its
// first SELECT is, is the caller's.
const chain = ` UNION SELECT h.prev FROM chain c JOIN history h ON h.n = c.n WHERE h.prev > 0) `

// History implements checkpoints.Runs.
func (s *Store) History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error) {
	records, err := collect(ctx, s.reads, scanRecord, `WITH RECURSIVE chain (n) AS (SELECT last FROM runs WHERE id = ?`+chain+`
		SELECT seq, node, kind, visit, attempt, outcome, next, delta, guards,
			event_key, note, usage, began_at, took, input_hash FROM history h JOIN chain c ON h.n = c.n WHERE seq > 0 ORDER BY seq`, id)
	if err != nil {
		return nil, fmt.Errorf("reading the history of run %s: %w", id, err)
	}
	if len(records) == 0 {
		_, err = number(ctx, s.reads, id) // nothing done, or no such run
		return nil, err
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
	if err := decode(guards, &r.Guards); err != nil {
		return r, fmt.Errorf("node %d: column guards is damaged: %w", r.Seq, err)
	}
	if err := decode(usage, &r.Usage); err != nil {
		return r, fmt.Errorf("node %d: column usage is damaged: %w", r.Seq, err)
	}
	return r, nil
}
