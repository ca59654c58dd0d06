package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// chore is what to read of one repository in a round.
type chore struct {
	repo forge.Repo
	// listed is false for a repository that only an issue of interest names.
	listed   bool
	interest []forge.Ref
	state    *watch
	slow     bool
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
			c = &chore{repo: r, state: p.watch(r)}
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
		ref.Repo = c.repo // one spelling
		c.interest = append(c.interest, ref)
	}
	return work, nil
}

// failures collects those of a repository's issues: one issue's does not keep
// the others from being read.
type failures struct{ errs []error }

// keep adds err and reports that reading on makes sense.
func (f *failures) keep(ctx context.Context, err error) bool {
	f.errs = append(f.errs, err)
	return err == nil || !errors.Is(err, errStore) && !forge.IsKind(err, forge.KindRateLimited) && ctx.Err() == nil
}

func (f *failures) join() error { return errors.Join(f.errs...) }

// sweep reads every issue that has one of the labels now, and those of
// interest, whatever the feeds say: it is what finds that which happened while
// the bot was down, and that which the feeds left out.
func (p *Poller) sweep(ctx context.Context, w *chore) error {
	listed := map[string]forge.Issue{}
	var order []string
	for _, label := range p.Labels {
		issues, err := p.sweeps.IssuesByLabel(ctx, w.repo, label)
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
	errs := &failures{}
	watched := map[string]bool{}
	for _, ref := range w.interest {
		key := fold(ref)
		if watched[key] {
			continue
		}
		watched[key] = true
		var again bool
		var err error
		if issue, ok := listed[key]; ok {
			again, err = p.look(ctx, p.sweeps, w, issue, true)
		} else {
			again, err = p.visit(ctx, p.sweeps, w, ref, true)
		}
		if again {
			w.state.touch(ref.Number, true)
		}
		if !errs.keep(ctx, err) {
			return errs.join()
		}
	}
	for _, key := range order {
		if watched[key] {
			continue
		}
		again, err := p.look(ctx, p.sweeps, w, listed[key], true)
		if again {
			w.state.touch(listed[key].Ref.Number, true)
		}
		if !errs.keep(ctx, err) {
			break
		}
	}
	return errs.join()
}

// fetch reads an issue of interest. One that is gone from a repository that
// can still be seen is an event; if the repository can't be seen either, the
// bot has lost its access, which says nothing of the issue.
func (p *Poller) fetch(ctx context.Context, src Source, w *chore, ref forge.Ref) (issue forge.Issue, gone bool, err error) {
	issue, err = src.Issue(ctx, ref)
	if err == nil {
		if !strings.EqualFold(issue.Ref.String(), ref.String()) {
			issue.Ref = ref // renamed since: the store knows the old name
		}
		return issue, false, nil
	}
	if !forge.IsKind(err, forge.KindNotFound) {
		return issue, false, err
	}
	if _, seeErr := src.Repository(ctx, ref.Repo); seeErr != nil {
		return issue, false, fmt.Errorf("%s can't be read, nor can its repository: %w", ref, seeErr)
	}
	now := p.Clock.Now()
	ev := forge.Event{Kind: forge.IssueGone, Issue: ref, At: now, Source: "poll"}
	// The hour is in the key since an issue may come back and go again.
	return issue, true, p.emit(ctx, w, happened{ev, "gone/" + fold(ref) + "@" + now.UTC().Format("2006-01-02T15")})
}

// look reads an issue's log and comments, unless nothing about it changed and
// it need not be read, and emits what is new. The cursor moves last. again
// reports that the log does not explain the labels yet.
func (p *Poller) look(ctx context.Context, src Source, w *chore, issue forge.Issue, must bool) (again bool, err error) {
	// Feed and sweep may come to one issue at once.
	w.state.reading.Lock()
	defer w.state.reading.Unlock()
	name := placeName(issue.Ref)
	text, err := p.Inbox.Cursor(ctx, name)
	if err != nil {
		return false, fmt.Errorf("%w: reading cursor %s: %w", errStore, name, err)
	}
	was, known, err := readPlace(text)
	if err != nil {
		return false, fmt.Errorf("%w: cursor %s: %w", errStore, name, err)
	}
	if known && (!must && was.unchanged(snapshot(issue)) || issue.Updated.Before(was.Updated)) {
		return false, nil // the second: what was listed is old by now
	}
	s := seen{issue: issue}
	if s.log, err = src.Events(ctx, issue.Ref); err != nil {
		return false, err
	}
	if s.comments, err = src.Comments(ctx, issue.Ref); err != nil {
		return false, err
	}
	news, now := s.news(was, known, p.Labels, p.Skip)
	for _, h := range news {
		if err := p.emit(ctx, w, h); err != nil {
			return false, err
		}
	}
	next, err := now.text()
	if err != nil {
		return false, fmt.Errorf("encoding the place of %s: %w", issue.Ref, err)
	}
	if next == text {
		return now.Behind, nil
	}
	if err := p.Inbox.SetCursor(ctx, name, next); err != nil {
		return false, fmt.Errorf("%w: moving cursor %s: %w", errStore, name, err)
	}
	return now.Behind, nil
}

func (p *Poller) emit(ctx context.Context, w *chore, h happened) error {
	now := p.Clock.Now()
	fresh, err := receive(ctx, p.Inbox, h.event, "", h.key, now)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if fresh {
		p.found(w.state, h.event.At, now)
		p.Log.InfoContext(ctx, "poll found an event", "issue", h.event.Issue.String(), "event", string(h.event.Kind), "label", h.event.Label)
	}
	return nil
}
