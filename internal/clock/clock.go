// Package clock is the one source of time. Code that waits takes a Clock, so
// that tests and scenarios decide how fast time passes.
//
// It must not know anything of the product and imports only the standard
// library.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and waits for it to pass.
type Clock interface {
	// Now is the current instant, in UTC.
	Now() time.Time
	// NewTimer fires once on its channel after d (at once when d <= 0).
	NewTimer(d time.Duration) Timer
}

// Timer is a single pending instant of a Clock.
type Timer interface {
	// C delivers the instant at which the timer fired; at most once.
	C() <-chan time.Time
	// Stop prevents firing; false when it fired or was stopped before.
	Stop() bool
}

// Real is the machine's clock.
type Real struct{}

// Now implements Clock.
func (Real) Now() time.Time { return time.Now().UTC() }

// NewTimer implements Clock.
func (Real) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ t *time.Timer }

func (r realTimer) C() <-chan time.Time { return r.t.C }
func (r realTimer) Stop() bool          { return r.t.Stop() }

// Sleep waits for d on c, or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
