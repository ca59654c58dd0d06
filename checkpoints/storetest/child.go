package storetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// childArg, when set in the environment, makes a test binary a child.
const childArg = "PIPELINEBOT_TEST_CHILD"

// Child is a second process of the test binary, for what only the death of a
// process can show.
type Child struct {
	*testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// BeChild runs the child's part with the argument that StartChild gave, and
// reports whether this process is one. TestMain calls it first; a child that
// fails says why on its standard error and exits.
func BeChild(run func(arg string) error) bool {
	arg := os.Getenv(childArg)
	if arg == "" {
		return false
	}
	if err := run(arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// StartChild starts one. It dies with the test at the latest.
func StartChild(t *testing.T, arg string) *Child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), childArg+"="+arg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &Child{T: t, cmd: cmd, lines: bufio.NewScanner(out)}
}

// Line waits for the next line that the child says; ok is false when it has
// died and all that it said was read.
func (c *Child) Line() (line string, ok bool) {
	c.Helper()
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			c.Fatal(err)
		}
		_ = c.cmd.Wait() // its error is the kill; until then it has its locks
		return "", false
	}
	return c.lines.Text(), true
}

// Rest reads on until the child is dead.
func (c *Child) Rest() {
	c.Helper()
	for alive := true; alive; {
		_, alive = c.Line()
	}
}

// Kill kills the child as kill -9 does. What it said before is still there to
// be read.
func (c *Child) Kill() {
	c.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.Fatal(err)
	}
}
