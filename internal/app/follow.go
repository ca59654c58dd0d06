package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// followEvery is how often the store is looked at.
const followEvery = 100 * time.Millisecond

// followed is how many runs of the issue are looked at, children included.
const followed = 500

// Follow watches an issue from an inbox row on, until the row is decided
// without a run, or the newest run is over, waits for a person (it, or a child
// of it, which is then returned), waits in line, or is halted. Seen is told of
// every completed node, children's too, once, in order. The run is nil when
// the row led to none. Mode is that of the runs to follow.
func Follow(ctx context.Context, r Reader, ref forge.Ref, rowID, mode string, seen func(checkpoints.Run, checkpoints.NodeRecord)) (checkpoints.InboxEvent, *checkpoints.Run, error) {
	told := map[string]int64{}
	for {
		row, err := r.Received(ctx, rowID)
		if err != nil {
			return row, nil, fmt.Errorf("reading inbox row %s: %w", rowID, err)
		}
		runs, err := r.List(ctx, checkpoints.Filter{Repo: ref.Repo.String(), Issue: ref.Number, Limit: followed})
		if err != nil {
			return row, nil, fmt.Errorf("reading the runs of %s: %w", ref, err)
		}
		var newest *checkpoints.Run
		var since []checkpoints.Run
		for i := len(runs) - 1; i >= 0; i-- { // oldest first
			run := runs[i]
			if run.Updated.Before(row.At) || run.Mode != mode {
				continue
			}
			since = append(since, run)
			if run.Parent == "" {
				newest = &runs[i]
			}
			if err := tellNodes(ctx, r, run, told, seen); err != nil {
				return row, nil, err
			}
		}
		if row.Decision != "" && newest == nil {
			return row, nil, nil
		}
		if row.Decision != "" {
			if at := rests(*newest, since); at != nil {
				return row, at, nil
			}
		}
		if err := clock.Sleep(ctx, clock.Real{}, followEvery); err != nil {
			return row, newest, err
		}
	}
}

func tellNodes(ctx context.Context, r Reader, run checkpoints.Run, told map[string]int64, seen func(checkpoints.Run, checkpoints.NodeRecord)) error {
	if run.Seq == told[run.ID] {
		return nil
	}
	history, err := r.History(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	for _, n := range history {
		if n.Seq > told[run.ID] {
			seen(run, n)
			told[run.ID] = n.Seq
		}
	}
	return nil
}

// rests is the run at which nothing more happens by itself: the given one, or
// the child for which it waits. Nil means that something will.
func rests(r checkpoints.Run, all []checkpoints.Run) *checkpoints.Run {
	switch {
	case r.Status.Final(), r.Status == checkpoints.Halted, r.Status == checkpoints.Queued && time.Since(r.Created) > queuedTime:
		return &r
	case r.Status != checkpoints.Waiting || r.Wait == nil || r.Wait.Event == "":
		return nil
	}
	id, waitsForChild := strings.CutPrefix(r.Wait.Event, "child/")
	if !waitsForChild {
		return &r
	}
	for _, child := range all {
		// A child that is over has told its parent, which goes on.
		if child.ID == id && !child.Status.Final() {
			return rests(child, all)
		}
	}
	return nil
}

// queuedTime is how long a run may wait in line, e.g. for the one that it
// replaces, before it counts as resting.
const queuedTime = 5 * time.Second
