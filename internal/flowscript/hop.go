package flowscript

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// hop is a clock that moves only by what the script says: by the time that
// lines take, by deadlines that pass, and by the pauses before another attempt,
// which are over at once.
type hop struct {
	mu     sync.Mutex
	now    time.Time
	timers []*hopTimer
	// pause, when set, is the longest timer that is taken for the pause before
	// another attempt.
	pause time.Duration
}

// begin is when every rehearsal begins; the date means nothing.
func begin() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// Now implements clock.Clock.
func (h *hop) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// NewTimer implements clock.Clock.
func (h *hop) NewTimer(d time.Duration) clock.Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &hopTimer{h: h, at: h.now.Add(d), c: make(chan time.Time, 1)}
	if d > 0 && d < h.pause {
		h.pause = 0
		h.move(t.at)
	}
	if !t.at.After(h.now) {
		t.c <- h.now
		return t
	}
	h.timers = append(h.timers, t)
	return t
}

// resting says that the engine is about to pause for less than limit.
func (h *hop) resting(limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pause = limit
}

// advance moves by d.
func (h *hop) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.move(h.now.Add(d))
}

// until moves to an instant; one that is past changes nothing.
func (h *hop) until(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.move(t)
}

// next moves to the next timer; false when there is none, or ctx has ended: a
// timer that is set after that is for how long the engine waits for the end.
func (h *hop) next(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.timers) == 0 || ctx.Err() != nil {
		return false
	}
	first := slices.MinFunc(h.timers, func(a, b *hopTimer) int { return a.at.Compare(b.at) })
	h.move(first.at)
	return true
}

func (h *hop) move(t time.Time) {
	if t.After(h.now) {
		h.now = t
	}
	h.timers = slices.DeleteFunc(h.timers, func(t *hopTimer) bool {
		if t.at.After(h.now) {
			return false
		}
		t.c <- h.now
		return true
	})
}

type hopTimer struct {
	h  *hop
	at time.Time
	c  chan time.Time
}

// C implements clock.Timer.
func (t *hopTimer) C() <-chan time.Time { return t.c }

// Stop implements clock.Timer.
func (t *hopTimer) Stop() bool {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	i := slices.Index(t.h.timers, t)
	if i < 0 {
		return false
	}
	t.h.timers = slices.Delete(t.h.timers, i, i+1)
	return true
}
