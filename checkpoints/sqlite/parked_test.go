package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// BenchmarkParked is a file with 100,000 runs that wait: how long a start
// takes, how soon an event makes one claimable, and what memory it takes.
func BenchmarkParked(b *testing.B) {
	const parked = 100_000
	path := filepath.Join(b.TempDir(), "runs.db")
	began := time.Now()
	park(b, path, parked)
	build := time.Since(began)
	b.Run(fmt.Sprint(parked), func(b *testing.B) {
		var start, deliver time.Duration
		for n := range b.N {
			began := time.Now()
			s, err := sqlite.Open(b.Context(), sqlite.Options{Path: path})
			if err != nil {
				b.Fatal(err)
			}
			tokens := 0
			s.SetEnqueuer(func(context.Context, *sql.Tx, queue.Token) error { tokens++; return nil })
			if err := s.ExpireAll(b.Context()); err != nil {
				b.Fatal(err)
			}
			if swept, err := s.Sweep(b.Context(), time.Hour); err != nil || swept != 0 {
				b.Fatalf("swept %d, %v: nothing is due", swept, err)
			}
			start += time.Since(began)
			deliver += wake(b, s, clone(n*997%parked+1), &tokens)
			if n == b.N-1 {
				debug.FreeOSMemory()
				b.ReportMetric(resident(b), "resident-MiB")
				b.ReportMetric(float64(size(b, s))/parked, "B/run")
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(build.Seconds(), "build-s")
		b.ReportMetric(start.Seconds()*1000/float64(b.N), "start-ms")
		b.ReportMetric(deliver.Seconds()*1000/float64(b.N), "claimable-ms")
	})
}

// wake delivers an event to a parked run, claims it and parks it again, and
// returns how long it took until it was claimed.
func wake(b *testing.B, s *sqlite.Store, id string, tokens *int) time.Duration {
	b.Helper()
	before, err := s.Get(b.Context(), id)
	if err != nil || before.Status != checkpoints.Waiting {
		b.Fatalf("parked: %v, %v", before.Status, err)
	}
	key := "comment/" + checkpoints.NewID(time.Now())
	began := time.Now()
	if fresh, err := s.Deliver(b.Context(), id, checkpoints.Event{Key: key, Kind: "approval"}); err != nil || !fresh {
		b.Fatalf("delivered: %v, %v", fresh, err)
	}
	r, l, err := s.Claim(b.Context(), id, before.Epoch, "w", time.Hour)
	took := time.Since(began)
	if err != nil || r.Wait == nil || r.Seq != before.Seq || *tokens != 1 {
		b.Fatalf("claimed %+v with %d tokens, %v", r, *tokens, err)
	}
	next := node(r.Seq + 1)
	next.EventKey = key
	next.Park = &checkpoints.Wait{Node: "b", Event: "approval", Until: time.Now().Add(time.Hour)}
	if err := s.Commit(b.Context(), l, next); err != nil {
		b.Fatal(err)
	}
	return took
}

// clone is the id of the n-th parked run.
func clone(n int) string { return fmt.Sprintf("clone%06d", n) }

// park makes a file with n runs that wait for an approval, all like one that
// went there by itself.
func park(b *testing.B, path string, n int) {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r, err := s.Start(b.Context(), checkpoints.StartReq{
		Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7, Phase: "plan", Flow: "plan", Entry: "a",
		State: changed, Definition: []byte(strings.Repeat("flow ", 1000)), DefinitionHash: "h", Actions: map[string]string{"a": "1"},
	})
	if err != nil {
		b.Fatal(err)
	}
	_, l, err := s.Claim(b.Context(), r.ID, r.Epoch, "w", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	c := node(1)
	c.Park = &checkpoints.Wait{Node: "b", Event: "approval", Since: time.Now(), Until: time.Now().Add(24 * time.Hour), Why: "a maintainer must approve"}
	if err := s.Commit(b.Context(), l, c); err != nil {
		b.Fatal(err)
	}
	tx, err := s.DB().BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	multiply(b, tx, "runs", n, map[string]string{
		"n": "n + i", "id": "printf('clone%06d', i)", "lineage": "printf('clone%06d', i)", "key": "key || i", "first": "first + 2 * i", "last": "last + 2 * i", "issue": "issue + i",
	})
	multiply(b, tx, "history", n, map[string]string{"n": "n + 2 * i", "run": "run + i", "prev": "iif(prev, prev + 2 * i, 0)"})
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// multiply adds n rows like each of a table, with some columns as expressions
// over i, which counts from 1.
func multiply(b testing.TB, tx *sql.Tx, table string, n int, other map[string]string) {
	b.Helper()
	rows, err := tx.QueryContext(b.Context(), `SELECT name FROM pragma_table_info(?)`, table)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var names, values []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			b.Fatal(err)
		}
		value, ok := other[name]
		if !ok {
			value = name
		}
		names, values = append(names, name), append(values, value)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	q := fmt.Sprintf(`WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d)
		INSERT INTO %s (%s) SELECT %s FROM c, %s`, n, table, strings.Join(names, ", "), strings.Join(values, ", "), table)
	if _, err := tx.ExecContext(b.Context(), q); err != nil {
		b.Fatal(err)
	}
}

// resident is the memory of this process in MiB, as far as it can be known.
func resident(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Logf("no resident memory here: %v", err)
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
