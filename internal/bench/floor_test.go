package bench_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the store

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// floor is what the driver can do at most: a transaction that writes what the
// store must write for a node, as two prepared statements. It replaces the
// state of a run and appends what the node changed.
type floor struct {
	b             *testing.B
	mode          mode
	db            *sql.DB
	change, add   *sql.Stmt
	runs, commits int
	spent         time.Duration
}

func newFloor(b *testing.B, level sqlite.Synchronous, m mode) *floor {
	b.Helper()
	q := url.Values{
		"_pragma":       {"page_size(8192)"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {string(level)},
		"_txlock":       {"immediate"},
	}
	db, err := sql.Open("sqlite", "file://"+file(b)+"?"+q.Encode())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for _, stmt := range []string{
		`CREATE TABLE runs (id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, state TEXT NOT NULL) STRICT`,
		`CREATE TABLE nodes (run TEXT NOT NULL, seq INTEGER NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (run, seq)) STRICT`,
	} {
		if _, err := db.ExecContext(b.Context(), stmt); err != nil {
			b.Fatal(err)
		}
	}
	f := &floor{b: b, mode: m, db: db}
	if f.change, err = db.PrepareContext(b.Context(), `UPDATE runs SET seq = ?, state = ? WHERE id = ? AND seq = ?`); err != nil {
		b.Fatal(err)
	}
	if f.add, err = db.PrepareContext(b.Context(), `INSERT INTO nodes (run, seq, delta) VALUES (?, ?, ?)`); err != nil {
		b.Fatal(err)
	}
	return f
}

func (f *floor) reset() { f.spent, f.commits = 0, 0 }

// run writes the checkpoints of one run, the sink's included, which changes
// nothing. Its row is made before the time counts.
func (f *floor) run() {
	f.b.Helper()
	ctx := f.b.Context()
	id := fmt.Sprintf("run-%020d", f.runs)
	if _, err := f.db.ExecContext(ctx, `INSERT INTO runs VALUES (?, 0, ?)`, id, stateOf(0)); err != nil {
		f.b.Fatal(err)
	}
	began := time.Now()
	for seq := 1; seq <= nodes+1; seq++ {
		state := stateOf(min(seq, nodes))
		delta := state
		if f.mode == kept {
			state, delta = stateOf(0), fmt.Sprintf(`{"n":%d}`, seq)
		}
		if seq > nodes {
			delta = ""
		}
		tx, err := f.db.BeginTx(ctx, nil)
		if err != nil {
			f.b.Fatal(err)
		}
		if _, err := tx.StmtContext(ctx, f.change).ExecContext(ctx, seq, state, id, seq-1); err != nil {
			f.b.Fatal(err)
		}
		if _, err := tx.StmtContext(ctx, f.add).ExecContext(ctx, id, seq, delta); err != nil {
			f.b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			f.b.Fatal(err)
		}
	}
	f.spent += time.Since(began)
	f.runs, f.commits = f.runs+1, f.commits+nodes+1
}

func stateOf(n int) string {
	return fmt.Sprintf(`{"n":%d,"payload":%q,"result":"none"}`, n, text(bytes, n))
}
