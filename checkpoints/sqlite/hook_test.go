package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// TestOnCommit counts the transactions that stand, each before its call
// returns; one that was undone is none.
func TestOnCommit(t *testing.T) {
	t.Parallel()
	var told []int64
	s, err := Open(t.Context(), Options{
		Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: Normal,
		OnCommit: func(n int64) { told = append(told, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want := range int64(3) {
		if _, err := s.Start(t.Context(), checkpoints.StartReq{Key: fmt.Sprintf("acme/shop#%d", want), Entry: "a"}); err != nil {
			t.Fatal(err)
		}
		if got := int64(len(told)); got != want+1 {
			t.Fatalf("told of %d commits when the call returned, want %d", got, want+1)
		}
	}
	broken := errors.New("broken")
	if err := s.write(t.Context(), func(*tx) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := s.alone(mustConn(t, s), &op{ctx: t.Context(), fn: func(*tx) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, told); diff != "" {
		t.Errorf("commits told of (-want +got):\n%s", diff)
	}
}

func mustConn(t *testing.T, s *Store) *sql.Conn {
	t.Helper()
	c, err := s.writes.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
