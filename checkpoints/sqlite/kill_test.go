package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
)

// Of 64 runs that commit at once, and so share transactions, every node that
// was acknowledged is there after a kill -9, whole and in order, and the next
// daemon gets the file at once.
//
// Covers: CN20, CN21, HF10, VK21, NX5.
func TestKilledDaemonLosesNothing(t *testing.T) {
	t.Parallel()
	const writers = 64
	path := t.TempDir() + "/runs.db"
	acked := map[int]int64{}
	for round := range 3 {
		c := daemon(t, path, writers)
		for n := 0; ; n++ {
			line, ok := c.Line()
			if !ok {
				break
			}
			var i int
			var seq int64
			if _, err := fmt.Sscanf(line, "%d %d", &i, &seq); err != nil {
				t.Fatalf("the child said %q", line)
			}
			if seq <= acked[i] || round == 0 && seq != acked[i]+1 { // what the last child did may not have been read
				t.Fatalf("run %d: acknowledged %d after %d", i, seq, acked[i])
			}
			acked[i] = seq
			if n == 500+333*round {
				c.Kill()
			}
		}
		s := open(t, sqlite.Options{Path: path})
		runs, err := s.List(t.Context(), checkpoints.Filter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for i := range writers {
			intact(t, s, runs, fmt.Sprint("k", i), acked[i])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// intact fails the test unless a run's nodes are there without a gap, at least
// up to the one that was acknowledged last.
func intact(t *testing.T, s *sqlite.Store, runs []checkpoints.Run, key string, acked int64) {
	t.Helper()
	for _, r := range runs {
		if r.Key != key {
			continue
		}
		if r.Seq < acked {
			t.Fatalf("run %s: acknowledged %d, found %d", key, acked, r.Seq)
		}
		if want := fmt.Sprintf(`{"seq":%d}`, r.Seq); r.Seq > 0 && string(r.State) != want {
			t.Fatalf("run %s: state %s of seq %d", key, r.State, r.Seq)
		}
		history, err := s.History(t.Context(), r.ID)
		if err != nil || int64(len(history)) != r.Seq {
			t.Fatalf("run %s: %d nodes of %d, %v", key, len(history), r.Seq, err)
		}
		for i, h := range history {
			if h.Seq != int64(i+1) {
				t.Fatalf("run %s: node %d in place of %d", key, h.Seq, i+1)
			}
		}
		return
	}
	t.Fatalf("run %s is gone", key)
}
