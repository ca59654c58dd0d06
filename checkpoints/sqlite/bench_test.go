package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// changed is what a node of the benchmarks changes in the state: 2 KB.
var changed = json.RawMessage(`{"x":"` + strings.Repeat("x", 2048) + `"}`)

// node is the commit of a node that changes 2 KB of state.
func node(seq int64) checkpoints.Commit {
	return checkpoints.Commit{
		Record: checkpoints.NodeRecord{
			Node: "build", Kind: "step", Visit: int(seq), Attempt: 1, Outcome: "ok", Delta: changed,
			Guards: []checkpoints.Guard{{To: "test", When: "state.commits > 0", Taken: true}},
			Usage:  checkpoints.Usage{InputTokens: 1200, OutputTokens: 300, ModelCalls: 1, MicroUSD: 4500},
			Began:  time.Now(), Took: time.Second,
		},
		Seq: seq, Next: "test", State: changed, Visits: map[string]int{"build": int(seq), "test": 3},
	}
}

// BenchmarkCommit is one run that commits node after node, beside the floor:
// the same bytes in the barest transaction that the same driver can do. They
// take turns, so that whatever else the machine does slows down both alike.
func BenchmarkCommit(b *testing.B) {
	for _, level := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			l, bare := claim(b, s, "k"), openFloor(b, level)
			empty := size(b, s)
			var seq int64
			var ours, floor time.Duration
			for b.Loop() {
				seq++
				if seq%2 == 0 {
					floor += timed(func() { bare(seq) })
				}
				c := node(seq)
				ours += timed(func() {
					if err := s.Commit(b.Context(), l, c); err != nil {
						b.Fatal(err)
					}
				})
				if seq%2 == 1 {
					floor += timed(func() { bare(seq) })
				}
			}
			b.ReportMetric(float64(seq)/ours.Seconds(), "commits/s")
			b.ReportMetric(float64(seq)/floor.Seconds(), "floor/s")
			b.ReportMetric(floor.Seconds()/ours.Seconds(), "of-floor")
			b.ReportMetric(float64(size(b, s)-empty)/float64(seq), "B/commit")
		})
	}
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// openFloor returns a bare transaction of the bytes that a commit writes: two
// rows, as long as those of a run and of a node, and the key of the latter.
func openFloor(b *testing.B, level sqlite.Synchronous) func(seq int64) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "floor.db")
	db, err := sql.Open("sqlite", "file://"+path+"?_pragma=page_size(8192)&_journal_mode=WAL&_txlock=immediate&_synchronous="+string(level))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		`CREATE TABLE runs (n INTEGER PRIMARY KEY, seq INTEGER, state TEXT) STRICT`,
		`CREATE TABLE history (n INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, delta TEXT, UNIQUE (run, seq)) STRICT`,
		`INSERT INTO runs VALUES (1, 0, '')`,
	} {
		if _, err := db.ExecContext(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	update := prepare(b, db, `UPDATE runs SET seq = ?, state = ? WHERE n = 1 AND seq = ?`)
	insert := prepare(b, db, `INSERT INTO history (run, seq, delta) VALUES (1, ?, ?)`)
	run, node := string(changed)+strings.Repeat("r", 250), string(changed)+strings.Repeat("n", 190)
	return func(seq int64) {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tx.Stmt(update).Exec(seq, run, seq-1); err != nil {
			b.Fatal(err)
		}
		if _, err := tx.Stmt(insert).Exec(seq, node); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommitConcurrently is 64 runs that commit at once.
func BenchmarkCommitConcurrently(b *testing.B) {
	for _, level := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			var leases []checkpoints.Lease
			for i := range 64 {
				leases = append(leases, claim(b, s, fmt.Sprint("k", i)))
			}
			empty := size(b, s)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, l := range leases {
				n := int64(b.N / len(leases))
				if i < b.N%len(leases) {
					n++
				}
				wg.Go(func() {
					for seq := range n {
						if err := s.Commit(b.Context(), l, node(seq+1)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(size(b, s)-empty)/float64(b.N), "B/commit")
		})
	}
}

func prepare(b *testing.B, db *sql.DB, query string) *sql.Stmt {
	b.Helper()
	st, err := db.PrepareContext(b.Context(), query)
	if err != nil {
		b.Fatal(err)
	}
	return st
}

func openBench(b *testing.B, level sqlite.Synchronous) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "runs.db"), Synchronous: level})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// claim starts and claims a run.
func claim(tb testing.TB, s checkpoints.Store, key string) checkpoints.Lease {
	tb.Helper()
	r, err := s.Start(tb.Context(), checkpoints.StartReq{Key: key, Entry: "a"})
	if err != nil {
		tb.Fatal(err)
	}
	_, l, err := s.Claim(tb.Context(), r.ID, r.Epoch, "w", time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// size is that of the file without a log.
func size(tb testing.TB, s *sqlite.Store) int64 {
	tb.Helper()
	if _, err := s.DB().ExecContext(tb.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		tb.Fatal(err)
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}
