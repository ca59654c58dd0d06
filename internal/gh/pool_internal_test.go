package gh

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func enter(t *testing.T, p *pool, write bool) error {
	t.Helper()
	leave, err := p.enter(t.Context(), write)
	if err == nil {
		leave()
	}
	return err
}

func TestWritesArePacedAndReadsAreNot(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	p := newPool(fake, pace{perMinute: 3, perHour: 5})
	for range 3 {
		if err := enter(t, p, true); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if err := enter(t, p, false); err != nil {
			t.Fatal(err)
		}
	}
	var e *forge.Error
	if err := enter(t, p, true); !errors.As(err, &e) || e.Kind != forge.KindRateLimited || e.RetryAfter != time.Minute {
		t.Errorf("the fourth in a minute: %v", err)
	}
	fake.Advance(time.Minute)
	for range 2 {
		if err := enter(t, p, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(t, p, true); !errors.As(err, &e) || e.RetryAfter != 59*time.Minute {
		t.Errorf("the sixth in an hour: %v", err)
	}
}

func TestAShortTurnIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(clock.Real{}, pace{perMinute: 1, perHour: 500})
		began := time.Now()
		if err := enter(t, p, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(56 * time.Second) //nolint:forbidigo // the bubble's time
		if err := enter(t, p, true); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

func TestWritesGoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(clock.Real{}, pace{perMinute: 80, perHour: 500})
		var now, most atomic.Int32
		for range 10 {
			go func() {
				leave, err := p.enter(t.Context(), true)
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
				now.Add(-1)
				leave()
			}()
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if most.Load() != 1 {
			t.Errorf("%d writes at once", most.Load())
		}
	})
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	t.Parallel()
	p := newPool(clock.Real{}, pace{perMinute: 80, perHour: 500})
	leave, err := p.enter(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := p.enter(ctx, true); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	leave()
	if err := enter(t, p, true); err != nil {
		t.Errorf("the turn was not given back: %v", err)
	}
}

func TestObserveNeedsARemainderOfNone(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	p := newPool(fake, pace{perMinute: 80, perHour: 500})
	for _, h := range []http.Header{
		{},
		{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"9999999999"}},
		{"X-Ratelimit-Remaining": {"0"}},
		{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"soon"}},
	} {
		p.observe(h)
		if err := enter(t, p, false); err != nil {
			t.Errorf("%v: %v", h, err)
		}
	}
}
