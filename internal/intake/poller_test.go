package intake_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	widgets = forge.Repo{Owner: "acme", Name: "widgets"}
	seven   = forge.Ref{Repo: widgets, Number: 7}
	ada     = forge.Actor{ID: 5, Login: "ada"}
)

// world is a source by data.
type world struct {
	mu     sync.Mutex
	issues map[forge.Ref]*thread
	fail   map[forge.Repo]error // every call about the repository
	reads  int                  // of logs
	lists  int
	feeds  int
	blind  bool // the feeds tell nothing
	page   int  // entries of a feed, 0 for 100
}

type thread struct {
	forge.Issue
	log      []forge.IssueEvent
	comments []forge.Comment
	gone     bool
}

func newWorld() *world {
	return &world{issues: map[forge.Ref]*thread{}, fail: map[forge.Repo]error{}}
}

func (w *world) issue(ref forge.Ref, labels ...string) *thread {
	t := &thread{Issue: forge.Issue{Ref: ref, ID: int64(1000 + ref.Number), Open: true, Body: "text", Updated: start}}
	w.issues[ref] = t
	for _, l := range labels {
		t.label(int64(100+len(t.log)), "labeled", l)
	}
	return t
}

// label adds an entry to the log and does what it says.
func (t *thread) label(id int64, kind, label string) {
	t.event(id, kind, label)
	if kind == "labeled" {
		t.Labels = append(t.Labels, label)
		return
	}
	var rest []string
	for _, l := range t.Labels {
		if l != label {
			rest = append(rest, l)
		}
	}
	t.Labels = rest
}

func (t *thread) event(id int64, kind, label string) {
	t.log = append(t.log, forge.IssueEvent{ID: id, Kind: kind, Label: label, Actor: ada, At: start.Add(time.Duration(id) * time.Second)})
}

func (t *thread) say(id int64, body string) {
	at := start.Add(time.Duration(id) * time.Second)
	t.comments = append(t.comments, forge.Comment{ID: id, Author: ada, Body: body, Created: at, Updated: at})
}

func (w *world) about(r forge.Repo) (unlock func(), err error) {
	w.mu.Lock()
	return w.mu.Unlock, w.fail[r]
}

func (w *world) IssuesByLabel(_ context.Context, r forge.Repo, label string) (out []forge.Issue, err error) {
	unlock, err := w.about(r)
	defer unlock()
	w.lists++
	for _, t := range w.issues {
		for _, l := range t.Labels {
			if t.Ref.Repo == r && t.Open && !t.Pull && !t.gone && strings.EqualFold(l, label) {
				out = append(out, t.Issue)
			}
		}
	}
	return out, err
}

func (w *world) RecentEvents(_ context.Context, r forge.Repo) (out forge.Recent[forge.RepoEvent], err error) {
	unlock, err := w.about(r)
	defer unlock()
	w.feeds++
	for _, t := range w.issues {
		for _, e := range t.log {
			if t.Ref.Repo == r && !w.blind {
				out.Items = append(out.Items, forge.RepoEvent{IssueEvent: e, Number: t.Ref.Number})
			}
		}
	}
	slices.SortFunc(out.Items, func(a, b forge.RepoEvent) int { return cmp.Compare(b.ID, a.ID) })
	out.Items, out.More = cut(out.Items, w.page)
	return out, err
}

func cut[T any](items []T, page int) ([]T, bool) {
	if page == 0 {
		page = 100
	}
	return items[:min(len(items), page)], len(items) > page
}

func (w *world) RecentComments(_ context.Context, r forge.Repo) (out forge.Recent[forge.RepoComment], err error) {
	unlock, err := w.about(r)
	defer unlock()
	w.feeds++
	for _, t := range w.issues {
		for _, c := range t.comments {
			if t.Ref.Repo == r && !w.blind {
				out.Items = append(out.Items, forge.RepoComment{Comment: c, Number: t.Ref.Number})
			}
		}
	}
	slices.SortFunc(out.Items, func(a, b forge.RepoComment) int { return b.Updated.Compare(a.Updated) })
	out.Items, out.More = cut(out.Items, w.page)
	return out, err
}

func (w *world) Issue(_ context.Context, ref forge.Ref) (forge.Issue, error) {
	unlock, err := w.about(ref.Repo)
	defer unlock()
	if err != nil {
		return forge.Issue{}, err
	}
	t, ok := w.issues[ref]
	if !ok || t.gone {
		return forge.Issue{}, &forge.Error{Kind: forge.KindNotFound, Op: "reading"}
	}
	return t.Issue, nil
}

func (w *world) Events(_ context.Context, ref forge.Ref) ([]forge.IssueEvent, error) {
	unlock, err := w.about(ref.Repo)
	defer unlock()
	w.reads++
	return append([]forge.IssueEvent(nil), w.issues[ref].log...), err
}

func (w *world) Comments(_ context.Context, ref forge.Ref) ([]forge.Comment, error) {
	unlock, err := w.about(ref.Repo)
	defer unlock()
	return append([]forge.Comment(nil), w.issues[ref].comments...), err
}

func (w *world) Repository(_ context.Context, r forge.Repo) (forge.Repository, error) {
	unlock, err := w.about(r)
	defer unlock()
	return forge.Repository{Repo: r}, err
}

type rig struct {
	*world
	t        *testing.T
	store    *memory.Store
	clock    *clock.Fake
	log      bytes.Buffer
	interest []forge.Ref
	repos    []forge.Repo
	poller   *intake.Poller
}

func newRig(t *testing.T, change ...func(*intake.PollerOptions)) *rig {
	t.Helper()
	r := &rig{world: newWorld(), t: t, store: memory.New(memory.Options{}), clock: clock.NewFake(start), repos: []forge.Repo{widgets}}
	o := intake.PollerOptions{
		Source: r.world, Inbox: r.store, Labels: []string{"pipeline:triage", "pipeline:plan", "pipeline:stop"},
		Interest: func(context.Context) ([]forge.Ref, error) { return r.interest, nil },
		Repos:    func(context.Context) ([]forge.Repo, error) { return r.repos, nil },
		Interval: time.Minute, Clock: r.clock, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	r.poller = intake.NewPoller(o)
	return r
}

// round polls once and returns the keys that are new in the inbox.
func (r *rig) round() []string {
	r.t.Helper()
	before := len(rows(r.t, r.store))
	if err := r.poller.Round(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	keys := []string{}
	for _, row := range rows(r.t, r.store)[before:] {
		keys = append(keys, row.Key)
	}
	return keys
}

func (r *rig) want(what string, got []string, want ...string) {
	r.t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestFirstSightTellsOnlyWhatTheLabelsMeanNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.issue(seven, "bug", "Pipeline:Triage")
	i.label(200, "unlabeled", "Pipeline:Triage")
	i.label(201, "labeled", "Pipeline:Triage")
	i.event(202, "closed", "")
	i.event(203, "reopened", "")
	i.say(300, "/pipeline approve")
	r.want("first", r.round(), "label-event/201")
	want := forge.Event{
		Kind: forge.Labeled, Issue: seven, Actor: ada, Label: "Pipeline:Triage", LogID: 201,
		At: start.Add(201 * time.Second), Source: "poll",
	}
	if diff := gocmp.Diff(want, decoded(t, rows(t, r.store)[0])); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	r.want("second", r.round())
}

func TestEverythingNewIsToldOnceInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.interest = []forge.Ref{seven}
	i := r.issue(seven, "pipeline:triage")
	r.round()
	i.label(210, "labeled", "pipeline:stop")
	i.say(211, "why?")
	i.label(212, "unlabeled", "pipeline:stop")
	i.event(213, "renamed", "")
	i.event(214, "locked", "")
	i.event(215, "subscribed", "")
	i.event(216, "closed", "")
	i.Open = false
	r.want("news", r.round(), "label-event/210", "comment/211", "label-event/212", "issue-event/213", "issue-event/214", "issue-event/216")
	// An entry that shows up late, with an older id, is still told.
	i.event(209, "reopened", "")
	r.want("late", r.round(), "issue-event/209")
	i.comments[0].Body, i.comments[0].Updated = "changed", start.Add(time.Hour)
	r.want("comment edited", r.round(), "comment/211@2026-11-30T13:00:00Z")
	i.Body, i.Updated = "new text", start.Add(2*time.Hour)
	r.want("issue edited", r.round(), "issue-edit/1007@2026-11-30T14:00:00Z")
	r.want("nothing", r.round())
	edit := decoded(t, rows(t, r.store)[8])
	if edit.Kind != forge.CommentEdited || edit.Actor != (forge.Actor{}) || edit.Comment.Body != "changed" {
		t.Errorf("the edit is %+v: nobody knows who made it", edit)
	}
}

func TestWhatHappenedWhileDownIsFoundAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.issue(seven, "pipeline:triage")
	r.round()
	i.say(220, "an answer")
	i.label(221, "unlabeled", "pipeline:triage")
	i.label(222, "labeled", "pipeline:plan")
	again := newRig(t)
	again.world, again.store = r.world, r.store
	again.poller = intake.NewPoller(intake.PollerOptions{
		Source: r.world, Inbox: r.store, Labels: []string{"pipeline:plan"}, Clock: r.clock,
		Interest: func(context.Context) ([]forge.Ref, error) { return nil, nil },
		Repos:    func(context.Context) ([]forge.Repo, error) { return r.repos, nil },
	})
	again.want("after the restart", again.round(), "comment/220", "label-event/221", "label-event/222")
}

func TestAnUnchangedIssueIsNotReadUntilTheFullRound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.issue(seven, "pipeline:triage")
	r.round()
	// Taken off and put on again between two rounds, the time not moved, and
	// the feed silent about it.
	r.blind = true
	i.label(230, "unlabeled", "pipeline:triage")
	i.label(231, "labeled", "pipeline:triage")
	reads := r.reads
	var got []string
	for range 20 {
		got = append(got, r.round()...)
	}
	r.want("found", got, "label-event/230", "label-event/231")
	if r.reads != reads+1 {
		t.Errorf("the log was read %d times, want once", r.reads-reads)
	}
}

func TestALogThatLagsIsReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.issue(seven)
	i.Labels = []string{"pipeline:triage"}
	r.want("lagging", r.round())
	i.event(240, "labeled", "pipeline:triage")
	r.want("caught up", r.round(), "label-event/240")
}

func TestAVanishedIssueOfInterestIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.interest = []forge.Ref{seven, seven}
	i := r.issue(seven, "pipeline:triage")
	r.round()
	i.gone = true
	r.want("gone", r.round(), "gone/acme/widgets#7@2026-11-30T12")
	r.want("once", r.round())
}

func TestAMergedPullRequestOfInterestIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.interest = []forge.Ref{seven}
	i := r.issue(seven)
	i.Pull = true
	r.round()
	i.event(250, "merged", "")
	i.event(251, "closed", "")
	i.Open = false
	r.want("merged", r.round(), "issue-event/251")
	if ev := decoded(t, rows(t, r.store)[0]); ev.Kind != forge.PullClosed || !ev.Merged || ev.Issue != seven {
		t.Errorf("got %+v", ev)
	}
}

func TestTheSpellingOfANameDoesNotDoubleAnIssue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.issue(seven, "pipeline:triage")
	r.interest = []forge.Ref{{Repo: forge.Repo{Owner: "ACME", Name: "Widgets"}, Number: 7}, seven}
	r.want("once", r.round(), "label-event/100")
	if ev := decoded(t, rows(t, r.store)[0]); ev.Issue != seven {
		t.Errorf("told of %s, want the forge's own spelling", ev.Issue)
	}
}

func TestLostAccessIsNotAVanishedIssue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := forge.Ref{Repo: forge.Repo{Owner: "acme", Name: "secret"}, Number: 1}
	r.interest = []forge.Ref{other}
	r.fail[other.Repo] = &forge.Error{Kind: forge.KindNotFound, Op: "reading"}
	r.issue(seven, "pipeline:triage")
	r.want("others go on", r.round(), "label-event/100")
	r.round()
	if n := strings.Count(r.log.String(), "polling failed"); n != 1 {
		t.Errorf("reported %d times, want once:\n%s", n, &r.log)
	}
}

func TestARateLimitPausesOneRepositoryAndIsReportedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy := forge.Repo{Owner: "acme", Name: "busy"}
	r.repos = []forge.Repo{busy, widgets}
	r.fail[busy] = &forge.Error{Kind: forge.KindRateLimited, RetryAfter: 10 * time.Minute, Op: "listing"}
	r.round()
	feeds := r.feeds
	r.clock.Advance(9 * time.Minute)
	r.issue(seven, "pipeline:triage")
	r.want("the other goes on", r.round(), "label-event/100")
	if r.feeds != feeds+2 {
		t.Errorf("%d feeds were read, want 2: the limited repository must be left alone", r.feeds-feeds)
	}
	r.fail = map[forge.Repo]error{}
	r.issue(forge.Ref{Repo: busy, Number: 1}).label(500, "labeled", "pipeline:plan")
	r.clock.Advance(time.Minute)
	r.want("after the wait", r.round(), "label-event/500")
	if n := strings.Count(r.log.String(), "waits for the rate limit"); n != 1 {
		t.Errorf("reported %d times, want once:\n%s", n, &r.log)
	}
}

// moody is an inbox that fails when told.
type moody struct {
	*memory.Store
	receive, cursor error
}

func (m *moody) Receive(ctx context.Context, e checkpoints.InboxEvent) (bool, error) {
	if m.receive != nil {
		return false, m.receive
	}
	return m.Store.Receive(ctx, e)
}

func (m *moody) SetCursor(ctx context.Context, name, value string) error {
	if m.cursor != nil {
		return m.cursor
	}
	return m.Store.SetCursor(ctx, name, value)
}

func TestTheCursorMovesOnlyAfterTheRow(t *testing.T) {
	t.Parallel()
	inbox := &moody{}
	r := newRig(t, func(o *intake.PollerOptions) { o.Inbox = inbox })
	inbox.Store = r.store
	r.issue(seven, "pipeline:triage")
	full := errors.New("disk full")
	inbox.receive = full
	if err := r.poller.Round(t.Context()); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	inbox.receive, inbox.cursor = nil, full
	if err := r.poller.Round(t.Context()); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	inbox.cursor = nil
	r.want("the row was stored before the cursor failed", r.round())
	if n := len(rows(t, r.store)); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestWebhookAndPollOfOneCommentAreOneRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := r.issue(seven, "pipeline:triage")
	r.interest = []forge.Ref{seven}
	r.round()
	handler(r.store).ServeHTTP(httptest.NewRecorder(), delivery("issue_comment", "guid-9", commented))
	i.say(991, "/pipeline approve")
	r.want("known already", r.round())
	if n := len(rows(t, r.store)); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestRunPollsAtOnceThenEveryInterval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rounds := make(chan struct{}, 8)
	r.poller.Repos = func(context.Context) ([]forge.Repo, error) { rounds <- struct{}{}; return nil, nil }
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- r.poller.Run(ctx) }()
	for range 3 {
		<-rounds
		for r.clock.Waiting() == 0 {
			// The poller is about to sleep.
			select {
			case err := <-done:
				t.Fatal(err)
			default:
			}
		}
		r.clock.Advance(time.Minute)
	}
	why := errors.New("shutting down")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// counted is a source that notes when it is read, by repository.
type counted struct {
	intake.Source
	mu sync.Mutex
	at map[string][]time.Time
}

func (c *counted) note(r forge.Repo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[r.Owner] = append(c.at[r.Owner], time.Now())
}

func (c *counted) RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error) {
	c.note(r)
	return c.Source.RecentEvents(ctx, r)
}

func (c *counted) RecentComments(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoComment], error) {
	c.note(r)
	return c.Source.RecentComments(ctx, r)
}

func (c *counted) IssuesByLabel(ctx context.Context, r forge.Repo, l string) ([]forge.Issue, error) {
	c.note(r)
	return c.Source.IssuesByLabel(ctx, r, l)
}

// One round of many repositories is as many reads as the pace allows, not a
// burst of all, and each rate limit has a pace of its own.
func TestReadsKeepTheirPaceWithinARound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var source *counted
		r := newRig(t, func(o *intake.PollerOptions) {
			source = &counted{Source: o.Source, at: map[string][]time.Time{}}
			o.Source, o.Clock, o.RequestsPerMinute = source, clock.Real{}, 20
			o.Pool = func(r forge.Repo) string { return r.Owner }
		})
		r.repos = nil
		for i := range 30 {
			r.repos = append(r.repos, forge.Repo{Owner: []string{"acme", "umbrella"}[i%2], Name: fmt.Sprintf("r%d", i)})
		}
		r.round()
		for owner, at := range source.at {
			if len(at) != 15*(2+3) {
				t.Errorf("%s: %d reads", owner, len(at))
			}
			for i := range at {
				if j := i + 20; j < len(at) && at[j].Sub(at[i]) < time.Minute {
					t.Fatalf("%s: more than 20 reads within %s", owner, at[j].Sub(at[i]))
				}
			}
		}
	})
}

// A repository that hangs keeps nobody waiting, not even for the next round.
func TestASlowRepositoryDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := forge.Repo{Owner: "acme", Name: "hangs"}
		source := &hanging{world: newWorld(), hangs: hangs}
		store := memory.New(memory.Options{})
		p := intake.NewPoller(intake.PollerOptions{
			Source: source, Inbox: store, Labels: []string{"pipeline:triage"}, Interval: 30 * time.Second,
			Interest: func(context.Context) ([]forge.Ref, error) { return nil, nil },
			Repos:    func(context.Context) ([]forge.Repo, error) { return []forge.Repo{hangs, widgets}, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		<-time.After(100 * time.Second)
		source.mu.Lock()
		source.issue(seven, "pipeline:triage")
		source.mu.Unlock()
		<-time.After(31 * time.Second) // one interval
		if n := len(rows(t, store)); n != 1 {
			t.Errorf("%d rows, want the label of the repository that works", n)
		}
		cancel()
		<-done
	})
}

// hanging never answers about one repository.
type hanging struct {
	*world
	hangs forge.Repo
}

func (h *hanging) RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error) {
	if r == h.hangs {
		<-ctx.Done()
		return forge.Recent[forge.RepoEvent]{}, ctx.Err()
	}
	return h.world.RecentEvents(ctx, r)
}

// With webhooks an idle repository is read less and less often, down to an
// eighth; what a webhook tells, open work and a webhook that failed to tell
// bring the interval back. Without webhooks it is always the interval.
func TestTheIntervalAdapts(t *testing.T) {
	t.Parallel()
	reads := func(t *testing.T, webhooks bool, interest []forge.Ref, during func(s *slowed, p *intake.Poller)) (at []time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := &slowed{world: newWorld()}
			s.issue(seven)
			p := intake.NewPoller(intake.PollerOptions{
				Source: s, Inbox: memory.New(memory.Options{}), Labels: []string{"pipeline:triage"}, Interval: time.Minute, Webhooks: webhooks,
				Interest: func(context.Context) ([]forge.Ref, error) { return interest, nil },
				Repos:    func(context.Context) ([]forge.Repo, error) { return []forge.Repo{widgets}, nil },
			})
			ctx, cancel := context.WithTimeout(t.Context(), 31*time.Minute)
			defer cancel()
			done := make(chan error)
			go func() { done <- p.Run(ctx) }()
			if during != nil {
				during(s, p)
			}
			<-done
			for _, t := range s.at {
				at = append(at, t.Sub(began).Round(time.Minute)/time.Minute)
			}
		})
		return at
	}
	every := make([]time.Duration, 31)
	for i := range every {
		every[i] = time.Duration(i)
	}
	for _, c := range []struct {
		name     string
		webhooks bool
		interest []forge.Ref
		during   func(*slowed, *intake.Poller)
		want     []time.Duration
	}{
		{"polling alone", false, nil, nil, every},
		{"idle", true, nil, nil, []time.Duration{0, 2, 6, 14, 22, 30}},
		{"open work", true, []forge.Ref{seven}, nil, every},
		{"a webhook", true, nil, func(_ *slowed, p *intake.Poller) {
			<-time.After(15*time.Minute + time.Second)
			p.Told(widgets)
		}, []time.Duration{0, 2, 6, 14, 16, 17, 19, 23, 31}},
		{"a webhook that did not come", true, nil, func(s *slowed, _ *intake.Poller) {
			<-time.After(15 * time.Minute)
			s.mu.Lock()
			defer s.mu.Unlock()
			i := s.issues[seven]
			i.Labels = []string{"pipeline:triage"}
			i.log = append(i.log, forge.IssueEvent{ID: 900, Kind: "labeled", Label: "pipeline:triage", Actor: ada, At: time.Now()})
		}, []time.Duration{0, 2, 6, 14, 22, 23, 24, 25, 26, 27, 28, 29, 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reads(t, c.webhooks, c.interest, c.during)
			if n := len(got); n > 0 && got[n-1] == 31 {
				got = got[:n-1]
			}
			want := slices.DeleteFunc(slices.Clone(c.want), func(d time.Duration) bool { return d == 31 })
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("read in the minutes (-want +got):\n%s", diff)
			}
		})
	}
}

// slowed notes when the feed is read.
type slowed struct {
	*world
	at []time.Time
}

func (s *slowed) RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error) {
	out, err := s.world.RecentEvents(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	return out, err
}

// More news than a page of the feed holds is a gap, which a sweep closes.
func TestAGapInAFeedIsSwept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.page = 3
	i := r.issue(seven, "pipeline:triage")
	r.round()
	i.label(210, "labeled", "pipeline:plan")
	noise := r.issue(forge.Ref{Repo: widgets, Number: 8})
	for n := range 5 {
		noise.event(int64(211+n), "subscribed", "")
	}
	r.want("found", r.round(), "label-event/210")
	lists := r.lists
	r.round()
	if r.lists > lists {
		t.Error("swept again without a gap")
	}
}

// A bad token fails everywhere by one cause, which is said once.
func TestOneCauseIsReportedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.repos = nil
	for i := range 20 {
		repo := forge.Repo{Owner: "acme", Name: fmt.Sprintf("r%d", i)}
		r.repos = append(r.repos, repo)
		r.fail[repo] = &forge.Error{Kind: forge.KindDenied, Status: 401, Op: "reading " + repo.String(), Err: errors.New("Bad credentials")}
	}
	r.round()
	r.round()
	if n := strings.Count(r.log.String(), "Bad credentials"); n != 1 {
		t.Errorf("reported %d times, want once:\n%s", n, &r.log)
	}
	clear(r.fail)
	r.round()
	if n := strings.Count(r.log.String(), "polling works again"); n != 1 {
		t.Errorf("its end was reported %d times, want once:\n%s", n, &r.log)
	}
}

// A store that fails for long does not end the daemon: rounds come further
// apart, the log says so, and all is well once the store is.
func TestRunStaysWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	var log strings.Builder
	r := newRig(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	rounds := 0
	r.poller.Interest = func(context.Context) ([]forge.Ref, error) {
		rounds++
		if rounds <= 15 {
			return nil, broken
		}
		if rounds == 17 {
			stop()
		}
		return nil, nil
	}
	pauses := &pauses{Fake: r.clock}
	r.poller.Clock = pauses
	r.poller.Log = slog.New(slog.NewTextHandler(&log, nil))
	if err := r.poller.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if first, last := pauses.all[0], pauses.all[14]; first != r.poller.Interval || last != 5*time.Minute {
		t.Errorf("the pauses while failing go from %s to %s", first, last)
	}
	if got := pauses.all[15]; got != r.poller.Interval {
		t.Errorf("the pause after the recovery is %s", got)
	}
	for _, want := range []string{"not ready", "disk full", "failures=15", "ready again"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
}

// pauses is a clock whose timers fire at once and are remembered.
type pauses struct {
	*clock.Fake
	all []time.Duration
}

func (p *pauses) NewTimer(d time.Duration) clock.Timer {
	p.all = append(p.all, d)
	return p.Fake.NewTimer(0)
}
