package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// fresh is an empty file with today's schema. To migrate one takes longer than
// most tests.
var fresh = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "fresh-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "runs.db")
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Fresh makes path an empty file with today's schema.
func Fresh(tb testing.TB, path string) string {
	tb.Helper()
	content, err := fresh()
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
