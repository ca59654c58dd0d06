package sqlite

import (
	"context"
	"testing"
)

// A caller that gives up while statements are prepared leaves them wanted.
func TestPrepareAgainAfterCancel(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	const query = `SELECT 'asked for by nobody else'`
	if st := s.stmts.get(query); st != nil {
		t.Fatal("prepared before it was wanted")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.stmts.prepare(ended)
	if st := s.stmts.get(query); st != nil {
		t.Fatal("prepared with a context that has ended")
	}
	s.stmts.prepare(t.Context())
	if st := s.stmts.get(query); st == nil {
		t.Error("never prepared")
	}
}
