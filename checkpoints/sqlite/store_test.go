package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Covers: BL16, BL24, BL25, AR31, AR32, NX3, NX10, CN21, BL9, BL11, NX5.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clk *clock.Fake, enqueue func(queue.Token)) checkpoints.Store {
		s := open(t, sqlite.Options{Path: sqlite.Fresh(t, filepath.Join(t.TempDir(), "runs.db")), Clock: clk, Synchronous: sqlite.Normal})
		s.SetEnqueuer(func(_ context.Context, _ *sql.Tx, tok queue.Token) error {
			enqueue(tok)
			return nil
		})
		return s
	})
}

func open(t *testing.T, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
