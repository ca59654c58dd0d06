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
