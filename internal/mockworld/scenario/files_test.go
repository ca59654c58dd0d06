package scenario

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFiles loads every scenario of the project; that they hold, and that each
// of their claims bites, is shown where the real program is at hand.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "scenarios", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 24 {
		t.Errorf("%d scenarios, want at least 24", len(files))
	}
	var covered []string
	names := map[string]string{}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load(filepath.Base(f), src)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if other := names[s.Name]; other != "" {
			t.Errorf("%s and %s have one name", other, s.File)
		}
		names[s.Name] = s.File
		covered = append(covered, s.Covers...)
	}
	for _, k := range Kinds() {
		if !slices.Contains(covered, k) {
			t.Errorf("no scenario covers %s", k)
		}
	}
}
