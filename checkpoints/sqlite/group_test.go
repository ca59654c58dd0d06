package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	return openBusy(t, 0)
}

// openBusy opens a store that waits for other processes as long as it is told.
func openBusy(t *testing.T, busy time.Duration) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: Fresh(t, filepath.Join(t.TempDir(), "runs.db")), Synchronous: Normal, Busy: busy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func claimRun(t *testing.T, s *Store, key string) checkpoints.Lease {
	t.Helper()
	r, err := s.Start(t.Context(), checkpoints.StartReq{Key: key, Entry: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_, l, err := s.Claim(t.Context(), r.ID, r.Epoch, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func step(seq int64, size int) checkpoints.Commit {
	return checkpoints.Commit{
		Record: checkpoints.NodeRecord{Node: "a", Outcome: "ok"}, Seq: seq, Next: "b",
		State: json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`),
	}
}

// together makes all calls one batch: it keeps the connection until they
// wait. It returns their errors.
func together(t *testing.T, s *Store, calls ...func() error) []error {
	t.Helper()
	holder, err := s.writes.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
		s.waitFor(t, i+1)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}

// waitFor returns when n calls wait.
func (s *Store) waitFor(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		s.group.mu.Lock()
		got := len(s.group.waiting)
		s.group.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls wait, want %d", got, n)
		}
	}
}

// Calls that share a transaction have each the answer that they would have
// alone, and what fails leaves nothing behind and hurts nobody.
func TestCallsThatShareATransaction(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, b, c := claimRun(t, s, "a"), claimRun(t, s, "b"), claimRun(t, s, "c")
	parked := claimRun(t, s, "parked")
	boom, txs := errors.New("boom"), map[*sql.Tx]int{}
	s.SetEnqueuer(func(_ context.Context, tx *sql.Tx, tok queue.Token) error {
		txs[tx]++
		if tok.ID == c.RunID {
			return boom
		}
		return nil
	})
	stale, ctx, limit := b, t.Context(), int64(1)
	stale.Fence--
	errs := together(t, s,
		func() error { return s.Commit(ctx, a, step(1, 10)) },
		func() error { return s.Commit(ctx, stale, step(1, 10)) },
		func() error { return s.Commit(ctx, a, step(1, 10)) },
		func() error { return s.Commit(ctx, a, step(2, 10)) },
		func() error { return s.Release(ctx, c) },
		func() error {
			c := step(1, 10)
			c.EventKey = "never delivered"
			return s.Commit(ctx, b, c)
		},
		func() error {
			_, err := s.Reserve(ctx, b, "a", checkpoints.Usage{MicroUSD: 2}, checkpoints.Limits{Run: checkpoints.Limit{MicroUSD: &limit}})
			return err
		},
		func() error { _, err := s.Start(ctx, checkpoints.StartReq{Key: "a"}); return err },
		func() error { return s.Release(ctx, parked) },
		func() error { _, err := s.Start(ctx, checkpoints.StartReq{Key: "new", Entry: "a"}); return err },
	)
	for i, want := range []error{
		nil, checkpoints.ErrLost, checkpoints.ErrConflict, nil, boom, checkpoints.ErrNotFound,
		checkpoints.ErrBudget, checkpoints.ErrConflict, nil, nil,
	} {
		if !errors.Is(errs[i], want) {
			t.Errorf("call %d: got %v, want %v", i, errs[i], want)
		}
	}
	if len(txs) != 1 {
		t.Errorf("%d transactions, want one", len(txs))
	}
	for id, want := range map[string]string{a.RunID: "2 running", b.RunID: "0 running", c.RunID: "0 running", parked.RunID: "0 ready"} {
		r, err := s.Get(ctx, id)
		if got := fmt.Sprint(r.Seq, " ", r.Status); err != nil || got != want {
			t.Errorf("run %s: got %s, %v, want %s", r.Key, got, err, want)
		}
		if history, err := s.History(ctx, id); err != nil || int64(len(history)) != r.Seq {
			t.Errorf("run %s: %d nodes, %v", r.Key, len(history), err)
		}
	}
}

// A call that breaks the shared transaction, as a full disk can, fails alone.
func TestFullDiskInASharedTransaction(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, b, c := claimRun(t, s, "a"), claimRun(t, s, "b"), claimRun(t, s, "c")
	if _, err := s.writes.ExecContext(t.Context(), `PRAGMA max_page_count = 1`); err != nil { // = as many as there are
		t.Fatal(err)
	}
	ctx := t.Context()
	errs := together(t, s,
		func() error { return s.Commit(ctx, a, step(1, 10)) },
		func() error { return s.Commit(ctx, b, step(1, 1<<20)) },
		func() error { return s.Commit(ctx, c, step(1, 10)) },
	)
	if errs[0] != nil || errs[2] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "disk is full") {
		t.Fatalf("errors: %v", errs)
	}
	for l, want := range map[checkpoints.Lease]int64{a: 1, b: 0, c: 1} {
		if r, err := s.Get(ctx, l.RunID); err != nil || r.Seq != want {
			t.Errorf("run %s: seq %d, %v, want %d", r.Key, r.Seq, err, want)
		}
	}
}

// When even the savepoint can't be undone, each call gets a transaction of
// its own.
func TestBrokenSharedTransaction(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ctx, boom := t.Context(), errors.New("boom")
	errs := together(t, s,
		func() error { return s.SetCursor(ctx, "a", "1") },
		func() error {
			return s.write(ctx, func(t *tx) error {
				_, _ = t.Tx.ExecContext(t.ctx, `ROLLBACK`)
				return boom
			})
		},
		func() error { return s.SetCursor(ctx, "b", "1") },
	)
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], boom) {
		t.Fatalf("errors: %v", errs)
	}
	for _, name := range []string{"a", "b"} {
		if v, err := s.Cursor(ctx, name); err != nil || v != "1" {
			t.Errorf("cursor %s: %q, %v", name, v, err)
		}
	}
}

// A call whose context ends while it waits changes nothing, whether it leads
// or follows, be it for the connection or for another process that writes; the
// others go on.
func TestContextsOfWaitingCalls(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		quits, byOther := i%3, i >= 3
		t.Run(fmt.Sprintf("call %d, other process %t", quits, byOther), func(t *testing.T) {
			t.Parallel()
			s := openBusy(t, time.Hour)
			why := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			held := s.writes
			if byOther {
				other, err := Open(t.Context(), Options{Path: s.Path(), Mode: Shared})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				held = other.writes
			}
			holder, err := held.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			errs := make([]error, 3)
			quit := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 3 {
				ctxOf := t.Context()
				if i == quits {
					ctxOf = ctx
				}
				wg.Go(func() {
					errs[i] = s.SetCursor(ctxOf, fmt.Sprint(i), "1")
					if i == quits {
						close(quit)
					}
				})
				s.waitFor(t, i+1)
			}
			cancel(why)
			select {
			case <-quit: // though nobody else can have moved
			case <-time.After(20 * time.Second):
				t.Fatal("the call waits on, though its context has ended")
			}
			s.waitFor(t, 2)
			if err := holder.Rollback(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			for i := range 3 {
				v, err := s.Cursor(t.Context(), fmt.Sprint(i))
				if i == quits && (v != "" || !errors.Is(errs[i], why)) || i != quits && (v != "1" || errs[i] != nil) || err != nil {
					t.Errorf("call %d: %v; the cursor is %q, %v", i, errs[i], v, err)
				}
			}
		})
	}
}

// Close ends the calls that wait and leaves nobody behind.
func TestCloseWithWaitingCalls(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	holder, err := s.writes.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for i := range 2 {
		go func() { errs <- s.SetCursor(t.Context(), "c", "1") }()
		s.waitFor(t, i+1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; err == nil {
			t.Error("a call of a closed store succeeded")
		}
	}
	_ = holder.Rollback()
}

// A transaction that cannot begin ends all calls that wait for it, however
// many share one.
func TestFailEndsAllThatWait(t *testing.T) {
	t.Parallel()
	var g group
	boom := errors.New("boom")
	ops := make([]*op, 2*most+1)
	for i := range ops {
		ops[i] = &op{done: make(chan struct{})}
	}
	g.waiting = slices.Clone(ops)
	g.fail(boom)
	for i, o := range ops {
		select {
		case <-o.done:
		default:
			t.Fatalf("call %d waits on", i)
		}
		if !errors.Is(o.err, boom) {
			t.Fatalf("call %d: %v", i, o.err)
		}
	}
	if g.more() {
		t.Error("calls wait still")
	}
}

// Whatever the order in which 16 runs meet in transactions, each run's nodes
// are there in order.
//
// Covers: CN20, NX4.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	const runs, nodes = 16, 25
	var leases []checkpoints.Lease
	for i := range runs {
		leases = append(leases, claimRun(t, s, fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	for _, l := range leases {
		wg.Go(func() {
			for seq := range int64(nodes) {
				if err := s.Commit(t.Context(), l, step(seq+1, 10)); err != nil {
					t.Error(err)
				}
				if err := s.Commit(t.Context(), l, step(seq+1, 10)); !errors.Is(err, checkpoints.ErrConflict) {
					t.Errorf("the same node again: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range leases {
		history, err := s.History(t.Context(), l.RunID)
		if err != nil || len(history) != nodes || history[nodes-1].Seq != nodes {
			t.Errorf("run %s: %d nodes, %v", l.RunID, len(history), err)
		}
	}
}

// Close may come at any moment of any number of calls: each of them ends, and
// those that come later are refused.
func TestCloseWhileCallsCome(t *testing.T) {
	t.Parallel()
	rounds := 30
	if Raced {
		rounds = 10
	}
	for range rounds {
		s := openStore(t)
		var wg sync.WaitGroup
		begun := make(chan struct{}, 8)
		for range cap(begun) {
			wg.Go(func() {
				for i := 0; ; i++ {
					if err := s.SetCursor(context.Background(), "c", "x"); errors.Is(err, errClosed) {
						return
					}
					if i == 0 {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
