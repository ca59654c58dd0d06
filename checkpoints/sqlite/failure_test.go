package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// claimed is a store with one claimed run.
func claimed(t *testing.T, o sqlite.Options) (*sqlite.Store, checkpoints.Run, checkpoints.Lease) {
	t.Helper()
	o.Path = filepath.Join(t.TempDir(), "runs.db")
	s := open(t, o)
	r, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a"})
	if err != nil {
		t.Fatal(err)
	}
	r, l, err := s.Claim(t.Context(), r.ID, r.Epoch, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s, r, l
}

func commit(state string) checkpoints.Commit {
	return checkpoints.Commit{
		Record: checkpoints.NodeRecord{Node: "a", Outcome: "ok"}, Seq: 1, Next: "b", State: json.RawMessage(state),
	}
}

// unchanged fails the test unless the run is as it was.
func unchanged(t *testing.T, s *sqlite.Store, want checkpoints.Run) {
	t.Helper()
	got, err := s.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("run (-want +got):\n%s", diff)
	}
	history, err := s.History(t.Context(), want.ID)
	if err != nil || len(history) > 0 {
		t.Fatalf("history: %v, %v", history, err)
	}
}

// A full disk, played by a cap on the pages of the file, is an error that
// changes nothing, and passes when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, r, l := claimed(t, sqlite.Options{})
	if _, err := s.DB().ExecContext(t.Context(), `PRAGMA max_page_count = 1`); err != nil { // = as many as there are
		t.Fatal(err)
	}
	big := commit(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	says(t, s.Commit(t.Context(), l, big), "disk is full", "nothing was changed")
	unchanged(t, s, r)
	if _, err := s.DB().ExecContext(t.Context(), `PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), l, big); err != nil {
		t.Fatal(err)
	}
}

func TestLockedFile(t *testing.T) {
	t.Parallel()
	s, r, l := claimed(t, sqlite.Options{Busy: 20 * time.Millisecond})
	other := open(t, sqlite.Options{Path: s.Path(), Mode: sqlite.Shared})
	tx, err := other.DB().BeginTx(t.Context(), nil) // immediate: holds the file
	if err != nil {
		t.Fatal(err)
	}
	says(t, s.Commit(t.Context(), l, commit(`{}`)), "another process has kept the file locked")
	unchanged(t, s, r)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), l, commit(`{}`)); err != nil {
		t.Fatal(err)
	}
}

func TestTokenThatCannotBeInserted(t *testing.T) {
	t.Parallel()
	s, r, l := claimed(t, sqlite.Options{})
	boom := errors.New("boom")
	s.SetEnqueuer(func(context.Context, *sql.Tx, queue.Token) error { return boom })
	if err := s.Release(t.Context(), l); !errors.Is(err, boom) {
		t.Fatalf("release: %v", err)
	}
	unchanged(t, s, r)
	if _, err := s.Receive(t.Context(), checkpoints.InboxEvent{ID: "e"}); !errors.Is(err, boom) {
		t.Fatalf("receive: %v", err)
	}
	if _, err := s.Received(t.Context(), "e"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Fatalf("received: %v", err)
	}
}

func TestDamagedColumn(t *testing.T) {
	t.Parallel()
	s, r, _ := claimed(t, sqlite.Options{})
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE runs SET visits = '{"a":'`); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), r.ID)
	says(t, err, r.ID, "visits", "damaged")
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s, _, l := claimed(t, sqlite.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), l, commit(`{}`)); err == nil {
		t.Fatal("no error")
	}
}

// A writer that waits for the one connection gives up with its context.
func TestWaitForTheConnectionIsBounded(t *testing.T) {
	t.Parallel()
	s, r, l := claimed(t, sqlite.Options{})
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Commit(ctx, l, commit(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	unchanged(t, s, r)
}
