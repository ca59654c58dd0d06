package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// PutBranch implements checkpoints.Progress.
func (s *Store) PutBranch(ctx context.Context, l checkpoints.Lease, b checkpoints.BranchRecord) error {
	usage := encodeUsage(b.Usage)
	return s.write(ctx, func(t *tx) error {
		p, err := t.held(l)
		if err != nil {
			return err
		}
		if err := b.Validate(); err != nil {
			return err
		}
		_, err = t.exec(`INSERT INTO branches (run, fanout, visit, branch, outcome, delta, note, attempt, usage, began_at, took)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, fanout, visit, branch) DO NOTHING`,
			p.n, b.Fanout, b.Visit, b.Branch, b.Outcome, string(b.Delta), b.Note, b.Attempt, usage, micros(b.Began), b.Took.Microseconds())
		if err != nil {
			return fmt.Errorf("storing branch %s of fanout %s of run %s: %w", b.Branch, b.Fanout, l.RunID, err)
		}
		return nil
	})
}

// Branches implements checkpoints.Runs.
func (s *Store) Branches(ctx context.Context, runID string) ([]checkpoints.BranchRecord, error) {
	n, err := number(ctx, s.reads, runID)
	if err != nil {
		return nil, err
	}
	branches, err := collect(ctx, s.reads, scanBranch, `SELECT fanout, visit, branch, outcome, delta, note, attempt, usage, began_at, took
		FROM branches WHERE run = ? ORDER BY n`, n)
	if err != nil {
		return nil, fmt.Errorf("reading the branches of run %s: %w", runID, err)
	}
	return branches, nil
}

func scanBranch(row scanner) (b checkpoints.BranchRecord, err error) {
	var delta, usage string
	var began, took int64
	err = row.Scan(&b.Fanout, &b.Visit, &b.Branch, &b.Outcome, &delta, &b.Note, &b.Attempt, &usage, &began, &took)
	if err != nil {
		return b, err
	}
	if delta != "" {
		b.Delta = json.RawMessage(delta)
	}
	b.Began, b.Took = fromMicros(began), time.Duration(took)*time.Microsecond
	if err := decode(usage, &b.Usage); err != nil {
		return b, fmt.Errorf("branch %s of %s: column usage is damaged: %w", b.Branch, b.Fanout, err)
	}
	return b, nil
}
