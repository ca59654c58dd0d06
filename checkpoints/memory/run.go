package memory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// run is a stored run with what hangs on it.
type run struct {
	checkpoints.Run
	// ended says that the flow is over: at rest the run is Ending, not Ready.
	ended bool
	// tokenAt is when the last token was given out.
	tokenAt  time.Time
	history  []checkpoints.NodeRecord
	branches []checkpoints.BranchRecord
	events   []*event
}

type event struct {
	checkpoints.Event
	consumed bool
}

func (c *call) find(id string) (*run, error) {
	r, ok := c.runs[id]
	if !ok {
		return nil, fmt.Errorf("run %s: %w", id, checkpoints.ErrNotFound)
	}
	return r, nil
}

// held returns the run if the lease still holds.
func (c *call) held(l checkpoints.Lease) (*run, error) {
	r, ok := c.runs[l.RunID]
	if !ok || r.Owner == "" || r.Owner != l.Owner || r.Epoch != l.Fence {
		return nil, fmt.Errorf("run %s, fence %d: %w", l.RunID, l.Fence, checkpoints.ErrLost)
	}
	return r, nil
}

// wake gives out a token for the run.
func (c *call) wake(r *run) {
	r.tokenAt = c.now
	c.tokens = append(c.tokens, queue.Token{Kind: queue.Run, ID: r.ID, Epoch: r.Epoch})
}

// rest is the claimable status of a run that nobody holds.
func (r *run) rest() checkpoints.Status {
	if r.ended {
		return checkpoints.Ending
	}
	return checkpoints.Ready
}

// leave gives up the lease.
func (r *run) leave(s checkpoints.Status, now time.Time) {
	r.Status, r.Owner, r.LeaseUntil, r.Updated = s, "", time.Time{}, now
}

func (r *run) end(e checkpoints.Ended, now time.Time) {
	r.Status, r.ended, r.Wait, r.Updated = checkpoints.Ending, true, nil, now
	r.Result, r.Code, r.Reason = e.Result, e.Code, e.Reason
}

// leaseOver reports that the run was claimed and its lease has run out.
func (r *run) leaseOver(now time.Time) bool {
	return r.Owner != "" && !now.Before(r.LeaseUntil)
}

// view is a copy that shares nothing with the stored run.
func (c *call) view(r *run) checkpoints.Run {
	v := r.Run
	v.State, v.Initial = bytes.Clone(r.State), bytes.Clone(r.Initial)
	v.Visits = maps.Clone(r.Visits)
	v.Definition = bytes.Clone(r.Definition)
	v.Actions = maps.Clone(r.Actions)
	v.Wait = cloneWait(r.Wait)
	v.Spent = c.family(r.ID)
	return v
}

func cloneWait(w *checkpoints.Wait) *checkpoints.Wait {
	if w == nil {
		return nil
	}
	v := *w
	return &v
}

// cloneRecord copies a record; times have the grain that databases keep.
func cloneRecord(r checkpoints.NodeRecord) checkpoints.NodeRecord {
	r.Began, r.Took = r.Began.UTC().Truncate(time.Microsecond), r.Took.Truncate(time.Microsecond)
	r.Delta = bytes.Clone(r.Delta)
	r.Guards = slices.Clone(r.Guards)
	return r
}
