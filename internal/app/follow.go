package app

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// followEvery is how often the store is looked at.
const followEvery = 100 * time.Millisecond

// Follow watches an issue from an inbox row on, until the row is decided
// without a run, or the newest run is over, waits for a person, or is halted.
// Seen is told of every completed node, once, in order. The run is nil when
// the row led to none.
func Follow(ctx context.Context, r Reader, ref forge.Ref, rowID string, seen func(checkpoints.Run, checkpoints.NodeRecord)) (checkpoints.InboxEvent, *checkpoints.Run, error) {
	told := map[string]int64{}
	for {
		row, err := r.Received(ctx, rowID)
		if err != nil {
			return row, nil, fmt.Errorf("reading inbox row %s: %w", rowID, err)
		}
		runs, err := r.List(ctx, checkpoints.Filter{Repo: ref.Repo.String(), Issue: ref.Number, Limit: 20})
		if err != nil {
			return row, nil, fmt.Errorf("reading the runs of %s: %w", ref, err)
		}
		var newest *checkpoints.Run
		for i := len(runs) - 1; i >= 0; i-- { // oldest first
			run := runs[i]
			if run.Updated.Before(row.At) {
				continue
			}
			newest = &runs[i]
			if err := tellNodes(ctx, r, run, told, seen); err != nil {
				return row, nil, err
			}
		}
		if row.Decision != "" && (newest == nil || resting(*newest)) {
			return row, newest, nil
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

// resting reports that nothing more happens to a run by itself.
func resting(r checkpoints.Run) bool {
	waitsForPerson := r.Status == checkpoints.Waiting && r.Wait != nil && r.Wait.Event != ""
	return r.Status.Final() || r.Status == checkpoints.Halted || waitsForPerson
}
