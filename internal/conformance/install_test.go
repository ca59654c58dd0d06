//go:build !race

package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Environment variables of these tests.
const (
	// kept is a folder in which the npm packages are installed or are to be;
	// without it they are installed anew into a temporary one.
	kept = "PIPELINEBOT_CONFORMANCE_DIR"
	// required makes a missing npm or gh a failure instead of a skip.
	required = "PIPELINEBOT_REQUIRE_CONFORMANCE"
	// every replays all scenarios instead of a choice.
	every = "PIPELINEBOT_CONFORMANCE_ALL"
)

// temporary is removed when the tests have ended.
var temporary = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pipelinebot-conformance-") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := temporary(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// installed is the folder with the scripts and the npm packages they need.
var installed = sync.OnceValues(func() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is not here: %w", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("node is not here: %w", err)
	}
	dir := os.Getenv(kept)
	if dir == "" {
		if dir, err = temporary(); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	scripts, err := filepath.Glob("testdata/*.*js*")
	if err != nil {
		return "", err
	}
	for _, name := range scripts { // anew, also where the packages were kept
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "ajv-formats")); err == nil {
		return dir, nil
	}
	cmd := exec.Command(npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w: %s", err, out)
	}
	return dir, nil
})

// need is the folder with scripts and packages; without them the test is
// skipped, or fails where they are required.
func need(t *testing.T) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		missing(t, err)
	}
	return dir
}

func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv(required) != "" {
		t.Fatalf("%s is set, but: %v", required, err)
	}
	t.Skip(err)
}
