package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Start implements checkpoints.Runs.
func (s *Store) Start(ctx context.Context, req checkpoints.StartReq) (out checkpoints.Run, err error) {
	err = s.write(ctx, func(t *tx) error {
		out, err = t.start(req)
		return err
	})
	return out, err
}

func (t *tx) start(req checkpoints.StartReq) (checkpoints.Run, error) {
	req, err := req.Normalize()
	if err != nil {
		return checkpoints.Run{}, err
	}
	if r, err := t.conflict(req); err != nil {
		return r, err
	}
	definition, err := t.define(req.Definition)
	if err != nil {
		return checkpoints.Run{}, fmt.Errorf("storing the definition of %s: %w", req.Flow, err)
	}
	if req.Actions == nil {
		req.Actions = map[string]string{}
	}
	actions, err := json.Marshal(req.Actions)
	if err != nil {
		return checkpoints.Run{}, err
	}
	id := checkpoints.NewID(t.at)
	if req.Lineage == "" {
		req.Lineage = id
	}
	if req.Trigger != "" {
		if err := t.exec1(`INSERT INTO triggers (trigger_key, run_id) VALUES (?, ?)`, req.Trigger, id); err != nil {
			return checkpoints.Run{}, fmt.Errorf("starting a run of %s: %w", req.Key, err)
		}
	}
	err = t.exec1(`INSERT INTO runs (id, key, trigger_key, lineage, repo, repo_folded, issue, phase, flow, round,
			status, epoch, next, state, definition_id, definition_hash, actions, token_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'ready', 1, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, req.Key, req.Trigger, req.Lineage, req.Repo, checkpoints.FoldScope(req.Repo), req.Issue, req.Phase, req.Flow, req.Round,
		req.Entry, string(req.State), definition, req.DefinitionHash, string(actions), t.now, t.now, t.now)
	if err != nil {
		return checkpoints.Run{}, fmt.Errorf("starting a run of %s: %w", req.Key, err)
	}
	t.wake(id, 1)
	return getRun(t.ctx, t, id)
}

// conflict returns the run that stands in the way, with ErrConflict.
func (t *tx) conflict(req checkpoints.StartReq) (checkpoints.Run, error) {
	var id string
	if req.Trigger != "" {
		err := t.row(`SELECT run_id FROM triggers WHERE trigger_key = ?`, req.Trigger).Scan(&id)
		if err == nil {
			r, err := getRun(t.ctx, t, id)
			if errors.Is(err, checkpoints.ErrNotFound) { // pruned
				r = checkpoints.Run{ID: id, Key: req.Key, Trigger: req.Trigger}
			} else if err != nil {
				return r, err
			}
			return r, fmt.Errorf("trigger %s has started run %s: %w", req.Trigger, id, checkpoints.ErrConflict)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return checkpoints.Run{}, err
		}
	}
	err := t.row(`SELECT id FROM runs WHERE key = ? AND status NOT IN ('done', 'failed', 'cancelled')`, req.Key).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoints.Run{}, nil
	}
	if err != nil {
		return checkpoints.Run{}, err
	}
	r, err := getRun(t.ctx, t, id)
	if err != nil {
		return r, err
	}
	return r, fmt.Errorf("run %s of %s is open: %w", id, req.Key, checkpoints.ErrConflict)
}

// define stores a definition once and returns its id.
func (t *tx) define(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	id := hex.EncodeToString(sum[:])
	if content == nil {
		content = []byte{}
	}
	_, err := t.exec(`INSERT INTO definitions (id, content) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`, id, content)
	return id, err
}

// Get implements checkpoints.Runs.
func (s *Store) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	return getRun(ctx, s.reads, id)
}

// List implements checkpoints.Runs.
func (s *Store) List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	where, args := []string{"1"}, []any{}
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
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
	if n := len(f.Statuses); n > 0 {
		values := make([]any, n)
		for i, s := range f.Statuses {
			values[i] = s
		}
		add("r.status IN (?"+strings.Repeat(", ?", n-1)+")", values...)
	}
	args = append(args, f.Limit)
	runs, err := collect(ctx, s.reads, scanRun,
		selectRun+` WHERE `+strings.Join(where, " AND ")+` ORDER BY r.created_at DESC, r.n DESC LIMIT ?`, args...)
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	return runs, nil
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

// Prune implements checkpoints.Runs. What the runs cost and their triggers
// stay: the limits of an issue and of a day must not be refilled, and a
// trigger is used for ever.
func (s *Store) Prune(ctx context.Context, ret checkpoints.Retention) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		gone, err := t.exec(`DELETE FROM runs WHERE status IN ('done', 'failed', 'cancelled') AND updated_at < ?`, ret.Before.UnixMicro())
		if err != nil {
			return fmt.Errorf("deleting final runs: %w", err)
		}
		n = int(gone)
		_, err = t.exec(`DELETE FROM definitions WHERE NOT EXISTS (SELECT 1 FROM runs WHERE definition_id = definitions.id)`)
		if err != nil {
			return fmt.Errorf("deleting unused definitions: %w", err)
		}
		return nil
	})
	return n, err
}
