package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// openRuns selects the runs of a concurrency key that are not final.
const openRuns = ` FROM runs WHERE concurrency = ? AND concurrency <> '' AND final_at = 0 `

// admit says as what a run starts, given the other open runs of its
// concurrency key, and which it replaces. With ErrConflict it returns the run
// in the way.
func (t *tx) admit(req checkpoints.StartReq) (s checkpoints.Status, replaces string, blocker checkpoints.Run, err error) {
	if req.Concurrency == "" {
		return checkpoints.Ready, "", blocker, nil
	}
	free, err := t.exists(`WITH RECURSIVE up (id) AS (
			SELECT ?1 UNION SELECT r.parent FROM runs r JOIN up ON r.id = up.id WHERE r.parent <> '')
		SELECT 1 FROM runs r JOIN up ON r.id = up.id
		WHERE r.concurrency = ?2 AND r.final_at = 0`, req.Parent, req.Concurrency)
	if err != nil {
		return "", "", blocker, fmt.Errorf("looking for an ancestor with concurrency key %s: %w", req.Concurrency, err)
	}
	if free {
		return checkpoints.Ready, "", blocker, nil
	}
	var first string
	var queued bool
	err = t.row(`SELECT id, status = 'queued'`+openRuns+`ORDER BY status = 'queued', n LIMIT 1`, req.Concurrency).Scan(&first, &queued)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return checkpoints.Ready, "", blocker, nil
	case err != nil:
		return "", "", blocker, fmt.Errorf("looking for runs of concurrency key %s: %w", req.Concurrency, err)
	case req.OnConflict == checkpoints.OnConflictReject:
		if blocker, err = getRun(t.ctx, t, first); err == nil {
			err = fmt.Errorf("run %s of concurrency key %s is open: %w", first, req.Concurrency, checkpoints.ErrConflict)
		}
		return "", "", blocker, err
	case req.OnConflict == checkpoints.OnConflictReplace && !queued:
		replaces = first
	}
	return checkpoints.Queued, replaces, blocker, nil
}

// supersede cancels the runs that are queued before a newer one.
func (t *tx) supersede(concurrency, by string) error {
	older, err := collect(t.ctx, t, scanToken, `SELECT 'run', id, epoch`+openRuns+`AND status = 'queued' ORDER BY n`, concurrency)
	if err != nil {
		return fmt.Errorf("looking for queued runs of concurrency key %s: %w", concurrency, err)
	}
	for _, q := range older {
		if err := t.end(q.ID, checkpoints.ReplacedBy(by)); err != nil {
			return fmt.Errorf("cancelling the queued run %s: %w", q.ID, err)
		}
		if err := t.leave(q.ID, position{epoch: q.Epoch}, checkpoints.Ending); err != nil {
			return fmt.Errorf("cancelling the queued run %s: %w", q.ID, err)
		}
	}
	return nil
}

// promote makes the oldest queued run of a concurrency key Ready when no
// other has the key any more. Its token is the caller's to give out.
func (t *tx) promote(concurrency string) (id string, epoch int64, err error) {
	if concurrency == "" {
		return "", 0, nil
	}
	var queued bool
	err = t.row(`SELECT id, epoch, status = 'queued'`+openRuns+`ORDER BY status = 'queued', n LIMIT 1`, concurrency).Scan(&id, &epoch, &queued)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && !queued:
		return "", 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("looking for queued runs of concurrency key %s: %w", concurrency, err)
	}
	err = t.exec1(`UPDATE runs SET status = 'ready', token_at = ?1, updated_at = ?1 WHERE id = ?2`, t.now, id)
	if err != nil {
		return "", 0, fmt.Errorf("giving run %s its turn: %w", id, err)
	}
	return id, epoch, nil
}
