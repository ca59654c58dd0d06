//go:build unix

package sqlite

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the lock's place is refused; to open it would wait for ever.
func TestLockThatIsAPipe(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "bot.db")
	if err := syscall.Mkfifo(db+lockSuffix, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Held(db); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("Held: %v", err)
	}
	if _, err := Open(t.Context(), Options{Path: db}); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("Open: %v", err)
	}
}
