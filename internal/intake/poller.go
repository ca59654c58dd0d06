package intake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Source is what the poller reads. Unchanged answers should cost it no quota.
type Source interface {
	// RecentEvents and RecentComments are the newest of the repository's
	// issue events and comments.
	RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error)
	RecentComments(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoComment], error)
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
	// Interval is how often a repository is read, 0 for 30 s. It is read less
	// often when that would make more than RequestsPerMinute reads of one rate
	// limit, 0 for 600, and, with Webhooks, while nothing happens in it.
	Interval          time.Duration
	RequestsPerMinute int
	// Webhooks says that webhooks come, too, and that Told is called for each.
	Webhooks bool
	// Pool names the rate limit that a repository's reads count against; nil
	// for one of all.
	Pool func(forge.Repo) string
	// Report is called after the first round and every twentieth; it may be
	// nil.
	Report func(ctx context.Context, s Stats)
	// Clock may be nil for the machine's, Log for none.
	Clock clock.Clock
	Log   *slog.Logger
	// Skip is as in Options.
	Skip func(forge.Comment) bool
}

// Stats are what the poller has done since its start.
type Stats struct {
	Rounds       int
	Repositories int
	Requests     int64 // 304s among them
	Failing      int   // repositories
	Distrusted   int   // repositories whose webhooks count as broken
}

const (
	// fullEvery is how many rounds apart a repository is swept though its
	// feeds tell nothing. Each has its own turn among them.
	fullEvery = 20
	// longestPause is the most between two rounds while the store keeps
	// failing; they come twice as far apart each time.
	longestPause = 5 * time.Minute
)

// Poller compares the issues with what it has seen of them, and puts what is
// new into the inbox. A repository is read by two feeds, its newest issue
// events and comments, which cost nothing while nothing happens and say which
// issues to look at. It is driven by levels, not edges: at the start and every
// twentieth round all issues with a label are read, so that what happened
// while the bot was down, or what a feed left out, is found.
type Poller struct {
	PollerOptions

	meter  *meter
	feeds  Source
	sweeps Source
	lanes  lanes

	mu      sync.Mutex
	started time.Time
	round   int
	watches map[string]*watch
	causes  map[string]int // repositories that fail by it
	trouble error          // of the store, found after its round
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
	if o.Pool == nil {
		o.Pool = func(forge.Repo) string { return "" }
	}
	if o.Report == nil {
		o.Report = func(context.Context, Stats) {}
	}
	m := newMeter(o.Clock, o.RequestsPerMinute, o.Pool)
	return &Poller{
		PollerOptions: o, meter: m, feeds: paced{o.Source, m, false}, sweeps: paced{o.Source, m, true},
		started: o.Clock.Now(), watches: map[string]*watch{}, causes: map[string]int{},
	}
}

// Run polls at once and then every Interval, until ctx ends, whose cause it
// returns. A repository that is slow, limited or failing keeps no other one
// waiting: a round goes on without it. While rounds fail it stays, with longer
// pauses, and says so: a full disk or a locked file passes, and a daemon that
// has left does not come back.
func (p *Poller) Run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer p.lanes.group.Wait()
	defer cancel(context.Canceled)
	failures := 0
	for {
		began := p.Clock.Now()
		err := p.turn(inner, began)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := max(p.Interval-p.Clock.Now().Sub(began), 0)
		switch {
		case err != nil:
			failures++
			pause = backOff(p.Interval, failures)
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

// turn is a round that is waited for no longer than the interval; what is
// still under way goes on beside the next.
func (p *Poller) turn(ctx context.Context, began time.Time) error {
	done, err := p.begin(ctx, began, false)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return p.taken()
	default:
	}
	timer := p.Clock.NewTimer(p.Interval)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
	case <-ctx.Done():
	}
	return p.taken()
}

// taken is the store's failure since the last call.
func (p *Poller) taken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.trouble
	p.trouble = nil
	return err
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

// Round reads every repository once, whether its time has come or not. The
// failure of a repository is logged and does not touch the others; an error is
// one of the store, the interest or the list of repositories.
func (p *Poller) Round(ctx context.Context) error {
	done, err := p.begin(ctx, p.Clock.Now(), true)
	if err != nil {
		return err
	}
	<-done
	if err := p.taken(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// begin starts a round, of all repositories or of those whose time has come;
// done is closed when all of it is over.
func (p *Poller) begin(ctx context.Context, now time.Time, all bool) (done chan struct{}, err error) {
	work, err := p.plan(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	round := p.round
	p.round++
	work = slices.DeleteFunc(work, func(w *chore) bool {
		st := w.state
		return st.busy || st.paused.After(now) || !all && st.due.After(now)
	})
	// Who has waited longest comes first.
	slices.SortStableFunc(work, func(a, b *chore) int { return a.state.due.Compare(b.state.due) })
	for _, w := range work {
		w.state.busy, w.slow = true, w.state.slow
	}
	p.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	done = make(chan struct{})
	var left atomic.Int64
	left.Store(1)
	leave := func() {
		if left.Add(-1) == 0 {
			cancel(nil)
			if round%fullEvery == 0 {
				p.Report(context.WithoutCancel(ctx), p.Stats())
			}
			close(done)
		}
	}
	for _, w := range work {
		left.Add(1)
		lane, atOnce := "feed", feedsAtOnce
		switch {
		case w.slow:
			lane, atOnce = "slow", slowAtOnce
		case len(w.interest) > 0:
			lane = "active" // its turn comes among few, however many are idle
		}
		p.lanes.run(lane+"/"+p.Pool(w.repo), atOnce, func() {
			defer leave()
			if !p.readFeed(ctx, w, now, round, cancel) {
				return
			}
			left.Add(1)
			p.lanes.run("sweep/"+p.Pool(w.repo), sweepsAtOnce, func() {
				defer leave()
				p.readSweep(ctx, w, cancel)
			})
		})
	}
	leave()
	return done, nil
}

// readFeed reads one repository's feeds, and reports that it must be swept.
// A failure of the store gives the round up.
func (p *Poller) readFeed(ctx context.Context, w *chore, began time.Time, round int, giveUp func(error)) (sweep bool) {
	from := p.Clock.Now()
	gap, err := false, context.Cause(ctx)
	if err == nil {
		gap, err = p.feed(ctx, w)
	}
	p.report(ctx, w, err, giveUp)
	p.rest(w, began)
	p.mu.Lock()
	defer p.mu.Unlock()
	st := w.state
	st.busy, st.slow = false, err != nil || p.Clock.Now().Sub(from) > slowAfter
	if gap {
		st.swept = false
	}
	due := !st.swept || (round+st.turn)%fullEvery == 0
	if err != nil || !w.listed || st.sweeping || !due {
		return false
	}
	st.sweeping = true
	return true
}

func (p *Poller) readSweep(ctx context.Context, w *chore, giveUp func(error)) {
	err := context.Cause(ctx)
	if err == nil {
		err = p.sweep(ctx, w)
	}
	p.report(ctx, w, err, giveUp)
	p.mu.Lock()
	defer p.mu.Unlock()
	w.state.sweeping, w.state.swept = false, err == nil
}

// Stats returns what was done so far.
func (p *Poller) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Rounds: p.round, Repositories: len(p.watches), Requests: p.meter.count()}
	now := p.Clock.Now()
	for _, st := range p.watches {
		if st.cause != "" {
			s.Failing++
		}
		if st.distrust.After(now) {
			s.Distrusted++
		}
	}
	return s
}
