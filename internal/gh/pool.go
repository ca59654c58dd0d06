package gh

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

const (
	// shortWait is as long as a call waits by itself; a longer wait is
	// returned as an error, so that the caller can give up its worker.
	shortWait = 5 * time.Second
	// maxInFlight stays well below GitHub's 100 concurrent requests.
	maxInFlight = 32
)

// pace is how many content writes are allowed.
type pace struct{ perMinute, perHour int }

// pool is the rate limit of one installation or token, as far as it is known:
// until when GitHub wants no request, and the queue through which its writes
// go one after the other. It reads the injected clock; go-github's own check
// reads the wall clock, can't be switched off and is left unused by taking a
// fresh go-github client for each request.
type pool struct {
	clock clock.Clock
	pace  pace
	slots chan struct{} // requests in flight
	queue chan struct{} // holds one: the write in flight

	mu     sync.Mutex
	until  time.Time
	writes []time.Time // begun within the last hour, oldest first
	seen   Budget      // what answers told, and counts
}

func newPool(c clock.Clock, p pace) *pool {
	return &pool{clock: c, pace: p, slots: make(chan struct{}, maxInFlight), queue: make(chan struct{}, 1)}
}

func (c *Client) pool(id int64) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pools[id]
	if !ok {
		p = newPool(c.clock, c.pace)
		c.pools[id] = p
	}
	return p
}

// enter waits for a slot (and for the turn of a write) and for short limits;
// a long one is a KindRateLimited error. The caller must call leave.
func (p *pool) enter(ctx context.Context, write bool) (leave func(), err error) {
	queued := func() {}
	if write {
		p.waiting(1)
		select {
		case p.queue <- struct{}{}:
			p.waiting(-1)
			queued = func() { <-p.queue }
		case <-ctx.Done():
			p.waiting(-1)
			return nil, context.Cause(ctx)
		}
	}
	if err := p.wait(ctx, write); err != nil {
		queued()
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots; queued() }, nil
	case <-ctx.Done():
		queued()
		return nil, context.Cause(ctx)
	}
}

func (p *pool) wait(ctx context.Context, write bool) error {
	for {
		d, why := p.delay(write)
		if d <= 0 {
			return nil
		}
		if d > shortWait {
			return &forge.Error{Kind: forge.KindRateLimited, RetryAfter: d, Err: why}
		}
		if err := clock.Sleep(ctx, p.clock, d); err != nil {
			return err
		}
	}
}

// delay is how long a request must still wait; 0 records a write as begun.
func (p *pool) delay(write bool) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if d := p.until.Sub(now); d > 0 {
		return d, errors.New("GitHub asked to wait; nothing was sent")
	}
	if !write {
		return 0, nil
	}
	for len(p.writes) > 0 && now.Sub(p.writes[0]) >= time.Hour {
		p.writes = p.writes[1:]
	}
	d := max(p.over(now, p.pace.perMinute, time.Minute), p.over(now, p.pace.perHour, time.Hour))
	if d > 0 {
		return d, errors.New("the bot's own pace of writes is used up; nothing was sent")
	}
	p.writes = append(p.writes, now)
	return 0, nil
}

// over is how long until fewer than n writes lie in the window.
func (p *pool) over(now time.Time, n int, window time.Duration) time.Duration {
	if len(p.writes) < n {
		return 0
	}
	return max(p.writes[len(p.writes)-n].Add(window).Sub(now), 0)
}

// hold keeps all requests back for d.
func (p *pool) hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.clock.Now().Add(d); until.After(p.until) {
		p.until = until
	}
}

// observe reads the limits of an answer that was no refusal.
func (p *pool) observe(h http.Header) {
	p.count(h)
	if h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	if _, ok := resetAt(h); ok {
		p.hold(retryAfter(h, p.clock.Now()))
	}
}
