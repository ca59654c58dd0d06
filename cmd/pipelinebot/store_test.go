package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// TestNewerDatabase refuses a database that a newer version wrote, before
// anything in it is touched.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "data", "pipelinebot.db")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	text := "github: {base_url: \"http://127.0.0.1:1/api/v3/\", token_env: T, webhooks: false}\nrepositories: [{name: a/b}]\n" +
		"models: {backends: {m: {driver: openai, base_url: \"http://127.0.0.1:1/v1\"}}, default: {model: x}}\nserver: {listen: \"127.0.0.1:0\"}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"runs", "list"}, {"runs", "show", "abcd"}} {
		cmd := exec.CommandContext(t.Context(), program(t), append(args, "--config", config)...)
		cmd.Env = append(cmd.Environ(), "T=token")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "newer version") {
			t.Errorf("%v: %v, exit code %d, want 2:\n%s", args, err, cmd.ProcessState.ExitCode(), out)
		}
	}
}
