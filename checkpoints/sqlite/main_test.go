package sqlite_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
)

func TestMain(m *testing.M) {
	if storetest.BeChild(child) {
		return
	}
	if sqlite.Raced { // the only property is of one goroutine, of no interest to the detector
		if err := flag.Set("rapid.checks", "10"); err != nil {
			log.Fatal(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// daemon starts a child in which a number of runs commit to a file until it is
// killed. It says "began" and then "RUN SEQ" for each node that was
// acknowledged.
func daemon(t *testing.T, path string, writers int) *storetest.Child {
	t.Helper()
	c := storetest.StartChild(t, fmt.Sprintf("%d %s", writers, path))
	if line, _ := c.Line(); line != "began" {
		t.Fatalf("the child said %q", line)
	}
	return c
}

func child(arg string) error {
	var writers int
	var path string
	if _, err := fmt.Sscanf(arg, "%d %s", &writers, &path); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	if err := s.ExpireAll(ctx); err != nil {
		return err
	}
	begin := []func() error{}
	for i := range writers {
		r, err := s.Start(ctx, checkpoints.StartReq{Key: fmt.Sprint("k", i), Entry: "n"})
		if r.ID == "" {
			return err // but a conflict names the run of the child before
		}
		_, l, err := s.Claim(ctx, r.ID, r.Epoch, "child", time.Hour)
		if err != nil {
			return err
		}
		begin = append(begin, func() error { return commitForEver(ctx, s, i, l, r.Seq) })
	}
	fmt.Fprintln(os.Stdout, "began")
	failed := make(chan error)
	for _, f := range begin {
		go func() { failed <- f() }()
	}
	return <-failed
}

func commitForEver(ctx context.Context, s *sqlite.Store, i int, l checkpoints.Lease, seq int64) error {
	for {
		seq++
		err := s.Commit(ctx, l, checkpoints.Commit{
			Record: checkpoints.NodeRecord{Node: "n", Outcome: "ok"}, Seq: seq, Next: "n",
			State: json.RawMessage(fmt.Sprintf(`{"seq":%d}`, seq)),
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(os.Stdout, "%d %d\n", i, seq); err != nil { // one write a line
			return err
		}
	}
}
