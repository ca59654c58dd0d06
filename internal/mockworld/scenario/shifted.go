package scenario

import (
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// shifted is the machine's clock plus what steps have advanced it by.
type shifted struct {
	mu     sync.Mutex
	offset time.Duration
	timers map[*shiftedTimer]bool
}

func newShifted() *shifted { return &shifted{timers: map[*shiftedTimer]bool{}} }

// Now implements clock.Clock.
func (s *shifted) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.offset).UTC()
}

// NewTimer implements clock.Clock.
func (s *shifted) NewTimer(d time.Duration) clock.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &shiftedTimer{clock: s, at: time.Now().Add(s.offset + d), c: make(chan time.Time, 1)}
	t.real = time.AfterFunc(d, t.fire)
	s.timers[t] = true
	return t
}

// Advance moves the clock and lets fire what is due.
func (s *shifted) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
	now := time.Now().Add(s.offset)
	for t := range s.timers {
		t.real.Reset(max(t.at.Sub(now), 0))
	}
}

type shiftedTimer struct {
	clock *shifted
	at    time.Time
	real  *time.Timer
	c     chan time.Time
}

func (t *shiftedTimer) fire() {
	if t.Stop() {
		t.c <- t.at.UTC()
	}
}

// C implements clock.Timer.
func (t *shiftedTimer) C() <-chan time.Time { return t.c }

// Stop implements clock.Timer.
func (t *shiftedTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	pending := t.clock.timers[t]
	delete(t.clock.timers, t)
	t.real.Stop()
	return pending
}
