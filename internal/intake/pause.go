package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// defaultPause is how long to leave a repository alone when the forge limits
// the rate without saying for how long.
const defaultPause = time.Minute

// report logs a failure when it begins, not every round, and once for all
// repositories that fail by the same cause, such as a token that ended; and its
// end. A rate limit pauses the repository for as long as the forge asked; a
// failure of the store is kept for the round.
func (p *Poller) report(ctx context.Context, w *chore, err error, giveUp func(error)) {
	if errors.Is(err, errStore) {
		giveUp(err)
		p.mu.Lock()
		p.trouble = err
		p.mu.Unlock()
		return
	}
	if err != nil && ctx.Err() != nil {
		return
	}
	wait, cause := limit(err), causeOf(err)
	st := w.state
	p.mu.Lock()
	if wait > 0 {
		st.paused = p.Clock.Now().Add(wait)
	}
	before, others := st.cause, 0
	if before != cause {
		if before != "" {
			if p.causes[before]--; p.causes[before] == 0 {
				delete(p.causes, before)
			}
		}
		if cause != "" {
			others = p.causes[cause]
			p.causes[cause]++
		}
		st.cause = cause
	}
	still := p.causes[before]
	p.mu.Unlock()
	repo := w.repo.String()
	switch {
	case before == cause:
	case err == nil && still == 0:
		p.Log.InfoContext(ctx, "polling works again", "repo", repo)
	case err == nil:
		p.Log.DebugContext(ctx, "polling works again", "repo", repo, "still_failing", still)
	case others > 0:
		p.Log.DebugContext(ctx, "polling fails here, too", "repo", repo, "error", err)
	case wait > 0:
		p.Log.WarnContext(ctx, "polling waits for the rate limit", "repo", repo, "wait", wait.String(), "error", err)
	default:
		p.Log.WarnContext(ctx, "polling failed; other repositories that fail by the same cause are not named", "repo", repo, "error", err)
	}
}

// causeOf is what failures of the same cause have in common: what the forge
// said, without what was being read.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	var e *forge.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	if e.Kind == forge.KindRateLimited {
		text = "" // it names the time
	}
	return fmt.Sprintf("%s/%d/%s/%s", e.Kind, e.Status, e.Needs, text)
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
