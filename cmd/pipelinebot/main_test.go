package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pipelinebot/pipelinebot/internal/sandbox"
)

// within is how long a test waits for the end of what was stopped. The promise
// is two seconds; a machine that is busy with other tests may take longer, so
// that the promise itself is measured by BenchmarkStop.
const within = 30 * time.Second

// TestMain lets the test binary be the program, too: under the name
// "pipelinebot" it runs main.
func TestMain(m *testing.M) {
	// The landlock sandbox starts this executable again, by its own path.
	if handled, code := sandbox.Child(os.Args, os.Stderr); handled {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"pipelinebot": main})
}

// TestScripts drives the real command line.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code, "busyport": busyPort, "seedruns": seedRuns},
	})
}

// code runs a command that must end with the given exit code:
//
//	code 2 pipelinebot config check
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// busyPort listens on a port until the script's end and writes it into a file
// in place of the word PORT:
//
//	busyport config.yaml
func busyPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: busyport file")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "PORT", port)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// program is a path under which this test binary runs main.
func program(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "pipelinebot")
	if err := os.Symlink(exe, link); err != nil {
		t.Skipf("no symbolic links here, so that the test binary cannot be the program: %v", err)
	}
	return link
}

// needSandbox skips where repository commands cannot be confined. CI makes
// sure that it never does there.
func needSandbox(t testing.TB) {
	t.Helper()
	_, err := sandbox.New(sandbox.Options{Mode: sandbox.Auto, CacheDir: t.TempDir()})
	if err == nil {
		return
	}
	if os.Getenv("PIPELINEBOT_REQUIRE_SANDBOX") != "" {
		t.Fatal(err)
	}
	t.Skipf("no sandbox here: %v", err)
}
