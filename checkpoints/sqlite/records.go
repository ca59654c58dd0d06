package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// number is the number of a run's row.
func number(ctx context.Context, q querier, id string) (n int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT n FROM runs WHERE id = ?`, id).Scan(&n)
	return n, notFound(err, "run %s", id)
}

// Versions implements checkpoints.Records.
func (s *Store) Versions(ctx context.Context, flow string) ([]checkpoints.FlowVersion, error) {
	versions, err := collect(ctx, s.reads, scanVersion, `SELECT v.flow, v.n, v.hash, d.content, v.first_at
		FROM flow_versions v JOIN definitions d ON d.id = v.definition_id WHERE v.flow = ? ORDER BY v.n`, flow)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of flow %s: %w", flow, err)
	}
	return versions, nil
}

func scanVersion(row scanner) (v checkpoints.FlowVersion, err error) {
	var first int64
	err = row.Scan(&v.Flow, &v.N, &v.Hash, &v.Definition, &first)
	if len(v.Definition) == 0 {
		v.Definition = nil
	}
	v.First = fromMicros(first)
	return v, err
}

// AddAudit implements checkpoints.Records.
func (s *Store) AddAudit(ctx context.Context, a checkpoints.AuditLine) error {
	return s.write(ctx, func(t *tx) error {
		n, err := number(t.ctx, t, a.RunID)
		if err != nil {
			return err
		}
		return t.audit(n, a)
	})
}

func (t *tx) audit(run int64, a checkpoints.AuditLine) error {
	if a.At.IsZero() {
		a.At = t.at
	}
	err := t.exec1(`INSERT INTO audits (run, by, what, why, at) VALUES (?, ?, ?, ?, ?)`, run, a.By, a.What, a.Why, micros(a.At))
	if err != nil {
		return fmt.Errorf("recording %s of run %s: %w", a.What, a.RunID, err)
	}
	return nil
}

// Audits implements checkpoints.Records.
func (s *Store) Audits(ctx context.Context, runID string) ([]checkpoints.AuditLine, error) {
	n, err := number(ctx, s.reads, runID)
	if err != nil {
		return nil, err
	}
	lines, err := collect(ctx, s.reads, func(row scanner) (a checkpoints.AuditLine, err error) {
		var at int64
		err = row.Scan(&a.By, &a.What, &a.Why, &at)
		a.RunID, a.At = runID, fromMicros(at)
		return a, err
	}, `SELECT by, what, why, at FROM audits WHERE run = ? ORDER BY n`, n)
	if err != nil {
		return nil, fmt.Errorf("reading the audit lines of run %s: %w", runID, err)
	}
	return lines, nil
}

// Accept implements checkpoints.Runs.
func (s *Store) Accept(ctx context.Context, runID string, actions map[string]string, by string) error {
	if actions == nil {
		actions = map[string]string{}
	}
	text, err := json.Marshal(actions)
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		p, err := t.position(runID)
		switch {
		case err != nil:
			return err
		case p.status.Final() || p.ended:
			return fmt.Errorf("run %s is over already (%s): %w", runID, p.status, checkpoints.ErrConflict)
		case p.owner != "":
			return fmt.Errorf("run %s is held by %s: %w", runID, p.owner, checkpoints.ErrBusy)
		}
		var before string
		if err := t.row(`SELECT actions FROM runs WHERE id = ?`, runID).Scan(&before); err != nil {
			return fmt.Errorf("reading the actions of run %s: %w", runID, err)
		}
		var from map[string]string
		if err := decode(before, &from); err != nil {
			return fmt.Errorf("run %s: column actions is damaged: %w", runID, err)
		}
		if err := t.exec1(`UPDATE runs SET actions = ?, updated_at = ? WHERE id = ?`, string(text), t.now, runID); err != nil {
			return fmt.Errorf("accepting the drift of run %s: %w", runID, err)
		}
		return t.audit(p.n, checkpoints.AuditLine{
			RunID: runID, By: by, What: checkpoints.AcceptDrift, Why: checkpoints.Drift(from, actions),
		})
	})
}
