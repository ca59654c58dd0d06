package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Pruning many runs takes several transactions; the room that they leave stays
// in the file until Compact gives it back.
//
// Covers: NX10, BL24.
func TestPruneAndCompact(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := open(t, sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db"), Clock: clk, Synchronous: sqlite.Normal})
	l := claim(t, s, "k")
	last := node(1)
	last.Next, last.Ending = "", &checkpoints.Ended{Result: "done"}
	if err := s.Commit(t.Context(), l, last); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Finish(t.Context(), l, checkpoints.Done, nil); err != nil {
		t.Fatal(err)
	}
	const more = 1100
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	multiply(t, tx, "runs", more, map[string]string{"n": "n + i", "id": "id || i", "key": "key || i", "last": "last + i"})
	multiply(t, tx, "history", more, map[string]string{"n": "n + i", "run": "run + i"})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	full := size(t, s)
	clk.Advance(time.Hour)
	if n, err := s.Prune(t.Context(), checkpoints.Retention{Before: clk.Now(), Keep: 1}); err != nil || n != more {
		t.Fatalf("pruned %d, %v", n, err)
	}
	runs, err := s.List(t.Context(), checkpoints.Filter{})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs are left, %v", len(runs), err)
	}
	if history, err := s.History(t.Context(), runs[0].ID); err != nil || len(history) != 1 {
		t.Fatalf("%d nodes are left, %v", len(history), err)
	}
	var rows int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM history`).Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d nodes are left of all runs, %v", rows, err)
	}
	if got := size(t, s); got != full {
		t.Errorf("the file went from %d to %d bytes by itself", full, got)
	}
	freed, err := s.Compact(t.Context())
	if got := size(t, s); err != nil || freed < full/2 || got != full-freed {
		t.Errorf("freed %d of %d bytes, %d are left, %v", freed, full, got, err)
	}
	if err := s.SetCursor(t.Context(), "c", "1"); err != nil {
		t.Error(err)
	}
}

// What a run leaves on disk grows with what its nodes change, not with its
// history: the second half of 1,000 visits of a loop takes no more than the
// first.
//
// Covers: NX10, CN33.
func TestALongLoopGrowsLinearly(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: sqlite.Normal})
	l := claim(t, s, "k")
	var halves [2]int64
	for seq := int64(1); seq <= 1000; seq++ {
		if err := s.Commit(t.Context(), l, node(seq)); err != nil {
			t.Fatal(err)
		}
		if seq%500 == 0 {
			halves[seq/500-1] = size(t, s)
		}
	}
	second := halves[1] - halves[0]
	if second > 500*3<<10 {
		t.Errorf("%d bytes a node of 2 KB", second/500)
	}
	if first := halves[0]; second > first {
		t.Errorf("the first half took %d bytes, the second %d", first, second)
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
