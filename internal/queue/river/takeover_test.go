package river_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/queue/river"
)

func TestMain(m *testing.M) {
	if storetest.BeChild(hang) {
		return
	}
	goleak.VerifyTestMain(m)
}

// hang is a daemon on a file whose worker claims a run, prints the fence of
// its claim and then does nothing for ever.
func hang(path string) error {
	ctx := context.Background()
	s, q, err := daemon(ctx, path)
	if err != nil {
		return err
	}
	err = q.Start(ctx, func(ctx context.Context, tok queue.Token) error {
		_, l, err := s.Claim(ctx, tok.ID, tok.Epoch, "child", time.Hour)
		if err != nil {
			return err
		}
		fmt.Println(l.Fence)
		select {}
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"first", "second"} { // one worker: the second token stays in the queue
		if _, err := s.Start(ctx, checkpoints.StartReq{Key: key, Entry: "a"}); err != nil {
			return err
		}
	}
	fmt.Println("started")
	select {}
}

// daemon opens a store with its queue.
func daemon(ctx context.Context, path string) (*sqlite.Store, *river.Queue, error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return nil, nil, err
	}
	q, err := river.New(ctx, river.Options{DB: s.DB(), Workers: 1})
	if err != nil {
		return nil, nil, err
	}
	s.SetEnqueuer(q.Enqueue)
	return s, q, nil
}

// After a kill -9 the next daemon works on the run in flight, fenced off from
// the dead one, and on the token that was still in the queue.
func TestTakeoverAfterKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	c := storetest.StartChild(t, path)
	var fence int64
	var err error
	for started := false; fence == 0 || !started; {
		line, ok := c.Line()
		if !ok {
			t.Fatal("the child has died by itself")
		}
		if line == "started" {
			started = true
		} else if fence, err = strconv.ParseInt(line, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill()
	c.Rest()

	s, q, err := daemon(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.ExpireAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context(), time.Hour); err != nil || n != 1 {
		t.Fatalf("swept %d, %v", n, err)
	}
	claims := make(chan checkpoints.Run, 10)
	err = q.Start(t.Context(), func(ctx context.Context, tok queue.Token) error {
		r, _, err := s.Claim(ctx, tok.ID, tok.Epoch, "heir", time.Hour)
		claims <- r
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for range 2 {
		select {
		case r := <-claims:
			seen[r.Key] = r.Epoch
		case <-time.After(20 * time.Second):
			t.Fatalf("waited in vain; seen %v", seen)
		}
	}
	if seen["first"] <= fence || seen["second"] == 0 {
		t.Fatalf("claims %v after fence %d", seen, fence)
	}
	dead := checkpoints.Lease{Owner: "child", Fence: fence}
	for _, r := range list(t, s) {
		dead.RunID = r.ID
		if err := s.Renew(t.Context(), dead, time.Hour); err == nil {
			t.Fatalf("the dead process's lease of %s holds", r.Key)
		}
	}
	if err := q.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *sqlite.Store) []checkpoints.Run {
	t.Helper()
	runs, err := s.List(t.Context(), checkpoints.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}
