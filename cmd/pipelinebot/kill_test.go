//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// killsVar says how many kills are wanted; more than the few of a usual run
// take minutes.
const killsVar = "PIPELINEBOT_KILLS"

// TestKilledAtRandom ends the bot with SIGKILL, and sometimes SIGTERM, at random
// instants of whole pipelines and starts it again. The world must end as the one in which nobody
// dies: one comment, one branch, one pull request, one review. No node may be
// completed twice, and no process may outlive the bot.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	needSandbox(t)
	kills := 6
	if v, ok := os.LookupEnv(killsVar); ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("%s=%q: %v", killsVar, v, err)
		}
		kills = n
	}
	exe := program(t)
	quiet, _ := pipelineWithKills(t, exe, 0, rand.New(rand.NewPCG(1, 1)))
	for round := uint64(1); kills > 0 && !t.Failed(); round++ {
		seed := uint64(time.Now().UnixNano())
		end, done := pipelineWithKills(t, exe, min(kills, 12), rand.New(rand.NewPCG(seed, round)))
		if diff := cmp.Diff(quiet, end); diff != "" {
			t.Errorf("seed %d, %d kills: the world without a death (-) is not the one with them (+):\n%s", seed, done, diff)
		}
		if kills -= done; done == 0 {
			t.Fatal("the pipeline was over before the first kill")
		}
	}
}

// pipelineWithKills plays one pipeline with at most that many kills.
func pipelineWithKills(t *testing.T, exe string, kills int, random *rand.Rand) (endOfWorld, int) {
	t.Helper()
	listen := freeAddress(t)
	w := startWorld(t, exe, filepath.Join("testdata", "worlds", "repeating-model.yaml"), "http://"+listen+"/webhook")
	dir := t.TempDir()
	env := writeConfig(t, dir, w.ready, settings{listen: listen, poll: "300ms", webhooks: true})
	bot := startBot(t, exe, dir, env)
	done, hasty := 0, 0
	for ; done < kills; done++ {
		// Some die as soon as they live. A run that is begun many times without
		// getting anywhere rightly goes to a person, so not too many in a row.
		life := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		if hasty++; hasty > 2 || random.IntN(2) == 0 {
			hasty, life = 0, time.Second+time.Duration(random.Int64N(int64(3*time.Second)))
		}
		if w.over(life) {
			break
		}
		// Now and then it is asked to end, or frozen for a while before.
		how := random.IntN(4)
		if how == 1 {
			bot.freeze(t, time.Second)
		}
		if how == 0 {
			bot.terminate(t)
		} else {
			bot.kill()
		}
		if left := survivors(dir, within); left != "" {
			t.Errorf("kill %d, after %s: processes outlive the bot:\n%s", done+1, life, left)
		}
		bot = startBot(t, exe, dir, env)
	}
	final := w.final(t, 8*time.Minute)
	if !final.Passed {
		t.Errorf("after %d kills the world did not end as the scenario expects:\n%s\nthe bot's log, last part:\n%s", done, final.Mismatches, bot.tail())
	}
	booksClosed(t, exe, dir, env)
	bot.terminate(t)
	if left := survivors(dir, within); left != "" {
		t.Errorf("processes outlive the bot that ended in order:\n%s", left)
	}
	completedOnce(t, exe, dir, env)
	return normalised(final.World), done
}

// freeze stops the process and lets it go on.
func (b *botProcess) freeze(t *testing.T, d time.Duration) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := b.cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
		if sig == syscall.SIGSTOP {
			<-time.After(d)
		}
	}
}

// completedOnce reads the bot's books: a node that is completed twice was done,
// and paid, although it was checkpointed.
func completedOnce(t *testing.T, exe, dir string, env []string) {
	t.Helper()
	for list := json.NewDecoder(bytes.NewReader(ask(t, exe, dir, env, "runs", "list"))); list.More(); {
		var run struct{ ID, Phase, Status string }
		if err := list.Decode(&run); err != nil {
			t.Fatal(err)
		}
		var whole struct {
			History []struct {
				Node  string
				Usage struct {
					ModelCalls int `json:"model_calls"`
				}
			}
		}
		if err := json.Unmarshal(ask(t, exe, dir, env, "runs", "show", run.ID), &whole); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, n := range whole.History {
			seen[n.Node]++
			if seen[n.Node] > 1 && n.Usage.ModelCalls > 0 {
				t.Errorf("%s: the node %s was completed, and paid, %d times", run.Phase, n.Node, seen[n.Node])
			}
		}
		if run.Status != "done" || len(whole.History) == 0 {
			t.Errorf("%s: status %q after %d nodes", run.Phase, run.Status, len(whole.History))
		}
	}
}

// ask runs a command that only reads.
func ask(t *testing.T, exe, dir string, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), exe, append(args, "--json")...)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// booksClosed waits until the last phase is closed in the books: the world has
// its end a moment earlier.
func booksClosed(t *testing.T, exe, dir string, env []string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		list := ask(t, exe, dir, env, "runs", "list")
		if !bytes.Contains(list, []byte(`"status":"ending"`)) && !bytes.Contains(list, []byte(`"status":"running"`)) {
			return
		}
	}
	t.Error("a run is still open 30 seconds after the world had its end")
}

// over waits for the end of the story for a while.
func (w *worldProcess) over(limit time.Duration) bool {
	select {
	case f := <-w.done:
		w.done <- f
		return true
	case <-time.After(limit):
		return false
	}
}

// survivors names the processes that still have to do with a folder after a
// grace period: by their command line, working directory or environment.
func survivors(dir string, grace time.Duration) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	for end := time.Now().Add(grace); ; {
		found := holders(dir)
		if found == "" || time.Now().After(end) {
			return found
		}
		runtime.Gosched()
	}
}

func holders(dir string) string {
	all, _ := filepath.Glob("/proc/[0-9]*") // its absence finds nothing
	var found strings.Builder
	for _, p := range all {
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(p, "environ"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if len(cmdline) == 0 || filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue // a kernel thread or a zombie; or this test
		}
		if text := string(cmdline) + string(environ) + cwd; strings.Contains(text, dir+"/") || cwd == dir {
			fmt.Fprintf(&found, "%s: %s (in %s)\n", p, strings.ReplaceAll(string(cmdline), "\x00", " "), cwd)
		}
	}
	return found.String()
}
