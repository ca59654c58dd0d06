package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// pruned is how many rows a transaction of Prune deletes at most: others
// write in between.
const pruned = 500

// Prune implements checkpoints.Runs. What the runs cost, their triggers and
// the effects of their issues stay: the limits of an issue and of a day must
// not be refilled, and a trigger is used for ever.
func (s *Store) Prune(ctx context.Context, ret checkpoints.Retention) (n int, err error) {
	before := ret.Before.UnixMicro()
	kept := row{at: math.MaxInt64}
	if ret.Keep > 0 {
		if kept, err = s.oldestKept(ctx, ret.Keep); err != nil {
			return 0, err
		}
	}
	for more := true; more; {
		var gone int
		err := s.write(ctx, func(t *tx) (err error) {
			gone, err = t.deleteRuns(before, kept)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("deleting final runs: %w", err)
		}
		n, more = n+gone, gone > 0
	}
	_, err = s.deleteAll(ctx, `DELETE FROM inbox WHERE n IN (SELECT n FROM inbox
		WHERE decision <> '' AND decided_at < ? LIMIT ?)`, before, pruned)
	if err != nil {
		return n, fmt.Errorf("deleting decided inbox rows: %w", err)
	}
	err = s.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM definitions WHERE NOT EXISTS (SELECT 1 FROM runs WHERE definition_id = definitions.id)
			AND NOT EXISTS (SELECT 1 FROM flow_versions WHERE definition_id = definitions.id)`)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("deleting unused definitions: %w", err)
	}
	return n, nil
}

// over is a run that may go.
type over struct {
	n  int64
	id string
}

// deleteRuns deletes some of the runs that may go, their nodes and effects; all
// else that hangs on them goes by itself. Children go when their parents have
// gone.
func (t *tx) deleteRuns(before int64, kept row) (n int, err error) {
	scan := func(s scanner) (r over, err error) {
		err = s.Scan(&r.n, &r.id)
		return r, err
	}
	gone, err := collect(t.ctx, t, scan, `SELECT n, id FROM runs
		WHERE final_at > 0 AND final_at < ?1 AND (parent <> '' OR (final_at, n) < (?2, ?3))
			AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.id = runs.parent) LIMIT ?4`, before, kept.at, kept.n, pruned)
	if err != nil {
		return 0, err
	}
	for _, run := range gone {
		_, err := t.exec(`DELETE FROM history WHERE n IN (WITH RECURSIVE chain (n) AS (SELECT last FROM runs WHERE n = ?`+chain+`
			SELECT n FROM chain)`, run.n)
		if err != nil {
			return 0, err
		}
		for _, prefix := range checkpoints.EffectsOf(run.id) {
			// All keys with the prefix, which ends with a slash: a range of the
			// primary key.
			if _, err := t.exec(`DELETE FROM effects WHERE key >= ? AND key < ?`, prefix, strings.TrimSuffix(prefix, "/")+"0"); err != nil {
				return 0, err
			}
		}
		if err := t.exec1(`DELETE FROM runs WHERE n = ?`, run.n); err != nil {
			return 0, err
		}
	}
	return len(gone), nil
}

// row is a run's place in the order of ends.
type row struct{ at, n int64 }

// oldestKept is the oldest of the newest final runs that stay; without one,
// all stay.
func (s *Store) oldestKept(ctx context.Context, keep int) (r row, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT final_at, n FROM runs WHERE final_at > 0 AND parent = ''
		ORDER BY final_at DESC, n DESC LIMIT 1 OFFSET ?`, keep-1).Scan(&r.at, &r.n)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, explain(fmt.Errorf("finding the newest final runs: %w", err))
	}
	return r, nil
}

// deleteAll repeats a statement, each time in a transaction of its own, until
// it deletes nothing.
func (s *Store) deleteAll(ctx context.Context, query string, args ...any) (n int, err error) {
	for gone := int64(1); gone > 0; n += int(gone) {
		err := s.write(ctx, func(t *tx) (err error) {
			gone, err = t.exec(query, args...)
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Compact gives the room that deleted rows have left back to the file system,
// and returns by how many bytes the file has shrunk. Until it is done nobody
// else can write, and the disk needs room for a second copy of what is left.
// It is for the only process on the file, rarely: later rows fill the room as
// well.
func (s *Store) Compact(ctx context.Context) (freed int64, err error) {
	before, err := s.pages(ctx)
	if err != nil {
		return 0, err
	}
	for _, q := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := s.writes.ExecContext(ctx, q); err != nil {
			return 0, explain(fmt.Errorf("compacting %s: %w", s.path, err))
		}
	}
	after, err := s.pages(ctx)
	return before - after, err
}

// pages is the size of the file without its log, in bytes.
func (s *Store) pages(ctx context.Context) (bytes int64, err error) {
	err = s.writes.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes)
	if err != nil {
		return 0, explain(fmt.Errorf("measuring %s: %w", s.path, err))
	}
	return bytes, nil
}
