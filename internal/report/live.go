package report

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// live is the runs at work whose comment is behind.
type live struct {
	mu   sync.Mutex
	runs map[string]*dirty
}

// dirty is a run that moved on since; posted is when its comment was last
// brought up to date, or the run first heard of.
type dirty struct {
	moved  bool
	posted time.Time
}

// Moved notes that a run at work moved on. It returns at once.
func (r *Reporter) Moved(runID string, now time.Time) {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	if r.live.runs == nil {
		r.live.runs = map[string]*dirty{}
	}
	d := r.live.runs[runID]
	if d == nil {
		d = &dirty{posted: now} // its beginning was told of
		r.live.runs[runID] = d
	}
	d.moved = true
}

// due is the run whose comment is behind longest, "" when none is by every.
func (l *live) due(now time.Time, every time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, oldest := "", time.Time{}
	for run, d := range l.runs {
		if d.moved && now.Sub(d.posted) >= every && (id == "" || d.posted.Before(oldest)) {
			id, oldest = run, d.posted
		}
	}
	if id != "" {
		l.runs[id].moved, l.runs[id].posted = false, now
	}
	return id
}

func (l *live) forget(runID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, runID)
}

// Live brings the comments of runs at work up to date until ctx ends: one
// every gap, so that many runs don't use up the writes of an installation, and
// each at most once in every. What a run comes to is posted at once, by Post.
func (r *Reporter) Live(ctx context.Context, c clock.Clock, log *slog.Logger, every, gap time.Duration) {
	for clock.Sleep(ctx, c, gap) == nil {
		id := r.live.due(c.Now(), every)
		if id == "" {
			continue
		}
		if err := r.refresh(ctx, id); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "status comment not brought up to date", "run", id, "error", err)
		}
	}
}

// refresh posts how far a run at work is. What the run is now is asked within
// the issue's turn: a post of its end may have come before.
func (r *Reporter) refresh(ctx context.Context, runID string) error {
	run, err := r.store.Get(ctx, runID)
	if err != nil {
		return fmt.Errorf("reading run %s: %w", runID, err)
	}
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return fmt.Errorf("run %s: %w", runID, err)
	}
	defer r.issues.Take(ref.String())()
	if run, err = r.store.Get(ctx, runID); err != nil {
		return fmt.Errorf("reading run %s: %w", runID, err)
	}
	if run.Status != checkpoints.Running || run.Parent != "" || run.Mode != "" {
		r.live.forget(runID)
		return nil
	}
	_, _, err = r.post(ctx, ref, run, Working, false)
	return err
}
