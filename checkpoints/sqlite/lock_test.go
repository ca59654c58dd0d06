package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func holderOf(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readHolder(f)
}

func TestHolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, content, want string }{
		{"whole", `{"pid":12,"host":"box","owner":"bot","since":"2026-03-01T12:00:00Z"}`, "bot, process 12 on box, since 2026-03-01T12:00:00Z"},
		{"no owner", `{"pid":12,"host":"box","since":"2026-03-01T12:00:00Z"}`, "process 12 on box, since 2026-03-01T12:00:00Z"},
		{"empty", ``, "another process that has not written its name yet"},
		{"cut", `{"pid":12,"ho`, "another process that has not written its name yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := holderOf(t, []byte(c.content)); got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLockIsFreeAfterRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	for range 3 {
		l, err := takeLock(path, "me", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := takeLock(path, "you", time.Now()); err == nil || !strings.Contains(err.Error(), "me, process") {
			t.Fatalf("second lock: %v", err)
		}
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
	}
}

// Held says who has the file, and hinders nobody from taking it.
func TestHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	if by, held, err := Held(path); held || err != nil {
		t.Fatalf("nothing is there: %q, %v, %v", by, held, err)
	}
	l, err := takeLock(path+lockSuffix, "me", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if by, held, err := Held(path); !held || err != nil || !strings.Contains(by, "me, process") {
		t.Fatalf("held: %q, %v, %v", by, held, err)
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for range 100 {
			if by, held, err := Held(path); err != nil || held && !strings.Contains(by, "process") {
				t.Errorf("looking: %q, %v, %v", by, held, err)
			}
		}
	}()
	for range 20 {
		l, err := takeLock(path+lockSuffix, "me", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzHolder(f *testing.F) {
	f.Add([]byte(`{"pid":12,"host":"box","owner":"bot","since":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if holderOf(t, content) == "" {
			t.Fatal("no name for the holder")
		}
	})
}
