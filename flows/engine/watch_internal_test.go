package engine

import (
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// A call that was over before the watch could look leaves its deadline to
// those that follow, or each of them would wake the watch again.
func TestWatchKeepsTheDeadlineOfACallThatIsOver(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	k := newWatch(&walk{e: &Engine{Options: Options{Clock: clock.NewFake(now)}}})
	at := now.Add(time.Hour)
	k.want.Store(at.UnixNano())
	k.look()
	defer stop(k.timer)
	if k.due.Load() != at.UnixNano() || !k.at.Equal(at) {
		t.Errorf("the watch looks at %s, want %s", k.at, at)
	}
	k.want.Store(now.Add(-time.Second).UnixNano())
	if k.look(); !k.at.Equal(at) {
		t.Errorf("the watch looks at %s, want nothing for what is past", k.at)
	}
}
