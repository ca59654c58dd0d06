package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

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
	if r, err := t.known(req); err != nil {
		return r, err
	}
	status, replaces, blocker, err := t.admit(req)
	if err != nil {
		return blocker, err
	}
	id := checkpoints.NewID(t.at)
	if req.OnConflict == checkpoints.OnConflictReplace && status == checkpoints.Queued {
		if err := t.supersede(req.Concurrency, id); err != nil {
			return checkpoints.Run{}, err
		}
	}
	r := req.Begin(id, status, replaces, t.at)
	if req.Trigger != "" {
		if err := t.exec1(`INSERT INTO triggers (trigger_key, run_id) VALUES (?, ?)`, req.Trigger, id); err != nil {
			return checkpoints.Run{}, fmt.Errorf("starting a run of %s: %w", req.Key, err)
		}
	}
	if err := t.insert(r); err != nil {
		return checkpoints.Run{}, fmt.Errorf("starting a run of %s: %w", req.Key, err)
	}
	if status == checkpoints.Ready {
		t.wake(id, 1)
	}
	return r, nil
}

// insert writes the rows of a new run.
func (t *tx) insert(r checkpoints.Run) error {
	definition, err := t.define(r.Definition)
	if err != nil {
		return fmt.Errorf("storing the definition of %s: %w", r.Flow, err)
	}
	actions, err := json.Marshal(r.Actions)
	if err != nil {
		return err
	}
	res, err := t.ExecContext(t.ctx, `INSERT INTO runs (id, key, trigger_key, lineage, repo, repo_folded, issue, phase, flow, round,
			parent, parent_node, close, counted, forked, forked_at, mode, concurrency, on_conflict, replaces,
			status, epoch, next, state, definition_id, definition_hash, actions, token_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Key, r.Trigger, r.Lineage, r.Repo, checkpoints.FoldScope(r.Repo), r.Issue, r.Phase, r.Flow, r.Round,
		r.Parent, r.ParentNode, r.Close, r.Counted, r.Forked, r.ForkedAt, r.Mode, r.Concurrency, r.OnConflict, r.Replaces,
		r.Status, r.Next, string(r.State), definition, r.DefinitionHash, string(actions), t.now, t.now, t.now)
	if err != nil {
		return err
	}
	n, err := res.LastInsertId()
	if err != nil {
		return err
	}
	first, err := t.putInitial(n, r.State)
	if err != nil {
		return fmt.Errorf("storing the state at the start: %w", err)
	}
	if first != emptyInitial {
		if err := t.exec1(`UPDATE runs SET first = ?1, last = ?1 WHERE n = ?2`, first, n); err != nil {
			return err
		}
	}
	if r.DefinitionHash == "" {
		return nil
	}
	_, err = t.exec(`INSERT INTO flow_versions (flow, hash, n, definition_id, first_at)
		SELECT ?1, ?2, coalesce(max(n), 0) + 1, ?3, ?4 FROM flow_versions WHERE flow = ?1
		ON CONFLICT (flow, hash) DO NOTHING`, r.Flow, r.DefinitionHash, definition, t.now)
	return err
}

// known returns the run that the request has started before, or that has its
// key, with ErrConflict.
func (t *tx) known(req checkpoints.StartReq) (r checkpoints.Run, err error) {
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
			return r, err
		}
	}
	if req.Parent != "" {
		r, err := t.conflict(`run %s has been spawned as %s: %w`, `parent = ? AND parent <> '' AND key = ?`, req.Parent, req.Key)
		if err != nil {
			return r, err
		}
	}
	shared := ""
	if req.LinesUp(req.Concurrency) {
		shared = req.Concurrency
	}
	return t.conflict(`run %s of %s is open: %w`,
		`key = ? AND final_at = 0 AND (concurrency = '' OR concurrency <> ?)`, req.Key, shared)
}

// conflict returns the oldest run that fulfils the condition, with
// ErrConflict in the given words, which are told its id and key.
func (t *tx) conflict(words, where string, args ...any) (checkpoints.Run, error) {
	var id string
	err := t.row(`SELECT id FROM runs WHERE `+where+` ORDER BY n LIMIT 1`, args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoints.Run{}, nil
	}
	if err != nil {
		return checkpoints.Run{}, err
	}
	r, err := getRun(t.ctx, t, id)
	if err == nil {
		err = fmt.Errorf(words, r.ID, r.Key, checkpoints.ErrConflict)
	}
	return r, err
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
