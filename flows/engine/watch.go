package engine

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// The phases of a call of the walk's own goroutine.
const (
	atWork int32 = iota
	beingCut
	isBack
	leftBehind
)

// watch looks after the actions that the walk's own goroutine calls: nothing
// is handed over, and yet one that hangs is left behind. Whoever called Walk
// is the watch; when it leaves an action behind, another goroutine walks on
// from there, and the first ends with the action.
type watch struct {
	w *walk
	// cur is the call at work, due when the watch looks at it by itself, in
	// Unix nanoseconds. A call whose time is over before that nudges the
	// watch and says when in want.
	cur       atomic.Pointer[call]
	due, want atomic.Int64
	wake      chan struct{}
	// back tells that a call that is being cut has returned, over how the
	// walk has ended.
	back chan struct{}
	over chan *walked

	// cutWith is what the call comes to that is being cut.
	cutWith returned

	// The rest is the watch's own.
	timer, idle clock.Timer
	at          time.Time // when timer fires
	silent      *call     // whose silence idle bounds, since beat heard
	heard       int64
}

// walked is how a walk has ended.
type walked struct {
	out Outcome
	err error
}

func ended(out Outcome, err error) *walked { return &walked{out, err} }

func newWatch(w *walk) *watch {
	k := &watch{w: w, wake: make(chan struct{}, 1), back: make(chan struct{}, 1), over: make(chan *walked, 1)}
	k.due.Store(math.MaxInt64)
	return k
}

// run calls an action in the walk's goroutine.
func (k *watch) run(ctx context.Context, c *call) (got returned) {
	k.cur.Store(c)
	quit := true
	defer func() {
		if quit {
			k.deserted(c)
		}
	}()
	// The watch may have seen the end of ctx before it could see the call.
	if ctx.Err() == nil {
		if due := c.deadline().UnixNano(); c.node.Idle > 0 || due < k.due.Load() {
			k.want.Store(due)
			k.nudge()
		}
		c.guarded(&got)
	} else {
		got.err = context.Cause(ctx)
	}
	quit = false
	if c.phase.CompareAndSwap(atWork, isBack) {
		k.cur.Store(nil)
		return got.unlessCut(ctx)
	}
	if !c.phase.CompareAndSwap(beingCut, isBack) {
		panic(relieved{}) // left behind: another goroutine walks on
	}
	k.cur.Store(nil)
	got = k.cutWith
	k.back <- struct{}{}
	return got
}

// nudge makes the watch look at the call at work.
func (k *watch) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// keep watches until the walk is over.
func (k *watch) keep(ctx context.Context) (Outcome, error) {
	defer func() {
		stop(k.timer)
		stop(k.idle)
	}()
	done := ctx.Done()
	for {
		select {
		case end := <-k.over:
			return end.out, end.err
		case <-k.wake:
			k.look()
		case <-fires(k.timer):
			k.timer = nil
			k.look()
		case <-fires(k.idle):
			k.idle = nil
			if c := k.cur.Load(); c != nil && c == k.silent && c.heard.Load() == k.heard {
				what := fmt.Errorf("%w: silent for %s", ErrTimeout, c.node.Idle)
				k.cut(c, what, returned{err: what, outcome: flows.Timeout})
			}
		case <-done:
			done = nil
			if c := k.cur.Load(); c != nil {
				cause := context.Cause(ctx)
				k.cut(c, cause, returned{cut: true, err: cause})
			}
		}
	}
}

// look cuts the call at work when its time is over, or sets the timers for
// it.
func (k *watch) look() {
	// From here on a call that begins nudges, so that none is missed.
	k.due.Store(math.MaxInt64)
	now := k.w.e.Clock.Now()
	c := k.cur.Load()
	if c == nil {
		// It was over before the watch could look. The timer that it would
		// have had serves those that follow, or each would nudge again.
		k.arm(now, time.Unix(0, k.want.Load()))
		return
	}
	deadline := c.deadline()
	if !now.Before(deadline) {
		got := c.overdue()
		k.cut(c, got.err, got)
		return
	}
	k.arm(now, deadline)
	if heard := c.heard.Load(); c != k.silent || heard != k.heard {
		stop(k.idle)
		k.idle, k.silent, k.heard = nil, c, heard
		if c.node.Idle > 0 {
			k.idle = k.w.e.Clock.NewTimer(c.node.Idle)
		}
	}
}

// arm makes the watch look at the deadline or before.
func (k *watch) arm(now, deadline time.Time) {
	if !now.Before(deadline) {
		return
	}
	if k.timer == nil || deadline.Before(k.at) {
		stop(k.timer)
		k.timer, k.at = k.w.e.Clock.NewTimer(deadline.Sub(now)), deadline
	}
	k.due.Store(k.at.UnixNano())
}

func stop(t clock.Timer) {
	if t != nil {
		t.Stop()
	}
}

func fires(t clock.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C()
}

// cut cancels a call and waits a little for it; then somebody else walks on.
func (k *watch) cut(c *call, cause error, got returned) {
	k.cutWith = got
	if !c.phase.CompareAndSwap(atWork, beingCut) {
		return // it has returned
	}
	c.ctx.cancel(cause)
	t := k.w.e.Clock.NewTimer(grace)
	defer t.Stop()
	select {
	case <-k.back:
		return
	case <-t.C():
	}
	if !c.phase.CompareAndSwap(beingCut, leftBehind) {
		<-k.back
		return
	}
	k.w.log.Error("action does not end, left behind", "node", c.node.ID, "action", c.node.action.Name, "after", grace)
	k.relieve(c, got)
}

// relieve walks on in another goroutine, as if the call had returned got.
func (k *watch) relieve(c *call, got returned) {
	c.close()
	k.cur.Store(nil)
	go k.w.walkOn(c.parent(), c, got)
}

// relieved unwinds the goroutine of an action that was left behind.
type relieved struct{}

// walk steps until the walk is over.
func (k *watch) walk(ctx context.Context, first func(context.Context) *walked) {
	finished := false
	defer func() {
		switch p := recover().(type) {
		case nil:
			if !finished {
				k.over <- ended(k.w.over(Outcome{}), fmt.Errorf("walking run %s: a hook or a value has ended the goroutine", k.w.run.ID))
			}
		case relieved:
		default:
			// The engine's own mistake: the run stays as it is stored.
			k.w.log.ErrorContext(ctx, "the walk panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			k.over <- ended(k.w.over(Outcome{}), fmt.Errorf("walking run %s: panic: %v", k.w.run.ID, p))
		}
	}()
	end := first(ctx)
	for end == nil {
		end = k.w.step(ctx)
	}
	finished = true
	k.over <- end
}

// deserted walks on when the action of c has ended the goroutine that it was
// called in; one that was left behind has been relieved already.
func (k *watch) deserted(c *call) {
	switch {
	case c.phase.CompareAndSwap(atWork, leftBehind):
		k.relieve(c, returned{err: &PanicError{"it has ended its goroutine"}})
	case c.phase.CompareAndSwap(beingCut, isBack):
		got := k.cutWith
		k.back <- struct{}{}
		k.relieve(c, got)
	}
	panic(relieved{})
}

// walkOn goes on after a call of the node at work that did not return.
func (w *walk) walkOn(ctx context.Context, c *call, got returned) {
	w.watch.walk(ctx, func(ctx context.Context) *walked {
		a := &w.tries
		a.names = c.asked(a.names)
		var res result
		if got.cut {
			res = a.cut(ctx)
		} else {
			res = a.ended(ctx, got)
		}
		res.spends = w.node.Kind != flows.Gate
		w.en.took = w.e.Clock.Now().Sub(w.en.began)
		return w.settle(ctx, w.node, w.en, &res)
	})
}
