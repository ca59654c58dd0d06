package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// selectRun reads whole runs; the ledger is summed so that the money has one
// home.
const selectRun = `
SELECT r.id, r.key, r.trigger_key, r.lineage, r.repo, r.issue, r.phase, r.flow, r.round,
       r.status, r.epoch, r.owner, r.lease_until, r.starts, r.seq, r.node, r.next,
       r.state, r.visits, r.wait, d.content, r.definition_hash, r.actions,
       r.result, r.code, r.reason, r.created_at, r.updated_at,
       r.parent, r.parent_node, r.close, r.counted, r.forked, r.forked_at, r.mode,
       r.concurrency, r.on_conflict, r.replaces, r.first, i.delta,
       (SELECT json_object(
            'input_tokens', sum(l.input_tokens), 'output_tokens', sum(l.output_tokens),
            'cached_tokens', sum(l.cached_tokens), 'tool_calls', sum(l.tool_calls),
            'model_calls', sum(l.model_calls), 'micro_usd', sum(l.micro_usd))
        FROM ledger l WHERE l.run_id IN (
            WITH RECURSIVE family (id) AS (
                SELECT r.id UNION SELECT c.id FROM runs c JOIN family f ON c.parent = f.id WHERE c.parent <> '' AND c.counted)
            SELECT id FROM family))
FROM runs r JOIN definitions d ON d.id = r.definition_id LEFT JOIN history i ON i.n = r.first`

func scanRun(row scanner) (checkpoints.Run, error) {
	var r checkpoints.Run
	var state, visits, wait, actions, spent string
	var lease, created, updated, first int64
	var initial any
	err := row.Scan(&r.ID, &r.Key, &r.Trigger, &r.Lineage, &r.Repo, &r.Issue, &r.Phase, &r.Flow, &r.Round,
		&r.Status, &r.Epoch, &r.Owner, &lease, &r.Starts, &r.Seq, &r.Node, &r.Next,
		&state, &visits, &wait, &r.Definition, &r.DefinitionHash, &actions,
		&r.Result, &r.Code, &r.Reason, &created, &updated,
		&r.Parent, &r.ParentNode, &r.Close, &r.Counted, &r.Forked, &r.ForkedAt, &r.Mode,
		&r.Concurrency, &r.OnConflict, &r.Replaces, &first, &initial, &spent)
	if err != nil {
		return r, err
	}
	r.State = json.RawMessage(state)
	if r.Initial, err = readInitial(first, initial); err != nil {
		return r, fmt.Errorf("run %s: its state at the start is damaged: %w", r.ID, err)
	}
	r.LeaseUntil, r.Created, r.Updated = fromMicros(lease), fromMicros(created), fromMicros(updated)
	if len(r.Definition) == 0 {
		r.Definition = nil
	}
	if wait == "" {
		wait = "null"
	}
	for _, c := range []struct {
		name, text string
		into       any
	}{{"visits", visits, &r.Visits}, {"wait", wait, &r.Wait}, {"actions", actions, &r.Actions}, {"spent", spent, &r.Spent}} {
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			return r, fmt.Errorf("run %s: column %s is damaged: %w", r.ID, c.name, err)
		}
	}
	return r, nil
}

func getRun(ctx context.Context, q querier, id string) (checkpoints.Run, error) {
	r, err := scanRun(q.QueryRowContext(ctx, selectRun+` WHERE r.id = ?`, id))
	return r, notFound(err, "run %s", id)
}

// position is what the rules need to know of a run before it is written.
type position struct {
	n           int64 // the row's number
	concurrency string
	status      checkpoints.Status
	epoch       int64
	owner       string
	leaseUntil  int64
	ended       bool
	seq         int64
	waitEvent   string
	waitUntil   int64
	repo        string // folded
	issue       int
}

func (t *tx) position(id string) (p position, err error) {
	err = t.row(`SELECT n, concurrency, status, epoch, owner, lease_until, ended, seq, wait_event, wait_until, repo_folded, issue
		FROM runs WHERE id = ?`, id).
		Scan(&p.n, &p.concurrency, &p.status, &p.epoch, &p.owner, &p.leaseUntil, &p.ended, &p.seq, &p.waitEvent, &p.waitUntil, &p.repo, &p.issue)
	return p, notFound(err, "run %s", id)
}

// held reads the position of a run under a lease; ErrLost when it no longer
// holds.
func (t *tx) held(l checkpoints.Lease) (position, error) {
	p, err := t.position(l.RunID)
	gone := errors.Is(err, checkpoints.ErrNotFound)
	if err != nil && !gone {
		return p, err
	}
	if gone || p.owner == "" || p.owner != l.Owner || p.epoch != l.Fence {
		return p, fmt.Errorf("run %s, fence %d: %w", l.RunID, l.Fence, checkpoints.ErrLost)
	}
	return p, nil
}

// rest is the claimable status of a run that nobody holds.
func (p position) rest() checkpoints.Status {
	if p.ended {
		return checkpoints.Ending
	}
	return checkpoints.Ready
}

// leave gives up the lease; a token goes with a claimable status.
func (t *tx) leave(id string, p position, to checkpoints.Status) error {
	woken := to == checkpoints.Ready || to == checkpoints.Ending
	if woken {
		t.wake(id, p.epoch)
	}
	return t.exec1(`UPDATE runs SET status = ?1, owner = '', lease_until = 0, updated_at = ?2,
		token_at = iif(?3, ?2, token_at), final_at = iif(?4, ?2, 0) WHERE id = ?5`, to, t.now, woken, to.Final(), id)
}

func (t *tx) end(id string, e checkpoints.Ended) error {
	return t.exec1(`UPDATE runs SET status = 'ending', ended = 1, wait = '',
		result = ?, code = ?, reason = ?, updated_at = ? WHERE id = ?`, e.Result, e.Code, e.Reason, t.now, id)
}

// exists reports that a query returns a row.
func (t *tx) exists(query string, args ...any) (bool, error) {
	var one int
	err := t.row(query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
