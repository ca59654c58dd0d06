package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// stmts are prepared statements by their text. All texts are constants of
// this package, so there are few.
type stmts struct {
	db *sql.DB

	mu     sync.RWMutex
	known  map[string]*sql.Stmt
	wanted []string
}

func newStmts(db *sql.DB) *stmts { return &stmts{db: db, known: map[string]*sql.Stmt{}} }

// get returns the prepared statement, or nil and notes that it is wanted:
// inside a transaction on the only connection nothing can be prepared that
// outlives it.
func (s *stmts) get(query string) *sql.Stmt {
	s.mu.RLock()
	st, ok := s.known[query]
	s.mu.RUnlock()
	if ok {
		return st
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[query]; !ok {
		s.known[query] = nil
		s.wanted = append(s.wanted, query)
	}
	return nil
}

// prepare prepares what was wanted. It needs a free connection. What can't be
// prepared, be it that ctx ends, is used as text, tells its error there, and is
// wanted again when it is next used.
func (s *stmts) prepare(ctx context.Context) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	for _, query := range wanted {
		st, err := s.db.PrepareContext(ctx, query)
		s.mu.Lock()
		if err == nil {
			s.known[query] = st
		} else {
			delete(s.known, query)
		}
		s.mu.Unlock()
	}
}

// reader is the read pool; what is asked again is prepared, on each of its
// connections when that first needs it.
type reader struct {
	*sql.DB
	stmts *stmts
}

func newReader(db *sql.DB) *reader { return &reader{db, newStmts(db)} }

// prepared returns the statement, or nil when it can't be prepared: the query
// as text tells why.
func (r *reader) prepared(ctx context.Context, query string) *sql.Stmt {
	st := r.stmts.get(query)
	if st == nil {
		r.stmts.prepare(ctx)
		st = r.stmts.get(query)
	}
	return st
}

// QueryContext implements querier.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if st := r.prepared(ctx, query); st != nil {
		return st.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext implements querier.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if st := r.prepared(ctx, query); st != nil {
		return st.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}
