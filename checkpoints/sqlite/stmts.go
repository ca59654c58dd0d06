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
// prepared is used as text, as before, and tells its error there.
func (s *stmts) prepare(ctx context.Context) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	for _, query := range wanted {
		st, err := s.db.PrepareContext(ctx, query)
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.known[query] = st
		s.mu.Unlock()
	}
}
