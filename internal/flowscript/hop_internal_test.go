package flowscript

import (
	"context"
	"testing"
	"time"
)

// A timer that the engine sets after it has ended a node is left alone, or the
// node would seem to have taken longer.
func TestHopStandsOnceTheNodeIsEnded(t *testing.T) {
	t.Parallel()
	h := &hop{now: begin()}
	h.NewTimer(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h.next(ctx) || !h.Now().Equal(begin()) {
		t.Errorf("it moved to %s", h.Now())
	}
	if !h.next(t.Context()) || !h.Now().Equal(begin().Add(time.Minute)) {
		t.Errorf("it stands at %s, the timer is a minute later", h.Now())
	}
}
