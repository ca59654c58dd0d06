package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// childPath, when set in the environment, makes the test binary a daemon that
// commits to that file until it is killed.
const childPath = "PIPELINEBOT_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child commits nodes of one run and prints each seq that was acknowledged.
func child(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	if err := s.ExpireAll(ctx); err != nil {
		return err
	}
	r, err := s.Start(ctx, checkpoints.StartReq{Key: "k", Entry: "n"})
	if r.ID == "" {
		return err // but a conflict names the run of the child before
	}
	_, l, err := s.Claim(ctx, r.ID, r.Epoch, "child", time.Hour)
	if err != nil {
		return err
	}
	fmt.Println(r.Seq)
	for seq := r.Seq + 1; ; seq++ {
		err := s.Commit(ctx, l, checkpoints.Commit{
			Record: checkpoints.NodeRecord{Node: "n", Outcome: "ok"}, Seq: seq, Next: "n",
			State: json.RawMessage(fmt.Sprintf(`{"seq":%d}`, seq)),
		})
		if err != nil {
			return err
		}
		fmt.Println(seq)
	}
}

// daemon starts a child and returns its acknowledged seqs, which end with it,
// and a way to kill it.
func daemon(t *testing.T, path string) (acked *bufio.Scanner, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), childPath+"="+path)
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
	return bufio.NewScanner(out), func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every commit that was acknowledged is there after a kill -9, whole, and the
// next daemon gets the file at once.
func TestKilledDaemonLosesNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/runs.db"
	for round := range 3 {
		acked, kill := daemon(t, path)
		var last int64
		for n := 0; acked.Scan(); n++ {
			seq, err := strconv.ParseInt(acked.Text(), 10, 64)
			if err != nil {
				t.Fatalf("child said %q", acked.Text())
			}
			last = seq
			if n == 20+7*round {
				kill()
			}
		}
		s := open(t, sqlite.Options{Path: path})
		runs, err := s.List(t.Context(), checkpoints.Filter{})
		if err != nil || len(runs) != 1 {
			t.Fatalf("runs: %v, %v", runs, err)
		}
		r := runs[0]
		if r.Seq < last || last == 0 {
			t.Fatalf("acknowledged %d, found %d", last, r.Seq)
		}
		if want := fmt.Sprintf(`{"seq":%d}`, r.Seq); string(r.State) != want {
			t.Fatalf("state %s of seq %d", r.State, r.Seq)
		}
		history, err := s.History(t.Context(), r.ID)
		if err != nil || int64(len(history)) != r.Seq {
			t.Fatalf("%d nodes of %d, %v", len(history), r.Seq, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
