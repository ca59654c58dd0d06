package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// grace is how long a cut action may take to return before it is left behind.
const grace = 10 * time.Second

// call is one call of an action, bounded in time.
type call struct {
	w      *walk
	action flows.Action
	c      flows.Call
	// limit bounds the call, after which its outcome is outcome; idle bounds
	// the silence between beats, 0 for no bound.
	limit, idle time.Duration
	outcome     flows.Outcome
	budget      flows.NodeBudget
	// free skips the label check and forbids spending: the run is ending.
	free bool
	kind flows.Kind
	// settled is called after each settled reservation; may be nil.
	settled func(context.Context)
	beats   chan struct{}
	at      checkpoints.Run // the run when the call began
}

// returned is what a call came to.
type returned struct {
	res     flows.Result
	err     error
	outcome flows.Outcome // set when the engine ended it
	cut     bool
}

// run calls the action in its own goroutine and waits for it, for a timeout
// or for ctx. What it does after its end reaches neither store nor world.
func (c *call) run(ctx context.Context) returned {
	cctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A copy: an action that is left behind must not see the run move on.
	c.at = c.w.run
	meter := &meter{w: c.w, run: c.at, node: c.c.Node, budget: c.budget, forbidden: c.free || c.kind == flows.Gate, settled: c.settled}
	effects := &effects{w: c.w, run: c.at, key: c.c.Key, allowed: c.action.Effects, free: c.free}
	if err := meter.load(ctx); err != nil {
		return returned{err: err}
	}
	c.beats = make(chan struct{}, 1)
	c.c.Meter, c.c.Effects, c.c.Beat = meter, effects, func(note string) { c.beat(cctx, note) }
	c.c.Log = c.w.log.With("node", c.c.Node, "attempt", c.c.Attempt)
	done := make(chan returned, 1)
	go func() { done <- c.guarded(cctx) }()
	got := c.await(ctx, cancel, done)
	meter.close()
	effects.close()
	if meter.refusal() != nil && got.err == nil && !got.cut && (got.res.Outcome == "" || got.res.Outcome == flows.OK) {
		// Never a silent truncation.
		got.res.Outcome, got.res.Stop = flows.Budget, nil
		got.res.Note = meter.refusal().Error()
	}
	return got
}

func (c *call) guarded(ctx context.Context) (got returned) {
	defer func() {
		if p := recover(); p != nil {
			c.w.log.ErrorContext(ctx, "action panicked", "node", c.c.Node, "action", c.action.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			got = returned{err: &PanicError{p}}
		}
	}()
	res, err := c.action.Run(ctx, c.c)
	return returned{res: res, err: err}
}

func (c *call) await(ctx context.Context, cancel context.CancelCauseFunc, done <-chan returned) returned {
	total := c.w.e.Clock.NewTimer(c.limit)
	defer func() { total.Stop() }()
	idle := c.idleTimer()
	defer func() { idle.Stop() }()
	for {
		select {
		case got := <-done:
			if got.err != nil && ctx.Err() != nil {
				// Both were ready: what failed for being cancelled was cut, it
				// did not fail, and a stopped run stays resumable.
				return returned{cut: true, err: context.Cause(ctx)}
			}
			return got
		case <-c.beats:
			idle.Stop()
			idle = c.idleTimer()
		case <-total.C():
			what := fmt.Errorf("%w: no result after %s", ErrTimeout, c.limit)
			if c.outcome == flows.Budget {
				what = fmt.Errorf("%w: the wall time of %s is used up", flows.ErrBudget, c.limit)
			}
			cancel(what)
			c.leave(done)
			return returned{err: what, outcome: c.outcome}
		case <-idle.C():
			what := fmt.Errorf("%w: silent for %s", ErrTimeout, c.idle)
			cancel(what)
			c.leave(done)
			return returned{err: what, outcome: flows.Timeout}
		case <-ctx.Done():
			c.leave(done)
			return returned{cut: true, err: context.Cause(ctx)}
		}
	}
}

// leave waits a little for an action that was cancelled.
func (c *call) leave(done <-chan returned) {
	t := c.w.e.Clock.NewTimer(grace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C():
		c.w.log.Error("action does not end, left behind", "node", c.c.Node, "action", c.action.Name, "after", grace)
	}
}

// never is a timer that does not fire.
type never struct{}

func (never) C() <-chan time.Time { return nil }
func (never) Stop() bool          { return true }

func (c *call) idleTimer() clock.Timer {
	if c.idle == 0 {
		return never{}
	}
	return c.w.e.Clock.NewTimer(c.idle)
}

func (c *call) beat(ctx context.Context, note string) {
	if ctx.Err() != nil {
		return
	}
	select {
	case c.beats <- struct{}{}:
	default:
	}
	c.w.onNode(ctx, NodeEvent{Run: c.at, Node: c.c.Node, Kind: c.kind, Visit: c.c.Visit, Attempt: c.c.Attempt, Stage: Beat, Note: clip(c.w.e.Scrub(note), 500)})
}

// info is what an action may know of its run.
func (w *walk) info() flows.RunInfo {
	return flows.RunInfo{
		ID: w.run.ID, Key: w.run.Key, Lineage: w.run.Lineage, Repo: w.run.Repo, Issue: w.run.Issue, Phase: w.run.Phase,
		Flow: w.run.Flow, Round: w.run.Round, Created: w.run.Created,
	}
}

// visitKey is stable over retries and resumes of one visit of a node.
func (w *walk) visitKey(node string, visit int) string {
	return fmt.Sprintf("run/%s/%s/%d", w.run.ID, node, visit)
}

// visitRecord is what is kept of a visit that is not completed, so that a
// resume refills nothing.
type visitRecord struct {
	Attempts int           `json:"attempts,omitempty"`
	Parks    int           `json:"parks,omitempty"`
	Worked   time.Duration `json:"worked,omitempty"`
	Until    time.Time     `json:"until,omitzero"`
}

// visitKept is the key under which a visit's record is kept, beside the
// effects of the visit, whose names never begin with a dot.
func (w *walk) visitKept(node string, visit int) string { return w.visitKey(node, visit) + "/.visit" }

func (w *walk) loadVisit(ctx context.Context, node string, visit int) (visitRecord, error) {
	var v visitRecord
	if !w.resumed {
		return v, nil
	}
	sctx, done := w.storeCtx(ctx)
	defer done()
	raw, err := w.e.Store.Effect(sctx, w.visitKept(node, visit))
	if errors.Is(err, checkpoints.ErrNotFound) {
		return v, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		return v, fmt.Errorf("reading what was kept of node %s, visit %d: %w", node, visit, err)
	}
	return v, nil
}

func (w *walk) keepVisit(ctx context.Context, node string, visit int, v visitRecord) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keeping node %s, visit %d: %w", node, visit, err)
	}
	if lost(ctx) {
		return context.Cause(ctx)
	}
	sctx, done := w.storeCtx(ctx)
	defer done()
	if err := w.e.Store.RecordEffect(sctx, w.visitKept(node, visit), raw); err != nil {
		return fmt.Errorf("keeping node %s, visit %d: %w", node, visit, err)
	}
	return nil
}
