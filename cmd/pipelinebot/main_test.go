package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code, "heard": heard, "busyport": busyPort, "seedruns": seedRuns},
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

// heard runs a command until its standard error matches a pattern, and then
// interrupts it, upon which it must end by itself, and not well:
//
//	heard PATTERN command [args...]
func heard(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: heard PATTERN command [args...]")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, inPath(ts.Getenv("PATH"), args[1]), args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "TOKEN"} {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	out, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	found := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !found && pattern.MatchString(lines.Text()) {
			found = true
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
		_, err := fmt.Fprintln(ts.Stderr(), lines.Text())
		ts.Check(err)
	}
	if err := cmd.Wait(); err == nil || !found {
		ts.Fatalf("%v ended with %v, heard: %v", args[1:], err, found)
	}
}

// inPath is a program's path in a script's own search path.
func inPath(path, program string) string {
	for _, dir := range filepath.SplitList(path) {
		if full, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return full
		}
	}
	return program
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
