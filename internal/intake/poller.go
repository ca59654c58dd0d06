package intake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Source is what the poller reads. Unchanged answers should cost it no quota.
type Source interface {
	// IssuesByLabel lists the open issues that have the label.
	IssuesByLabel(ctx context.Context, r forge.Repo, label string) ([]forge.Issue, error)
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	Events(ctx context.Context, ref forge.Ref) ([]forge.IssueEvent, error)
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	// Repository tells a vanished issue from a repository that can't be seen.
	Repository(ctx context.Context, r forge.Repo) (forge.Repository, error)
}

// PollerOptions are the parts of a Poller.
type PollerOptions struct {
	Source Source
	Inbox  checkpoints.Inbox
	// Interest names issues to read whatever their labels: those with an open
	// run or a latched stop. Pull requests may be among them.
	Interest func(ctx context.Context) ([]forge.Ref, error)
	// Labels are all labels of the pipeline, Repos the repositories.
	Labels []string
	Repos  func(ctx context.Context) ([]forge.Repo, error)
	// Interval is the pause between rounds, 0 for 30 s; it is longer when the
	// rounds of a minute would make more than RequestsPerMinute reads, 0 for
	// 600.
	Interval          time.Duration
	RequestsPerMinute int
	// Clock may be nil for the machine's, Log for none.
	Clock clock.Clock
	Log   *slog.Logger
	// Skip is as in Options.
	Skip func(forge.Comment) bool
}

const (
	// fullEvery is how many rounds apart every listed issue is read though
	// nothing about it looks changed: labelling may not bump its time.
	fullEvery = 20
	// longestPause is the most between two rounds while the store keeps
	// failing; they come twice as far apart each time.
	longestPause = 5 * time.Minute
	// atOnce is how many repositories are read at the same time.
	atOnce = 4
)

// Poller compares the issues with what it has seen of them, and puts what is
// new into the inbox. It is driven by levels, not edges: what happened while
// the bot was down is found by the first round.
type Poller struct {
	PollerOptions

	meter *meter

	mu     sync.Mutex
	round  int
	paused map[string]time.Time // by repository, until when
	failed map[string]bool      // by repository, reported already
}

// errStore marks a failure of our own store, after which a round is given up.
var errStore = errors.New("the store failed")

// NewPoller returns a poller that has not begun.
func NewPoller(o PollerOptions) *Poller {
	if o.Interval <= 0 {
		o.Interval = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Skip == nil {
		o.Skip = func(forge.Comment) bool { return false }
	}
	if o.RequestsPerMinute <= 0 {
		o.RequestsPerMinute = defaultPerMinute
	}
	m := &meter{source: o.Source, clock: o.Clock, most: o.RequestsPerMinute}
	o.Source = m
	return &Poller{PollerOptions: o, meter: m, paused: map[string]time.Time{}, failed: map[string]bool{}}
}

// Run polls at once and then every Interval, until ctx ends, whose cause it
// returns. While rounds fail it stays, with longer pauses, and says so: a full
// disk or a locked file passes, and a daemon that has left does not come back.
func (p *Poller) Run(ctx context.Context) error {
	failures := 0
	for {
		err := p.Round(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := max(p.Interval, p.meter.delay())
		switch {
		case err != nil:
			failures++
			pause = backOff(pause, failures)
			p.Log.ErrorContext(ctx, "not ready: polling round given up", "error", err, "failures", failures, "wait", pause.String())
		case failures > 0:
			p.Log.InfoContext(ctx, "ready again: polling works", "failures", failures)
			failures = 0
		}
		if err := clock.Sleep(ctx, p.Clock, pause); err != nil {
			return err
		}
	}
}

// backOff doubles a pause for every failure after the first.
func backOff(pause time.Duration, failures int) time.Duration {
	for range failures - 1 {
		if pause >= longestPause {
			break
		}
		pause = min(2*pause, longestPause)
	}
	return pause
}

// Round reads everything once. The failure of a repository is logged and does
// not touch the others; an error is one of the store, the interest or the
// list of repositories.
func (p *Poller) Round(ctx context.Context) error {
	work, err := p.plan(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	full := p.round%fullEvery == 0
	p.round++
	p.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, w := range work {
		if p.isPaused(w.repo) {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			err := p.repository(ctx, w, full)
			if errors.Is(err, errStore) {
				cancel(err)
			}
			p.report(ctx, w.repo, err)
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
