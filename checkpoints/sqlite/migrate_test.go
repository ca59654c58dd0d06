package sqlite

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// version makes a file as the program of an earlier schema left it.
func version(t *testing.T, n int64, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runs.db")
	s := &Store{path: path}
	if err := s.prepareFile(Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	defer s.lock.release()
	db, err := connect(path, Options{}.withDefaults(), false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return path
}

// runV1 is a run of schema 1.
func runV1(id, key, status string, seq int, state string) string {
	return `INSERT INTO runs (id, key, trigger_key, lineage, repo, repo_folded, issue, phase, flow, round, status, epoch, seq, next,
			state, definition_id, definition_hash, actions, token_at, created_at, updated_at)
		VALUES ('` + id + `', '` + key + `', '', 'l', 'a/b', 'a/b', 7, 'plan', 'plan', 1, '` + status + `', 3, ` +
		string(rune('0'+seq)) + `, 'n', '` + state + `', 'd', 'h', '{}', 0, 1000000, 2000000)`
}

// What the first version of the program wrote can be read, worked on and
// pruned.
//
// Covers: NX6.
func TestMigrationFromTheFirstVersion(t *testing.T) {
	t.Parallel()
	node := `INSERT INTO nodes VALUES ('open', 1, 'a', 'step', 1, 1, 'ok', 'n', '{"x":1}', 'null', '', 'note', '{"micro_usd":5}', 1000000, 7)`
	path := version(t, 1,
		`INSERT INTO definitions (id, content) VALUES ('d', x'666c6f77')`,
		runV1("old", "k", "done", 0, `{}`), runV1("open", "k", "ready", 2, `{"x":2}`), runV1("fresh", "k2", "ready", 0, `{"x":1}`),
		node,
		`INSERT INTO nodes VALUES ('open', 2, 'b', 'gate', 1, 1, 'ok', 'n', '', '[{"to":"n","taken":true}]', 'e', '', '{}', 1000000, 0)`,
		`INSERT INTO inbox (id, delivery, key, kind, body, at, decision, token_at) VALUES ('e', '', '', 'x', '{}', 1000000, 'start', 0)`,
		`INSERT INTO inbox (id, delivery, key, kind, body, at, token_at) VALUES ('p', '', '', 'x', '{}', 1000000, 0)`,
	)
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	got := map[string]any{}
	for _, id := range []string{"old", "open", "fresh"} {
		r, err := s.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		got[id] = []string{string(r.Status), string(r.State), string(r.Initial)}
	}
	want := map[string]any{
		"old": []string{"done", "{}", "{}"}, "open": []string{"ready", `{"x":2}`, ""}, "fresh": []string{"ready", `{"x":1}`, `{"x":1}`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	history, err := s.History(ctx, "open")
	at := time.Unix(1, 0).UTC()
	if diff := cmp.Diff([]checkpoints.NodeRecord{
		{
			Seq: 1, Node: "a", Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok", Next: "n", Delta: json.RawMessage(`{"x":1}`),
			Note: "note", Usage: checkpoints.Usage{MicroUSD: 5}, Began: at, Took: 7 * time.Microsecond,
		},
		{
			Seq: 2, Node: "b", Kind: "gate", Visit: 1, Attempt: 1, Outcome: "ok", Next: "n",
			Guards: []checkpoints.Guard{{To: "n", Taken: true}}, EventKey: "e", Began: at,
		},
	}, history); err != nil || diff != "" {
		t.Errorf("history: %v (-want +got):\n%s", err, diff)
	}
	versions, err := s.Versions(ctx, "plan")
	if diff := cmp.Diff([]checkpoints.FlowVersion{{Flow: "plan", N: 1, Hash: "h", Definition: []byte("flow"), First: at}}, versions); err != nil || diff != "" {
		t.Errorf("versions: %v (-want +got):\n%s", err, diff)
	}
	if _, err := s.Start(ctx, checkpoints.StartReq{Key: "k"}); !errors.Is(err, checkpoints.ErrConflict) {
		t.Errorf("a second open run of the key: %v", err)
	}
	_, l, err := s.Claim(ctx, "open", 3, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(ctx, l, step(3, 1)); err != nil {
		t.Error(err)
	}
	if n, err := s.Prune(ctx, checkpoints.Retention{Before: time.Unix(10, 0)}); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if rows, err := s.Inbox(ctx, 0); err != nil || len(rows) != 1 || rows[0].ID != "p" {
		t.Errorf("inbox: %v, %v", rows, err)
	}
}
