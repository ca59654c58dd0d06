package strictyaml

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int{"empty": 0, "small": 10, "just": maxBytes, "large": 3 * maxBytes} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if src, err := ReadFile(path); err != nil || len(src) != min(size, maxBytes+1) {
			t.Errorf("%s: read %d bytes of %d: %v", name, len(src), size, err)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadFile(dir); err == nil {
		t.Error("a folder was read")
	}
}

// What has no end is not opened: a device, and a pipe nobody writes to.
func TestReadFileWithoutEnd(t *testing.T) {
	t.Parallel()
	const endless = "/dev/zero"
	if _, err := os.Stat(endless); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{endless, t.TempDir()} {
		if _, err := ReadFile(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
