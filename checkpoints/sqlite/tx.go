package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// tx is one call's part of a write transaction: the instant at which it
// happens and the tokens that become true with it.
type tx struct {
	*sql.Tx
	stmts    *stmts
	deflater *deflater
	ctx      context.Context //nolint:containedctx // lives as long as the transaction
	now      int64           // microseconds
	at       time.Time
	tokens   []queue.Token
}

// write is the one way to write. Calls that come at the same time share a
// transaction, which begins immediate, so that what fn reads can't change
// under it. When fn, a token's insertion or the commit fails nothing is
// changed; what other calls of the transaction did stands. fn may run twice,
// the first time undone.
func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.group.do(ctx, fn, s.serve)
}

// serve is one shared transaction. The calls' contexts end while they wait,
// not here; wait bounds the wait for the connection, and for another process
// that writes, alone.
func (s *Store) serve(wait context.Context) {
	s.stmts.prepare(wait)
	conn, err := s.writes.Conn(wait)
	if err != nil {
		if wait.Err() == nil { // whoever leads takes its call back itself; the others wait on
			s.group.fail(explain(fmt.Errorf("beginning a transaction: %w", err)))
		}
		return
	}
	defer conn.Close() //nolint:errcheck // gives it back
	inner, err := begin(wait, conn)
	if err != nil {
		if wait.Err() == nil {
			s.group.fail(explain(fmt.Errorf("beginning a transaction: %w", err)))
		}
		return
	}
	ops := s.group.take()
	errs, whole := s.applyAll(inner, ops)
	if !whole {
		_ = inner.Rollback() // it has ended already
		for _, o := range ops {
			o.finish(s.alone(conn, o))
		}
		return
	}
	if len(ops) == 0 || len(ops) == 1 && errs[0] != nil {
		_ = inner.Rollback()
	} else if err := inner.Commit(); err != nil {
		_ = inner.Rollback()
		err = explain(fmt.Errorf("committing: %w", err))
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
	} else {
		s.committed()
	}
	for i, o := range ops {
		o.finish(errs[i])
	}
}

// begin begins a transaction, unless wait ends before that: another process may
// write for as long as the busy timeout. The transaction itself doesn't end
// with wait.
func begin(wait context.Context, conn *sql.Conn) (*sql.Tx, error) {
	if wait.Done() == nil {
		return conn.BeginTx(wait, nil)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(wait, func() { cancel(context.Cause(wait)) })
	inner, err := conn.BeginTx(ctx, nil)
	if !stop() && err == nil {
		_ = inner.Rollback() // it may be rolling back already
		return nil, context.Cause(wait)
	}
	return inner, err
}

// applyAll runs ops one after the other until one takes the transaction with
// it.
func (s *Store) applyAll(inner *sql.Tx, ops []*op) (errs []error, whole bool) {
	errs = make([]error, len(ops))
	for i, o := range ops {
		if whole, errs[i] = s.apply(inner, o, len(ops) > 1); !whole {
			return errs, false
		}
	}
	return errs, true
}

// alone gives an op a transaction of its own.
func (s *Store) alone(conn *sql.Conn, o *op) error {
	inner, err := conn.BeginTx(o.ctx, nil)
	if err != nil {
		return explain(fmt.Errorf("beginning a transaction: %w", err))
	}
	defer inner.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	if _, err := s.apply(inner, o, false); err != nil {
		return err
	}
	if err := inner.Commit(); err != nil {
		return explain(fmt.Errorf("committing: %w", err))
	}
	s.committed()
	return nil
}

// committed tells of a transaction that stands.
func (s *Store) committed() {
	if s.onCommit != nil {
		s.onCommit(s.commits.Add(1))
	}
}

// apply runs an op, inside a savepoint when it shares the transaction, and
// returns its error, after which nothing of it is left. whole is false when
// the failure took the transaction with it: a full disk can do that.
func (s *Store) apply(inner *sql.Tx, o *op, shared bool) (whole bool, err error) {
	now := s.clock.Now().UnixMicro()
	t := &tx{Tx: inner, stmts: s.stmts, deflater: &s.deflater, ctx: o.ctx, now: now, at: fromMicros(now)}
	if shared {
		if _, err := t.exec(`SAVEPOINT call`); err != nil {
			return false, err
		}
	}
	if err = o.fn(t); err == nil {
		err = s.insertTokens(t)
	}
	if !shared {
		return true, explain(err)
	}
	if err != nil {
		if _, undo := t.exec(`ROLLBACK TO call`); undo != nil {
			return false, explain(err)
		}
	}
	if _, release := t.exec(`RELEASE call`); release != nil {
		return false, explain(release)
	}
	return true, explain(err)
}

func (s *Store) insertTokens(t *tx) error {
	enqueue := s.enqueue.Load()
	if enqueue == nil {
		return nil
	}
	for _, tok := range t.tokens {
		if err := (*enqueue)(t.ctx, t.Tx, tok); err != nil {
			return fmt.Errorf("inserting the token of %s %s: %w", tok.Kind, tok.ID, err)
		}
	}
	return nil
}

// ExecContext prepares what is used again.
func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if st := t.stmts.get(query); st != nil {
		return t.StmtContext(ctx, st).ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

// QueryContext implements querier.
func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if st := t.stmts.get(query); st != nil {
		return t.StmtContext(ctx, st).QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

// QueryRowContext implements querier.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if st := t.stmts.get(query); st != nil {
		return t.StmtContext(ctx, st).QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}

// exec runs a statement and returns the number of rows it touched.
func (t *tx) exec(query string, args ...any) (int64, error) {
	res, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// exec1 runs a statement that must touch exactly one row.
func (t *tx) exec1(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("touched %d rows instead of one: %s", n, query)
	}
	return err
}

func (t *tx) row(query string, args ...any) *sql.Row {
	return t.QueryRowContext(t.ctx, query, args...)
}

// wake adds a token for a run.
func (t *tx) wake(id string, epoch int64) {
	t.tokens = append(t.tokens, queue.Token{Kind: queue.Run, ID: id, Epoch: epoch})
}

// micros is an instant as it is stored; 0 is none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// notFound turns the absence of a row into ErrNotFound.
func notFound(err error, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf(format+": %w", append(args, checkpoints.ErrNotFound)...)
	}
	return explain(err)
}

// querier is what a pool and a transaction have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// collect scans all rows of a query.
func collect[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (out []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells of a broken read
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, explain(rows.Err())
}

// scanner is a row to scan.
type scanner interface{ Scan(dest ...any) error }
