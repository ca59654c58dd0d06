package clock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

func TestFake(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := clock.NewFake(start)
	late, early, stopped := f.NewTimer(2*time.Second), f.NewTimer(time.Second), f.NewTimer(time.Second)
	if !stopped.Stop() || stopped.Stop() || f.Waiting() != 2 {
		t.Error("a stopped timer is not gone, or stops twice")
	}
	f.Advance(time.Second)
	if at := <-early.C(); !at.Equal(start.Add(time.Second)) {
		t.Errorf("fired at %s", at)
	}
	select {
	case <-late.C():
		t.Error("fired early")
	default:
	}
	f.Advance(time.Hour)
	<-late.C()
	if f.Waiting() != 0 || late.Stop() {
		t.Error("a fired timer still waits")
	}
	<-f.NewTimer(0).C()
}

func TestSleep(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(time.Unix(0, 0))
	done := make(chan error)
	go func() { done <- clock.Sleep(t.Context(), f, time.Minute) }()
	for f.Waiting() == 0 {
		select {
		case err := <-done:
			t.Fatalf("slept not at all: %v", err)
		default:
		}
	}
	f.Advance(time.Minute)
	if err := <-done; err != nil {
		t.Error(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := clock.Sleep(ctx, f, time.Minute); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}
