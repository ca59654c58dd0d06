package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// tx is one write transaction: the instant at which it happens and the tokens
// that become true with it.
type tx struct {
	*sql.Tx
	ctx    context.Context //nolint:containedctx // lives as long as the transaction
	now    int64           // microseconds
	at     time.Time
	tokens []queue.Token
}

// write is the one place where transactions begin and commit. They begin
// immediate, so that what fn reads can't change under it. When fn, a token's
// insertion or the commit fails nothing is changed.
func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	inner, err := s.writes.BeginTx(ctx, nil)
	if err != nil {
		return explain(fmt.Errorf("beginning a transaction: %w", err))
	}
	defer inner.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	now := s.clock.Now().UnixMicro()
	t := &tx{Tx: inner, ctx: ctx, now: now, at: fromMicros(now)}
	if err := fn(t); err != nil {
		return explain(err)
	}
	if enqueue := s.enqueue.Load(); enqueue != nil {
		for _, tok := range t.tokens {
			if err := (*enqueue)(ctx, inner, tok); err != nil {
				return explain(fmt.Errorf("inserting the token of %s %s: %w", tok.Kind, tok.ID, err))
			}
		}
	}
	if err := inner.Commit(); err != nil {
		return explain(fmt.Errorf("committing: %w", err))
	}
	return nil
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
