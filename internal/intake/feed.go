package intake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// startBack is how old a label event may be to be looked at in the very first
// round, ahead of the sweep that finds everything.
const startBack = time.Hour

// entry is one line of a feed. A comment that is edited is a new entry.
type entry struct {
	at int64 // when, in seconds
	id int64
}

func (a entry) compare(b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) }

// horizon is the part of a feed that was read last, oldest first.
type horizon struct {
	known   bool
	entries []entry
	whole   bool // there was nothing older
}

// fresh reports that an entry was not there at the last reading. What lies
// below its oldest entry was cut off then, and is no news.
func (h horizon) fresh(e entry) bool {
	if _, found := slices.BinarySearchFunc(h.entries, e, entry.compare); found {
		return false
	}
	return h.whole || len(h.entries) == 0 || e.compare(h.entries[0]) > 0
}

// next is the horizon after a reading; gap reports that so much is new that
// entries between the two may never have been seen.
func (h horizon) next(entries []entry, more bool) (now horizon, gap bool) {
	slices.SortFunc(entries, entry.compare)
	gap = h.known && more && len(entries) > 0 && h.fresh(entries[0]) && (len(h.entries) == 0 || entries[0].compare(h.entries[len(h.entries)-1]) > 0)
	return horizon{true, entries, !more}, gap
}

// hints reads the two feeds of a repository and adds to the pending issues
// those that something happened to. The feeds only say where to look: what is
// news is read from the issue itself. gap asks for a sweep.
func (p *Poller) hints(ctx context.Context, w *chore) (gap bool, err error) {
	st := w.state
	events, err := p.feeds.RecentEvents(ctx, w.repo)
	if err != nil {
		return false, err
	}
	comments, err := p.feeds.RecentComments(ctx, w.repo)
	if err != nil {
		return false, err
	}
	unread := events.Unchanged && !st.events.known || comments.Unchanged && !st.comments.known
	if !events.Unchanged {
		var seen []entry
		first := !st.events.known
		for _, e := range events.Items {
			this := entry{e.At.Unix(), e.ID}
			seen = append(seen, this)
			ours := (e.Kind == "labeled" || e.Kind == "unlabeled") && has(p.Labels, e.Label)
			if e.Number > 0 && (!first && st.events.fresh(this) || first && ours && p.Clock.Now().Sub(e.At) < startBack) {
				st.touch(e.Number, ours)
			}
		}
		var hole bool
		st.events, hole = st.events.next(seen, events.More)
		gap = gap || hole
	}
	if !comments.Unchanged {
		var seen []entry
		for _, c := range comments.Items {
			this := entry{c.Updated.Unix(), c.ID}
			seen = append(seen, this)
			if c.Number > 0 && st.comments.known && st.comments.fresh(this) && !p.Skip(c.Comment) {
				st.touch(c.Number, false)
			}
		}
		var hole bool
		st.comments, hole = st.comments.next(seen, comments.More)
		gap = gap || hole
	}
	return gap || unread, nil
}

// feed looks at the issues of interest, and at those that the feeds name.
func (p *Poller) feed(ctx context.Context, w *chore) (gap bool, err error) {
	if w.listed {
		if gap, err = p.hints(ctx, w); err != nil {
			return false, err
		}
	}
	st := w.state
	errs := &failures{}
	pending := st.touched()
	watched := map[int]bool{}
	for _, ref := range w.interest {
		if watched[ref.Number] {
			continue
		}
		watched[ref.Number] = true
		_, touched := pending[ref.Number]
		again, err := p.visit(ctx, p.feeds, w, ref, touched || !w.listed)
		if err == nil && (touched || again) {
			st.settle(ref.Number, again)
		}
		if !errs.keep(ctx, err) {
			return gap, errs.join()
		}
	}
	for _, number := range slices.Sorted(maps.Keys(pending)) {
		if watched[number] {
			continue
		}
		again, err := p.touched(ctx, w, forge.Ref{Repo: w.repo, Number: number}, pending[number])
		if err == nil {
			st.settle(number, again)
		}
		if !errs.keep(ctx, err) {
			break
		}
	}
	return gap, errs.join()
}

// visit reads an issue of interest and looks at it.
func (p *Poller) visit(ctx context.Context, src Source, w *chore, ref forge.Ref, must bool) (again bool, err error) {
	issue, gone, err := p.fetch(ctx, src, w, ref)
	if err != nil || gone {
		return false, err
	}
	return p.look(ctx, src, w, issue, must)
}

// touched looks at an issue that a feed names, if it is one of the pipeline's:
// seen before, or with one of its labels put on or taken off.
func (p *Poller) touched(ctx context.Context, w *chore, ref forge.Ref, ours bool) (again bool, err error) {
	if !ours {
		name := placeName(ref)
		text, err := p.Inbox.Cursor(ctx, name)
		if err != nil {
			return false, fmt.Errorf("%w: reading cursor %s: %w", errStore, name, err)
		}
		if text == "" {
			return false, nil
		}
	}
	issue, err := p.feeds.Issue(ctx, ref)
	if forge.IsKind(err, forge.KindNotFound) {
		return false, nil // gone, and nobody works on it
	}
	if err != nil {
		return false, err
	}
	if !strings.EqualFold(issue.Ref.Repo.String(), ref.Repo.String()) {
		issue.Ref = ref // renamed since: the store knows the old name
	}
	if issue.Pull {
		return false, nil
	}
	return p.look(ctx, p.feeds, w, issue, true)
}
