package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// call is one call of an action, bounded in time. What the action does after
// the end of its call reaches neither store nor world.
type call struct {
	w              *walk
	node           *planned
	visit, attempt int
	key            string
	in             flows.State
	with           []byte
	last           *flows.Ended // of `finally` actions
	// now is when it begins; limit bounds it, wall says that the limit is a
	// budget's.
	now   time.Time
	limit time.Duration
	// owner is told of each settled reservation; nil for none.
	owner *attempts

	ctx    lazy
	meter  meter
	logger slog.Logger
	beats  chan struct{} // nil when nobody listens
	// phase is the watch's, as is the number of beats heard.
	heard atomic.Int64
	phase atomic.Int32
	wall  bool
	// free skips the label check and forbids spending: the run is ending.
	free bool

	mu      sync.Mutex // guards what follows
	closed  bool
	effects []string         // the names of those asked for
	at      *checkpoints.Run // the run when the call began, once asked for
}

// returned is what a call came to.
type returned struct {
	res     flows.Result
	err     error
	outcome flows.Outcome // set when the engine ended it
	cut     bool
}

// unlessCut is what a call came to, or that it was cut when ctx has ended
// meanwhile: what failed for being cancelled did not fail, and what it returned
// as a success may be half of one. The run stays resumable.
func (r returned) unlessCut(ctx context.Context) returned {
	if ctx.Err() != nil {
		return returned{cut: true, err: context.Cause(ctx)}
	}
	return r
}

// caller calls an action and waits for it, for a timeout or for ctx.
type caller interface {
	run(ctx context.Context, c *call) returned
}

// parent is the context of the walk.
func (c *call) parent() context.Context { return c.ctx.parent }

// deadline is when its time is over.
func (c *call) deadline() time.Time { return c.now.Add(c.limit) }

// overdue is what a call comes to whose time is over.
func (c *call) overdue() returned {
	if c.wall {
		return returned{err: fmt.Errorf("%w: the wall time of %s is used up", flows.ErrBudget, c.limit), outcome: flows.Budget}
	}
	return returned{err: fmt.Errorf("%w: no result after %s", ErrTimeout, c.limit), outcome: flows.Timeout}
}

// run calls the action. used is what the node has used of its budget.
func (c *call) run(ctx context.Context, by caller, used checkpoints.Usage) returned {
	c.ctx.parent = ctx
	defer c.ctx.cancel(nil)
	c.meter.c, c.meter.used = c, used
	c.logger = *slog.New(nodeLog{c})
	got := by.run(ctx, c)
	c.close()
	if refusal := c.meter.refusal(); refusal != nil && got.err == nil && !got.cut && (got.res.Outcome == "" || got.res.Outcome == flows.OK) {
		// Never a silent truncation.
		got.res.Outcome, got.res.Stop = flows.Budget, nil
		got.res.Note = refusal.Error()
	}
	return got
}

// guarded calls the action, in the goroutine of the hands.
func (c *call) guarded(got *returned) {
	defer func() {
		if p := recover(); p != nil {
			c.w.log.ErrorContext(&c.ctx, "action panicked", "node", c.node.ID, "action", c.node.action.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			*got = returned{err: &PanicError{p}}
		}
	}()
	beat := unheard
	if c.node.Idle > 0 || c.w.e.Hooks.OnNode != nil {
		beat = c.beat
	}
	got.res, got.err = c.node.action.Run(&c.ctx, flows.Call{
		Run: c.w.about, Node: c.node.ID, Visit: c.visit, Attempt: c.attempt, Key: c.key, In: c.in, Sees: c.node.In, With: c.with,
		Meter: &c.meter, Artifacts: c.w.e.Artifacts, Effects: effects{c}, Beat: beat, Log: &c.logger, Ended: c.last,
	})
	if got.err != nil {
		_ = got.err.Error() // one that can't be told is a panic of the action, not of the walk
	}
}

func (c *call) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// snapshot is the run as it was when the call began; false when the call is
// over. The walk does not move while a call is open.
func (c *call) snapshot() (checkpoints.Run, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return checkpoints.Run{}, false
	}
	if c.at == nil {
		at := c.w.told()
		c.at = &at
	}
	return *c.at, true
}

// count adds to what the run has spent. After the end of the call the store
// must be asked, since it may have been asked meanwhile.
func (c *call) count(u checkpoints.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.closed {
		c.w.stale = true
	} else {
		c.w.spent = c.w.spent.Add(u)
	}
}

// passing tells the owner of a settled reservation, while the call is open.
func (c *call) passing(ctx context.Context, used checkpoints.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != nil && !c.closed {
		c.owner.passing(ctx, used)
	}
}

// unheard is for beats that nobody listens to.
func unheard(string) {}

func (c *call) beat(note string) {
	if c.ctx.Err() != nil {
		return
	}
	if c.beats != nil {
		select {
		case c.beats <- struct{}{}:
		default:
		}
	} else if c.node.Idle > 0 {
		c.heard.Add(1)
		c.w.watch.nudge()
	}
	if c.w.e.Hooks.OnNode == nil {
		return
	}
	if run, open := c.snapshot(); open {
		c.w.onNode(&c.ctx, NodeEvent{Run: run, Node: c.node.ID, Kind: c.node.Kind, Visit: c.visit, Attempt: c.attempt, Stage: Beat, Note: clip(c.w.e.Scrub(note), 500)})
	}
}

// nodeLog adds the node to what an action logs.
type nodeLog struct{ c *call }

func (l nodeLog) handler() slog.Handler { return l.c.w.log.Handler() }

func (l nodeLog) attrs() []slog.Attr {
	return []slog.Attr{slog.String("node", l.c.node.ID), slog.Int("attempt", l.c.attempt)}
}

// Enabled implements slog.Handler.
func (l nodeLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l nodeLog) Handle(ctx context.Context, r slog.Record) error {
	return l.handler().WithAttrs(l.attrs()).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l nodeLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.handler().WithAttrs(slices.Concat(l.attrs(), attrs))
}

// WithGroup implements slog.Handler.
func (l nodeLog) WithGroup(name string) slog.Handler {
	return l.handler().WithAttrs(l.attrs()).WithGroup(name)
}

// visitKey is "run/<run>/<node>/<visit>".
func visitKey(run, node string, visit int) string {
	b := make([]byte, 0, 80)
	b = append(b, "run/"...)
	b = append(b, run...)
	b = append(b, '/')
	b = append(b, node...)
	b = append(b, '/')
	return string(strconv.AppendInt(b, int64(visit), 10))
}
