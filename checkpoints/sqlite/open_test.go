package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// says fails the test unless err's text has all the parts.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q doesn't say %q", err, p)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new folder", "50% #1?")
	if runtime.GOOS == "windows" {
		dir = filepath.Join(t.TempDir(), "new folder")
	}
	s := open(t, sqlite.Options{Path: filepath.Join(dir, "runs.db")})
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "page_size": "8192", "foreign_keys": "1",
		"busy_timeout": "10000", "application_id": "1885500466",
	} {
		var got string
		if err := s.DB().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", pragma, got, err, want)
		}
	}
	if got := s.DB().Stats().MaxOpenConnections; got != 1 {
		t.Errorf("write connections: %d", got)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(s.Path())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the file: %v, %v", info.Mode(), err)
		}
	}
	var seen string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&seen); err != nil || seen != s.Path() {
		t.Errorf("file: got %q, %v, want %q", seen, err, s.Path())
	}
}

// Covers: AR30.
func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := open(t, sqlite.Options{Path: path})
	want, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a", Definition: []byte("flow")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, sqlite.Options{Path: path})
	got, err := s.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("run (-want +got):\n%s", diff)
	}
}

func TestADefinitionIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db")})
	for _, key := range []string{"a", "b", "c"} {
		if _, err := s.Start(t.Context(), checkpoints.StartReq{Key: key, Definition: []byte("flow"), DefinitionHash: "h"}); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM definitions`).Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d definitions, %v", n, err)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := open(t, sqlite.Options{Path: path})
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sqlite.Mode{sqlite.Daemon, sqlite.Shared, sqlite.ReadOnly} {
		_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Mode: mode})
		if !errors.Is(err, checkpoints.ErrNewer) {
			t.Fatalf("mode %d: %v", mode, err)
		}
		says(t, err, "99", "up to 3", "newer program", path)
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	c := daemon(t, path, 1)
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if !errors.Is(err, checkpoints.ErrInUse) {
		t.Fatalf("error: %v", err)
	}
	host, _ := os.Hostname()
	says(t, err, "child, process ", host, "since 20", "stop it first", path)

	reader := open(t, sqlite.Options{Path: path, Mode: sqlite.ReadOnly})
	if runs, err := reader.List(t.Context(), checkpoints.Filter{}); err != nil || len(runs) != 1 {
		t.Fatalf("reading beside the daemon: %v, %v", runs, err)
	}
	shared := open(t, sqlite.Options{Path: path, Mode: sqlite.Shared})
	if err := shared.SetCursor(t.Context(), "c", "1"); err != nil {
		t.Fatalf("writing beside the daemon: %v", err)
	}
	if v, err := reader.Cursor(t.Context(), "c"); err != nil || v != "1" {
		t.Fatalf("reading what another wrote: %q, %v", v, err)
	}
	c.Kill()
	c.Rest()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheLockKnowsFilesByTwoNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "runs.db"), filepath.Join(dir, "link.db")
	open(t, sqlite.Options{Path: path, Owner: "first"})
	if err := os.Symlink(path, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: link})
	if !errors.Is(err, checkpoints.ErrInUse) {
		t.Fatalf("error: %v", err)
	}
	says(t, err, "first", strconv.Itoa(os.Getpid()))
}

// Covers: BL20.
func TestReadOnlyWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	open(t, sqlite.Options{Path: path})
	s := open(t, sqlite.Options{Path: path, Mode: sqlite.ReadOnly})
	_, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k"})
	says(t, err, "can't be written")
}

func TestWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	junk := bytes.Repeat([]byte("this is text, not a database. "), 1000)
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"text", func(t *testing.T, path string) { write(t, path, junk) }, "no SQLite database"},
		{"of another program", func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), `CREATE TABLE recipes (name)`); err != nil {
				t.Fatal(err)
			}
		}, "another program"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "director"},
		{"damaged", func(t *testing.T, path string) {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[100:], junk[:4000]) // the first page after the header: the schema
			write(t, path, b)
		}, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "runs.db")
			c.make(t, path)
			_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			says(t, err, path, c.want)
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	for _, mode := range []sqlite.Mode{sqlite.Shared, sqlite.ReadOnly} {
		_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Mode: mode})
		says(t, err, path, "does not exist", "start the daemon")
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v is not os.ErrNotExist", err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the file was created: %v", err)
		}
	}
	write(t, path, nil)
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Mode: sqlite.ReadOnly})
	says(t, err, "version 0", "start the daemon once")
	if _, err := sqlite.Open(t.Context(), sqlite.Options{}); err == nil {
		t.Fatal("no path, no error")
	}
}
