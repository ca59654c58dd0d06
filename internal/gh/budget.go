package gh

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Budget is what is known of one rate limit, for logs and metrics.
type Budget struct {
	// Pool is the installation's id, 0 for a token, -1 for the App itself.
	Pool int64 `json:"pool"`
	// Limit, Remaining and Used are the primary quota as the newest answer
	// told it, Reset when it is filled up; all zero before the first answer.
	Limit     int       `json:"limit"`
	Remaining int       `json:"remaining"`
	Used      int       `json:"used"`
	Reset     time.Time `json:"reset,omitzero"`
	// Requests were answered since the start, NotModified of them at no cost.
	Requests    int64 `json:"requests"`
	NotModified int64 `json:"not_modified"`
	// WritesLastHour were begun within an hour; WritesQueued wait for their
	// turn.
	WritesLastHour int `json:"writes_last_hour"`
	WritesQueued   int `json:"writes_queued"`
	// HeldUntil is when GitHub wants to be asked again, if it said so.
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// Budget returns the state of every rate limit in use, by pool.
func (c *Client) Budget() []Budget {
	c.mu.Lock()
	pools := make(map[int64]*pool, len(c.pools))
	for id, p := range c.pools {
		pools[id] = p
	}
	c.mu.Unlock()
	out := make([]Budget, 0, len(pools))
	for id, p := range pools {
		b := p.budget()
		b.Pool = id
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b Budget) int { return cmp.Compare(a.Pool, b.Pool) })
	return out
}

func (p *pool) budget() Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.seen
	now := p.clock.Now()
	for _, at := range p.writes {
		if now.Sub(at) < time.Hour {
			b.WritesLastHour++
		}
	}
	if p.until.After(now) {
		b.HeldUntil = p.until
	}
	return b
}

func (p *pool) waiting(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.WritesQueued += n
}

// count reads what an answer tells of the quota. Answers may overtake each
// other: within a window the most used is the newest.
func (p *pool) count(h http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Requests++
	if h.Get(unchangedHeader) != "" {
		p.seen.NotModified++
	}
	reset, ok := resetAt(h)
	limit, err := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	if !ok || err != nil || reset.Before(p.seen.Reset) {
		return
	}
	remaining, err := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	if err != nil || reset.Equal(p.seen.Reset) && remaining > p.seen.Remaining {
		return
	}
	p.seen.Limit, p.seen.Remaining, p.seen.Used, p.seen.Reset = limit, remaining, max(limit-remaining, 0), reset
}
