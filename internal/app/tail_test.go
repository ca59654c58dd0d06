package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// window is a reader of the newest of its runs.
type window struct {
	Reader
	runs    []checkpoints.Run // newest first
	history error
}

func (w *window) List(_ context.Context, f checkpoints.Filter) ([]checkpoints.Run, error) {
	return w.runs[:min(f.Limit, len(w.runs))], nil
}

func (w *window) History(_ context.Context, id string) ([]checkpoints.NodeRecord, error) {
	return []checkpoints.NodeRecord{{Seq: 1, Node: "node of " + id}}, w.history
}

// add starts a run that has done one node and is over.
func (w *window) add(n int) {
	at := time.Date(2026, 3, 1, 9, 0, n, 0, time.UTC)
	run := checkpoints.Run{ID: fmt.Sprint(n), Seq: 1, Status: checkpoints.Done, Created: at, Updated: at.Add(time.Second)}
	w.runs = append([]checkpoints.Run{run}, w.runs...)
}

// What a tail keeps does not grow with the runs that go by, and nothing is
// told twice, even when older runs come into sight again.
func TestTailForgets(t *testing.T) {
	t.Parallel()
	w := &window{}
	tail := NewTail(w, "")
	next := func() (told []string) {
		t.Helper()
		news, _, err := tail.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range news {
			what := string(n.Run.Status)
			if n.Node != nil {
				what = n.Node.Node
			}
			told = append(told, n.Run.ID+": "+what)
		}
		return told
	}
	for n := range 3 * tailed {
		w.add(n)
		got := next()
		if want := []string{fmt.Sprintf("%d: node of %d", n, n), fmt.Sprintf("%d: done", n)}; cmp.Diff(want, got) != "" {
			t.Fatalf("run %d: told %q", n, got)
		}
	}
	if len(tail.told) != tailed {
		t.Errorf("%d runs are kept, want %d", len(tail.told), tailed)
	}
	w.runs = w.runs[tailed/2:] // newer ones were deleted
	if got := next(); got != nil {
		t.Errorf("told again: %q", got)
	}
	w.runs[tailed-1].Status = checkpoints.Halted
	if diff := cmp.Diff([]string{w.runs[tailed-1].ID + ": halted"}, next()); diff != "" {
		t.Errorf("what an older run does later (-want +got):\n%s", diff)
	}
}

// What could not be told is told the next time.
func TestTailAfterAnError(t *testing.T) {
	t.Parallel()
	w := &window{history: context.DeadlineExceeded}
	tail := NewTail(w, "")
	w.add(1)
	if _, _, err := tail.Next(t.Context()); err == nil {
		t.Fatal("no error")
	}
	w.history = nil
	if news, _, err := tail.Next(t.Context()); err != nil || len(news) != 2 {
		t.Errorf("told %d, %v", len(news), err)
	}
}
