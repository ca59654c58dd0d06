//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/sandbox"
)

// TestStubbornCommand has the model run a command whose processes ignore the
// polite signals, leave their session, their group and their parents. None may
// be left after the stop label, a SIGTERM or a SIGKILL of the bot.
func TestStubbornCommand(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	exe := program(t)
	for i, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		for j, way := range []string{"label", "term", "kill"} {
			t.Run(string(mode)+"/"+way, func(t *testing.T) {
				t.Parallel()
				if _, err := sandbox.New(sandbox.Options{Mode: mode, CacheDir: t.TempDir()}); err != nil {
					t.Skipf("not here: %v", err)
				}
				stubborn(t, exe, string(mode), way, fmt.Sprintf("%d%d%d", os.Getpid(), i, j))
			})
		}
	}
}

// BenchmarkStop measures the time from a stop to the end of the last process
// of a running command.
func BenchmarkStop(b *testing.B) {
	exe := program(b)
	for _, mode := range []sandbox.Mode{sandbox.Bubblewrap, sandbox.Landlock, sandbox.None} {
		for _, way := range []string{"label", "term", "kill"} {
			b.Run(string(mode)+"/"+way, func(b *testing.B) {
				if _, err := sandbox.New(sandbox.Options{Mode: mode, CacheDir: b.TempDir()}); err != nil {
					b.Skipf("not here: %v", err)
				}
				var sum, worst time.Duration
				for i := range b.N {
					took := stubborn(b, exe, string(mode), way, fmt.Sprintf("%d%d", os.Getpid(), i))
					sum, worst = sum+took, max(worst, took)
				}
				b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/stop")
				b.ReportMetric(float64(worst.Milliseconds()), "ms-worst")
			})
		}
	}
}

// stubborn returns how long the stop took.
func stubborn(t testing.TB, exe, mode, way, mark string) time.Duration {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "worlds", "stubborn-command.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "world.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(src), "98765", mark)), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	w := startWorld(t, exe, file, "http://"+listen+"/webhook")
	dir := t.TempDir()
	env := writeConfig(t, dir, w.ready, settings{listen: listen, poll: "300ms", webhooks: true, sandbox: mode})
	bot := startBot(t, exe, dir, env)
	const all = 4 // sleeps in stubborn.sh, each of another kind
	if !eventually(4*time.Minute, func() bool { return len(sleepers(mark)) >= all }) {
		t.Fatalf("the command does not run: %d of %d processes\n%s", len(sleepers(mark)), all, bot.tail())
	}
	begun := sleepers(mark)
	none := func() bool { return len(alive(begun)) == 0 }
	switch way {
	case "label":
		for s := range w.steps {
			if strings.Contains(s.Text, "pipeline:stop") {
				break
			}
		}
	case "term":
		if err := bot.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	case "kill":
		bot.kill()
	}
	began := time.Now()
	if !eventually(within, none) {
		t.Errorf("after %s: alive %s later: %v\n%s", way, within, alive(begun), bot.tail())
		for _, pid := range alive(begun) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	took := time.Since(began)
	t.Logf("gone after %s", took)
	if way == "label" {
		if f := w.final(t, 4*time.Minute); !f.Passed {
			t.Errorf("the world did not end as the scenario expects: %s\n%s", f.Mismatches, bot.tail())
		}
		bot.terminate(t)
	}
	bot.kill()
	if !eventually(within, func() bool { return len(sleepers(mark)) == 0 }) && mode == string(sandbox.Bubblewrap) {
		t.Errorf("left at the end: %v", sleepers(mark))
	}
	for _, pid := range sleepers(mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return took
}

// sleepers are the processes `sleep MARK`, by the host's numbers.
func sleepers(mark string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // none without /proc
	for _, f := range all {
		var pid int
		line, err := os.ReadFile(f)
		if err != nil || string(line) != "sleep\x00"+mark+"\x00" {
			continue
		}
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pids []int) (left []int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			continue
		}
		left = append(left, pid)
	}
	return left
}

// eventually polls: other processes can't be waited for.
func eventually(limit time.Duration, holds func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !holds(); <-tick.C {
		if time.Now().After(end) {
			return holds()
		}
	}
	return true
}
