package river_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/queue/queuetest"
	"github.com/pipelinebot/pipelinebot/internal/queue/river"
)

func open(t testing.TB, o river.Options) (*sqlite.Store, *river.Queue) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: sqlite.Normal,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o.DB = s.DB()
	q, err := river.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.SetEnqueuer(q.Enqueue)
	return s, q
}

func TestQueue(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) (queue.Queue, func(...queue.Token)) {
		s, q := open(t, river.Options{})
		return q, func(tokens ...queue.Token) {
			tx, err := s.DB().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range tokens {
				if err := q.Enqueue(t.Context(), tx, tok); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A token is delivered if and only if the transaction that makes it true
// commits.
func TestTokenSharesTheTransaction(t *testing.T) {
	t.Parallel()
	s, q := open(t, river.Options{})
	tokens := make(chan queue.Token, 10)
	err := q.Start(t.Context(), func(_ context.Context, tok queue.Token) error {
		tokens <- tok
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Enqueue(t.Context(), lost, queue.Token{Kind: queue.Run, ID: "rolled back"}); err != nil {
		t.Fatal(err)
	}
	if err := lost.Rollback(); err != nil {
		t.Fatal(err)
	}
	run, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-tokens:
		if want := (queue.Token{Kind: queue.Run, ID: run.ID, Epoch: run.Epoch}); got != want {
			t.Fatalf("token: got %+v, want %+v", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no token")
	}
	if err := q.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(tokens) > 0 {
		t.Fatalf("one token too many: %+v", <-tokens)
	}
}

// A queue that fails to insert takes the store's change with it.
func TestFailedInsertionChangesNothing(t *testing.T) {
	t.Parallel()
	s, q := open(t, river.Options{})
	s.SetEnqueuer(func(ctx context.Context, tx *sql.Tx, tok queue.Token) error {
		tok.Kind = "unheard of"
		return q.Enqueue(ctx, tx, tok)
	})
	if _, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a"}); err == nil {
		t.Fatal("no error")
	}
	runs, err := s.List(t.Context(), checkpoints.Filter{})
	if err != nil || len(runs) > 0 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	if _, err := river.New(t.Context(), river.Options{}); err == nil {
		t.Fatal("no error")
	}
}

// What a process that is gone was working on doesn't come back, and doesn't
// stay.
func TestStartForgetsJobsInFlight(t *testing.T) {
	t.Parallel()
	s, q := open(t, river.Options{})
	if _, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE river_job SET state = 'running'`); err != nil {
		t.Fatal(err)
	}
	if err := q.Start(t.Context(), func(context.Context, queue.Token) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := q.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM river_job`).Scan(&n); err != nil || n != 0 {
		t.Fatalf("jobs left: %d, %v", n, err)
	}
}

// Another process on the file, such as a command that resumes a run, reaches
// the daemon's workers.
func TestTokenOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s, q := open(t, river.Options{Poll: 20 * time.Millisecond})
	tokens := make(chan queue.Token, 10)
	err := q.Start(t.Context(), func(_ context.Context, tok queue.Token) error {
		tokens <- tok
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sqlite.Open(t.Context(), sqlite.Options{Path: s.Path(), Mode: sqlite.Shared})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	inserter, err := river.New(t.Context(), river.Options{DB: other.DB()})
	if err != nil {
		t.Fatal(err)
	}
	other.SetEnqueuer(inserter.Enqueue)
	run, err := other.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-tokens:
		if got.ID != run.ID {
			t.Fatalf("token: got %+v, want that of %s", got, run.ID)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no token")
	}
	if err := q.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkWakeUp is the time from a committed start to its handler.
func BenchmarkWakeUp(b *testing.B) {
	s, q := open(b, river.Options{})
	tokens := make(chan queue.Token)
	err := q.Start(b.Context(), func(_ context.Context, tok queue.Token) error {
		tokens <- tok
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Start(b.Context(), checkpoints.StartReq{Key: checkpoints.NewID(time.Now()), Entry: "a"}); err != nil {
			b.Fatal(err)
		}
		<-tokens
	}
	if err := q.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
