package intake

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// defaultPause is how long to leave a repository alone when the forge limits
// the rate without saying for how long.
const defaultPause = time.Minute

func (p *Poller) isPaused(r forge.Repo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused[strings.ToLower(r.String())].After(p.Clock.Now())
}

// report logs a repository's failure when it begins, not every round, and its
// end; a rate limit pauses the repository for as long as the forge asked.
func (p *Poller) report(ctx context.Context, r forge.Repo, err error) {
	if err != nil && (ctx.Err() != nil || errors.Is(err, errStore)) {
		return
	}
	key := strings.ToLower(r.String())
	p.mu.Lock()
	before := p.failed[key]
	p.failed[key] = err != nil
	wait := limit(err)
	if wait > 0 {
		p.paused[key] = p.Clock.Now().Add(wait)
	}
	p.mu.Unlock()
	switch {
	case err == nil && before:
		p.Log.InfoContext(ctx, "polling works again", "repo", r.String())
	case err == nil || before:
	case wait > 0:
		p.Log.WarnContext(ctx, "polling waits for the rate limit", "repo", r.String(), "wait", wait.String(), "error", err)
	default:
		p.Log.WarnContext(ctx, "polling failed", "repo", r.String(), "error", err)
	}
}

// limit is how long err asks to wait, 0 when it is no rate limit.
func limit(err error) time.Duration {
	var e *forge.Error
	if !errors.As(err, &e) || e.Kind != forge.KindRateLimited {
		return limitIn(err)
	}
	if e.RetryAfter <= 0 {
		return defaultPause
	}
	return e.RetryAfter
}

// limitIn looks through joined errors, of which errors.As sees the first.
func limitIn(err error) time.Duration {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return 0
	}
	var most time.Duration
	for _, one := range many.Unwrap() {
		most = max(most, limit(one))
	}
	return most
}
