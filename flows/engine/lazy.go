package engine

import (
	"context"
	"sync"
	"time"
)

// lazy is a context that can be cancelled, made when somebody looks at it:
// many nodes and stores never do, and then it costs nothing.
type lazy struct {
	parent  context.Context //nolint:containedctx // it is a context itself
	timeout time.Duration   // 0 is none

	mu    sync.Mutex
	inner *looked // nil until somebody looks
	over  bool
	cause error
}

// looked is what a lazy context is once somebody has looked at it.
type looked struct {
	context.Context //nolint:containedctx // it is what a context is made of
	end             context.CancelCauseFunc
	stop            context.CancelFunc
}

// Deadline implements context.Context.
func (l *lazy) Deadline() (time.Time, bool) { return l.made().Deadline() }

// Done implements context.Context.
func (l *lazy) Done() <-chan struct{} { return l.made().Done() }

// Value implements context.Context.
func (l *lazy) Value(key any) any { return l.made().Value(key) }

// Err implements context.Context.
func (l *lazy) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.inner != nil:
		return l.inner.Err()
	case l.over:
		return context.Canceled
	}
	return l.parent.Err()
}

func (l *lazy) made() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		return l.inner
	}
	l.inner = &looked{}
	l.inner.Context, l.inner.end = context.WithCancelCause(l.parent)
	if l.timeout > 0 {
		l.inner.Context, l.inner.stop = context.WithTimeout(l.inner.Context, l.timeout)
	}
	if l.over {
		l.finish()
	}
	return l.inner
}

// cancel ends it, once, with a cause.
func (l *lazy) cancel(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over, l.cause = true, cause
	if l.inner != nil {
		l.finish()
	}
}

func (l *lazy) finish() {
	l.inner.end(l.cause)
	if l.inner.stop != nil {
		l.inner.stop()
	}
}
