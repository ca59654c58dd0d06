package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Get implements checkpoints.Runs.
func (s *Store) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	return getRun(ctx, s.reads, id)
}

// List implements checkpoints.Runs.
func (s *Store) List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	where, args := selected(f)
	runs, err := collect(ctx, s.reads.DB, scanRun, // as text: each filter is another
		selectRun+where+` ORDER BY r.created_at DESC, r.n DESC LIMIT ?`, append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	return runs, nil
}

// IDs implements checkpoints.Runs.
func (s *Store) IDs(ctx context.Context, f checkpoints.Filter) ([]string, error) {
	scan := func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}
	where, args := selected(f)
	ids, err := collect(ctx, s.reads.DB, scan, `SELECT r.id FROM runs r`+where+` ORDER BY r.created_at, r.n`, args...)
	if err != nil {
		return nil, fmt.Errorf("listing the ids of runs: %w", err)
	}
	return ids, nil
}

// selected is the condition of a filter, but for its limit.
func selected(f checkpoints.Filter) (where string, args []any) {
	conditions := []string{"1"}
	add := func(condition string, values ...any) {
		conditions, args = append(conditions, condition), append(args, values...)
	}
	if f.Repo != "" {
		add("r.repo_folded = ?", checkpoints.FoldScope(f.Repo))
	}
	if f.Issue != 0 {
		add("r.issue = ?", f.Issue)
	}
	if f.Phase != "" {
		add("r.phase = ?", f.Phase)
	}
	if f.Lineage != "" {
		add("r.lineage = ?", f.Lineage)
	}
	if f.Parent != "" {
		add("r.parent = ? AND r.parent <> ''", f.Parent) // as the index says
	}
	if f.Roots {
		add("r.parent = ''")
	}
	if n := len(f.Statuses); n > 0 {
		values := make([]any, n)
		for i, s := range f.Statuses {
			values[i] = s
		}
		add("r.status IN (?"+strings.Repeat(", ?", n-1)+")", values...)
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Wake implements checkpoints.Runs.
func (s *Store) Wake(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.position(id)
		if err != nil {
			return err
		}
		if p.status != checkpoints.Halted {
			return fmt.Errorf("run %s is %s, not halted: %w", id, p.status, checkpoints.ErrConflict)
		}
		if !p.ended {
			if err := t.exec1(`UPDATE runs SET code = '', reason = '' WHERE id = ?`, id); err != nil {
				return fmt.Errorf("waking run %s: %w", id, err)
			}
		}
		return t.leave(id, p, p.rest())
	})
}

// Nudge implements checkpoints.Runs.
func (s *Store) Nudge(ctx context.Context, id string, since time.Time) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.position(id)
		if err != nil {
			return err
		}
		var raw string
		if err := t.row(`SELECT wait FROM runs WHERE id = ?`, id).Scan(&raw); err != nil {
			return fmt.Errorf("reading what run %s waits for: %w", id, err)
		}
		var wait *checkpoints.Wait
		if raw != "" {
			if err := json.Unmarshal([]byte(raw), &wait); err != nil {
				return fmt.Errorf("reading what run %s waits for: %w", id, err)
			}
		}
		if p.status != checkpoints.Waiting || !wait.Nudged(since) {
			return fmt.Errorf("run %s is %s and does not wait to look again since %s: %w", id, p.status, since, checkpoints.ErrConflict)
		}
		return t.leave(id, p, p.rest())
	})
}

// Cancel implements checkpoints.Runs.
func (s *Store) Cancel(ctx context.Context, id string, e checkpoints.Ended) error {
	return s.write(ctx, func(t *tx) error {
		p, err := t.position(id)
		switch {
		case err != nil:
			return err
		case p.status.Final() || p.ended:
			return fmt.Errorf("run %s is over already (%s): %w", id, p.status, checkpoints.ErrConflict)
		case p.owner != "":
			return fmt.Errorf("run %s is held by %s: %w", id, p.owner, checkpoints.ErrBusy)
		}
		if err := t.end(id, e); err != nil {
			return fmt.Errorf("cancelling run %s: %w", id, err)
		}
		return t.leave(id, p, checkpoints.Ending)
	})
}
