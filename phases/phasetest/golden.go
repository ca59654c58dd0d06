package phasetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden compares got with testdata/name. A test binary that declares the
// flag -update rewrites the file with it.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	old, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(old), len(now)) {
		a, b := at(old, i), at(now, i)
		if a != b {
			t.Errorf("%s, line %d (-want +got):\n-%s\n+%s", path, i+1, a, b)
			return
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
