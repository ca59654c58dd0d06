package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// News is a node that a run completed, or, with no Node, that the run waits,
// was halted or is over.
type News struct {
	At   time.Time
	Run  checkpoints.Run
	Node *checkpoints.NodeRecord
}

// Tail tells what runs do, each thing once. It reads the store only.
type Tail struct {
	reader Reader
	only   string
	told   map[string]told // of the runs that are looked at
	// forgotten is when the newest run began that is not looked at any more.
	forgotten time.Time
}

// told is what was told of a run.
type told struct {
	seq    int64
	status checkpoints.Status
	began  time.Time
}

// NewTail begins at the first node of the newest runs, or of one run and its
// children ("" for all).
func NewTail(r Reader, only string) *Tail {
	return &Tail{reader: r, only: only, told: map[string]told{}}
}

// tailed is how many runs, newest first, are looked at.
const tailed = 200

// Next is what happened since the last call, oldest first. over means that the
// one run is final.
func (t *Tail) Next(ctx context.Context) (news []News, over bool, err error) {
	runs, err := t.runs(ctx)
	if err != nil {
		return nil, false, err
	}
	seen := make(map[string]told, len(runs))
	for _, run := range runs {
		if run.ID == t.only {
			over = run.Status.Final()
		}
		was, ok := t.told[run.ID]
		now := told{run.Seq, run.Status, run.Created}
		if !ok && !run.Created.After(t.forgotten) {
			was = now // it is back, since newer ones were deleted
		}
		if run.Seq != was.seq {
			history, err := t.reader.History(ctx, run.ID)
			if err != nil {
				return nil, false, fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
			}
			for _, n := range history {
				if n.Seq > was.seq {
					news = append(news, News{At: n.Began.Add(n.Took), Run: run, Node: &n})
					now.seq = n.Seq
				}
			}
		}
		if was.status != run.Status && tells(run.Status) {
			news = append(news, News{At: run.Updated, Run: run})
		}
		seen[run.ID] = now
	}
	t.forget(seen)
	slices.SortStableFunc(news, func(a, b News) int { return a.At.Compare(b.At) })
	return news, over, nil
}

// forget keeps what was told of the runs that were seen just now, and nothing
// else: runs come for as long as it is followed.
func (t *Tail) forget(seen map[string]told) {
	for id, was := range t.told {
		if _, ok := seen[id]; !ok && was.began.After(t.forgotten) {
			t.forgotten = was.began
		}
	}
	t.told = seen
}

// tells reports a status that is news by itself.
func tells(s checkpoints.Status) bool {
	return s.Final() || s == checkpoints.Waiting || s == checkpoints.Halted || s == checkpoints.Queued
}

func (t *Tail) runs(ctx context.Context) ([]checkpoints.Run, error) {
	if t.only == "" {
		runs, err := t.reader.List(ctx, checkpoints.Filter{Limit: tailed})
		if err != nil {
			return nil, fmt.Errorf("listing the runs: %w", err)
		}
		return runs, nil
	}
	run, err := t.reader.Get(ctx, t.only)
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", t.only, err)
	}
	children, err := t.reader.List(ctx, checkpoints.Filter{Parent: t.only, Limit: tailed})
	if err != nil {
		return nil, fmt.Errorf("listing the children of run %s: %w", t.only, err)
	}
	return append([]checkpoints.Run{run}, children...), nil
}

// Pause waits until it is worth looking at the store again; it fails when ctx
// ends.
func Pause(ctx context.Context) error { return clock.Sleep(ctx, clock.Real{}, followEvery) }
