package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// maxStoreFailures is how many rounds in a row may fail by the store
	// before Run gives up.
	maxStoreFailures = 10
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
// returns. It gives up only when the store keeps failing.
func (p *Poller) Run(ctx context.Context) error {
	failures := 0
	for {
		err := p.Round(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures++
		if err == nil {
			failures = 0
		} else if failures >= maxStoreFailures {
			return fmt.Errorf("%d rounds failed, the last with: %w", failures, err)
		} else {
			p.Log.ErrorContext(ctx, "polling round given up", "error", err)
		}
		if err := clock.Sleep(ctx, p.Clock, max(p.Interval, p.meter.delay())); err != nil {
			return err
		}
	}
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

// chore is what to read of one repository in a round.
type chore struct {
	repo forge.Repo
	// listed is false for a repository that only an issue of interest names.
	listed   bool
	interest []forge.Ref
}

func (p *Poller) plan(ctx context.Context) ([]*chore, error) {
	repos, err := p.Repos(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the repositories to poll: %w", err)
	}
	refs, err := p.Interest(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the issues of interest: %w", err)
	}
	var work []*chore
	byRepo := map[string]*chore{}
	of := func(r forge.Repo) *chore {
		key := strings.ToLower(r.String())
		c, ok := byRepo[key]
		if !ok {
			c = &chore{repo: r}
			byRepo[key] = c
			work = append(work, c)
		}
		return c
	}
	for _, r := range repos {
		of(r).listed = true
	}
	for _, ref := range refs {
		c := of(ref.Repo)
		c.interest = append(c.interest, ref)
	}
	return work, nil
}

// repository lists the issues by label and reads those worth reading. One
// issue's failure does not keep the others from being read.
func (p *Poller) repository(ctx context.Context, w *chore, full bool) error {
	listed := map[string]forge.Issue{}
	var order []string
	if w.listed {
		for _, label := range p.Labels {
			issues, err := p.Source.IssuesByLabel(ctx, w.repo, label)
			if err != nil {
				return err
			}
			for _, i := range issues {
				key := fold(i.Ref)
				if _, ok := listed[key]; !ok {
					order = append(order, key)
				}
				listed[key] = i // the later list is the newer snapshot
			}
		}
	}
	var errs []error
	keep := func(err error) bool {
		errs = append(errs, err)
		return err == nil || !errors.Is(err, errStore) && !forge.IsKind(err, forge.KindRateLimited) && ctx.Err() == nil
	}
	watched := map[string]bool{}
	for _, ref := range w.interest {
		key := fold(ref)
		if watched[key] {
			continue
		}
		watched[key] = true
		issue, ok := listed[key]
		if !ok {
			var gone bool
			var err error
			if issue, gone, err = p.fetch(ctx, ref); err != nil || gone {
				if !keep(err) {
					return errors.Join(errs...)
				}
				continue
			}
		}
		if !keep(p.look(ctx, issue, true)) {
			return errors.Join(errs...)
		}
	}
	for _, key := range order {
		if !watched[key] && !keep(p.look(ctx, listed[key], full)) {
			break
		}
	}
	return errors.Join(errs...)
}

// fetch reads an issue of interest. One that is gone from a repository that
// can still be seen is an event; if the repository can't be seen either, the
// bot has lost its access, which says nothing of the issue.
func (p *Poller) fetch(ctx context.Context, ref forge.Ref) (issue forge.Issue, gone bool, err error) {
	issue, err = p.Source.Issue(ctx, ref)
	if err == nil {
		if !strings.EqualFold(issue.Ref.String(), ref.String()) {
			issue.Ref = ref // renamed since: the store knows the old name
		}
		return issue, false, nil
	}
	if !forge.IsKind(err, forge.KindNotFound) {
		return issue, false, err
	}
	if _, seeErr := p.Source.Repository(ctx, ref.Repo); seeErr != nil {
		return issue, false, fmt.Errorf("%s can't be read, nor can its repository: %w", ref, seeErr)
	}
	now := p.Clock.Now()
	ev := forge.Event{Kind: forge.IssueGone, Issue: ref, At: now, Source: "poll"}
	// The hour is in the key since an issue may come back and go again.
	return issue, true, p.emit(ctx, happened{ev, "gone/" + fold(ref) + "@" + now.UTC().Format("2006-01-02T15")})
}

// look reads an issue's log and comments, unless nothing about it changed and
// it need not be read, and emits what is new. The cursor moves last.
func (p *Poller) look(ctx context.Context, issue forge.Issue, must bool) error {
	name := placeName(issue.Ref)
	text, err := p.Inbox.Cursor(ctx, name)
	if err != nil {
		return fmt.Errorf("%w: reading cursor %s: %w", errStore, name, err)
	}
	was, known, err := readPlace(text)
	if err != nil {
		return fmt.Errorf("%w: cursor %s: %w", errStore, name, err)
	}
	if known && !must && was.unchanged(snapshot(issue)) {
		return nil
	}
	s := seen{issue: issue}
	if s.log, err = p.Source.Events(ctx, issue.Ref); err != nil {
		return err
	}
	if s.comments, err = p.Source.Comments(ctx, issue.Ref); err != nil {
		return err
	}
	news, now := s.news(was, known, p.Labels, p.Skip)
	for _, h := range news {
		if err := p.emit(ctx, h); err != nil {
			return err
		}
	}
	next, err := now.text()
	if err != nil {
		return fmt.Errorf("encoding the place of %s: %w", issue.Ref, err)
	}
	if next == text {
		return nil
	}
	if err := p.Inbox.SetCursor(ctx, name, next); err != nil {
		return fmt.Errorf("%w: moving cursor %s: %w", errStore, name, err)
	}
	return nil
}

func (p *Poller) emit(ctx context.Context, h happened) error {
	fresh, err := receive(ctx, p.Inbox, h.event, "", h.key, p.Clock.Now())
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if fresh {
		p.Log.InfoContext(ctx, "poll found an event", "issue", h.event.Issue.String(), "event", string(h.event.Kind), "label", h.event.Label)
	}
	return nil
}
