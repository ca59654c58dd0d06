package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// grace is how long a cut action may take to return before it is left behind.
const grace = 10 * time.Second

// hands run one action after the other in a goroutine of their own, so that
// one that hangs can be left behind: then new hands take over. They serve
// where the walk can't go on from any point: in branches and at the end of a
// run. The zero value is ready but for the clock; nothing runs before the
// first call.
type hands struct {
	clock  clock.Clock
	worker *worker
	// timer fires at due or before the deadline of the call at work; it is
	// kept from call to call.
	timer clock.Timer
	due   time.Time
}

// worker is the goroutine. got is its own while it has a call.
type worker struct {
	give chan *call
	back chan struct{}
	gone chan struct{}
	got  returned
	dead bool // the action has ended the goroutine
}

func (h *hands) do(c *call) {
	if h.worker == nil {
		h.worker = &worker{make(chan *call), make(chan struct{}, 1), make(chan struct{}), returned{}, false}
		go h.worker.work()
	}
	h.worker.give <- c
}

func (k *worker) work() {
	defer close(k.gone)
	defer func() {
		if k.dead {
			k.back <- struct{}{}
		}
	}()
	for c := range k.give {
		k.got, k.dead = returned{err: &PanicError{"it has ended its goroutine"}}, true
		c.guarded(&k.got)
		k.dead = false
		k.back <- struct{}{}
	}
}

// abandon leaves the goroutine to itself; it ends with its action.
func (h *hands) abandon() *worker {
	k := h.worker
	close(k.give)
	h.worker = nil
	return k
}

// returned is the worker whose call is back.
func (h *hands) returned() *worker {
	k := h.worker
	if k.dead {
		h.worker = nil
	}
	return k
}

// rest ends the goroutine and the timer.
func (h *hands) rest() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	if h.worker != nil {
		<-h.abandon().gone
	}
}

// arm makes the timer fire at the deadline or before.
func (h *hands) arm(now time.Time, limit time.Duration) {
	due := now.Add(limit)
	if h.timer != nil && !h.due.After(due) {
		return
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	h.timer, h.due = h.clock.NewTimer(limit), due
}

// run has the action called and waits for it, for a timeout or for ctx.
func (h *hands) run(ctx context.Context, c *call) returned {
	deadline := c.deadline()
	if c.node.Idle > 0 {
		c.beats = make(chan struct{}, 1)
	}
	h.arm(c.now, c.limit)
	var idle clock.Timer
	var silent <-chan time.Time
	listen := func() {
		if c.node.Idle > 0 {
			idle = h.clock.NewTimer(c.node.Idle)
			silent = idle.C()
		}
	}
	listen()
	defer func() {
		if idle != nil {
			idle.Stop()
		}
	}()
	h.do(c)
	for {
		select {
		case <-h.worker.back:
			return h.returned().got.unlessCut(ctx)
		case <-c.beats:
			idle.Stop()
			listen()
		case <-h.timer.C():
			h.timer = nil
			if now := h.clock.Now(); now.Before(deadline) {
				h.arm(now, deadline.Sub(now)) // it was set for an earlier call
				continue
			}
			got := c.overdue()
			return h.cut(c, got.err, got)
		case <-silent:
			what := fmt.Errorf("%w: silent for %s", ErrTimeout, c.node.Idle)
			return h.cut(c, what, returned{err: what, outcome: flows.Timeout})
		case <-ctx.Done():
			cause := context.Cause(ctx)
			return h.cut(c, cause, returned{cut: true, err: cause})
		}
	}
}

// cut cancels the call and waits a little for it.
func (h *hands) cut(c *call, cause error, got returned) returned {
	c.ctx.cancel(cause)
	t := h.clock.NewTimer(grace)
	defer t.Stop()
	select {
	case <-h.worker.back:
		h.returned()
	case <-t.C():
		c.w.log.Error("action does not end, left behind", "node", c.node.ID, "action", c.node.action.Name, "after", grace)
		h.abandon()
	}
	return got
}

// visitKey is stable over retries and resumes of one visit of a node.
func (w *walk) visitKey(node string, visit int) string { return visitKey(w.run.ID, node, visit) }

// infoOf is what an action may know of its run.
func infoOf(run *checkpoints.Run) flows.RunInfo {
	return flows.RunInfo{
		ID: run.ID, Key: run.Key, Lineage: run.Lineage, Repo: run.Repo, Issue: run.Issue, Phase: run.Phase,
		Flow: run.Flow, Round: run.Round, Created: run.Created,
	}
}
