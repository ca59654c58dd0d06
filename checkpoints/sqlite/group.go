package sqlite

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
)

// group lines up the calls that want to write. Those that wait share the next
// transaction, since what a commit costs is the wait for the disk, not the
// rows.
type group struct {
	mu      sync.Mutex
	waiting []*op
	busy    bool
	crowded bool // the last batch was of several
	closed  bool
	serving sync.WaitGroup
}

// errClosed is what a call gets that comes after Close.
var errClosed = errors.New("sqlite: the store is closed")

// op is one call. fn may run more than once, each time on a clean slate.
type op struct {
	ctx  context.Context //nolint:containedctx // the call's, for its values
	fn   func(*tx) error
	err  error
	done chan struct{}
}

// most is how many calls share a transaction, so that the first don't wait
// for ever and the log stays short.
const most = 256

// do has serve called by one goroutine at a time and returns when that has
// finished the op: by this one when nobody else is at it, since a run that
// works alone shouldn't wait for a change of threads. It serves one batch; what
// has come meanwhile is another goroutine's.
//
// serve gives up waiting for its transaction to begin with the context it is
// given. An op whose ctx ends while it waits is taken back, and nothing was changed; a
// transaction that has begun is brought to its end.
func (g *group) do(ctx context.Context, fn func(*tx) error, serve func(context.Context)) error {
	o := &op{ctx: context.WithoutCancel(ctx), fn: fn, done: make(chan struct{})}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed
	}
	g.waiting = append(g.waiting, o)
	leads := !g.busy
	if leads {
		g.busy = true
		g.serving.Add(1)
	}
	g.mu.Unlock()
	if leads {
		serve(ctx)
		g.handOver(serve)
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	if g.takeBack(o) {
		return context.Cause(ctx)
	}
	<-o.done
	return o.err
}

// handOver ends the service of a caller.
func (g *group) handOver(serve func(context.Context)) {
	if !g.more() {
		g.serving.Done()
		return
	}
	go func() {
		defer g.serving.Done()
		for serve(context.Background()); g.more(); {
			serve(context.Background())
		}
	}()
}

// close lets no further op in: nobody may begin to serve while wait waits for
// those who do.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait returns when nobody serves any more; after close.
func (g *group) wait() { g.serving.Wait() }

// more reports that ops wait; without, nobody serves any more.
func (g *group) more() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = len(g.waiting) > 0
	return g.busy
}

// take hands out the ops that have come until now, in their order. In a crowd
// it first lets those run who are about to come back for more, or every other
// batch would be of one.
func (g *group) take() []*op {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crowded {
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
	n := min(len(g.waiting), most)
	g.crowded = n > 1
	batch := g.waiting[:n:n]
	g.waiting = slices.Clone(g.waiting[n:])
	return batch
}

// fail finishes all ops that wait now. Those that come while it does have a
// transaction of their own to begin.
func (g *group) fail(err error) {
	g.mu.Lock()
	all := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, o := range all {
		o.finish(err)
	}
}

// takeBack removes an op that has not begun.
func (g *group) takeBack(o *op) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, o)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

func (o *op) finish(err error) {
	o.err = err
	close(o.done)
}
