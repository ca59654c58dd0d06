package bench_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the store

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// floor is what the driver can do at most: a transaction that writes what the
// store must write for a node, as two prepared statements. It replaces the
// state of a run and appends what the node changed.
func floor(b *testing.B, level sqlite.Synchronous, m mode) {
	path := file(b)
	q := url.Values{
		"_pragma":       {"page_size(8192)"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {string(level)},
		"_txlock":       {"immediate"},
	}
	db, err := sql.Open("sqlite", "file://"+path+"?"+q.Encode())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, stmt := range []string{
		`CREATE TABLE runs (id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, state TEXT NOT NULL) STRICT`,
		`CREATE TABLE nodes (run TEXT NOT NULL, seq INTEGER NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (run, seq)) STRICT`,
	} {
		if _, err := db.ExecContext(b.Context(), stmt); err != nil {
			b.Fatal(err)
		}
	}
	change, err := db.PrepareContext(b.Context(), `UPDATE runs SET seq = ?, state = ? WHERE id = ? AND seq = ?`)
	if err != nil {
		b.Fatal(err)
	}
	add, err := db.PrepareContext(b.Context(), `INSERT INTO nodes (run, seq, delta) VALUES (?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	var runs, commits int
	turn := func() {
		id := fmt.Sprintf("run-%020d", runs)
		if _, err := db.ExecContext(b.Context(), `INSERT INTO runs VALUES (?, 0, ?)`, id, stateOf(0)); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for seq := 1; seq <= nodes; seq++ {
			state := stateOf(seq)
			delta := state
			if m == kept {
				state, delta = stateOf(0), fmt.Sprintf(`{"n":%d}`, seq)
			}
			tx, err := db.BeginTx(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := tx.StmtContext(b.Context(), change).ExecContext(b.Context(), seq, state, id, seq-1); err != nil {
				b.Fatal(err)
			}
			if _, err := tx.StmtContext(b.Context(), add).ExecContext(b.Context(), id, seq, delta); err != nil {
				b.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		spent += time.Since(began)
		runs, commits = runs+1, commits+nodes
	}
	for range warm {
		turn()
	}
	spent, commits = 0, 0
	for b.Loop() {
		turn()
	}
	if _, err := os.Stat(path); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(commits)/spent.Seconds(), "checkpoints/s")
}

func stateOf(n int) string {
	return fmt.Sprintf(`{"n":%d,"payload":%q,"result":"none"}`, n, text(bytes, n))
}
