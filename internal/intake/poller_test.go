package intake_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if diff := cmp.Diff(want, got); diff != "" {
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
	if diff := cmp.Diff(want, decoded(t, rows(t, r.store)[0])); diff != "" {
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
	// Taken off and put on again between two rounds, and the time not moved.
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
	lists := r.lists
	r.clock.Advance(9 * time.Minute)
	r.issue(seven, "pipeline:triage")
	r.want("the other goes on", r.round(), "label-event/100")
	if r.lists != lists+3 {
		t.Errorf("%d listings, want 3: the limited repository must be left alone", r.lists-lists)
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

func TestAShortIntervalSlowsDownBeforeTheLimit(t *testing.T) {
	t.Parallel()
	began := make(chan time.Time, 16)
	var clk *clock.Fake
	r := newRig(t, func(o *intake.PollerOptions) {
		o.Interval, o.RequestsPerMinute = time.Second, 9
		clk = o.Clock.(*clock.Fake)
		o.Repos = func(context.Context) ([]forge.Repo, error) { began <- clk.Now(); return []forge.Repo{widgets}, nil }
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.poller.Run(ctx) }()
	var at []time.Duration
	for range 5 {
		// Second by second, until the round has begun.
		for waiting := true; waiting; {
			select {
			case now := <-began:
				at = append(at, now.Sub(start))
				waiting = false
			default:
				if clk.Waiting() > 0 {
					clk.Advance(time.Second)
				}
			}
		}
	}
	cancel()
	<-done
	// Three listings a round, so three rounds a minute.
	want := []time.Duration{0, time.Second, 2 * time.Second, time.Minute, 61 * time.Second}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("rounds began at (-want +got):\n%s", diff)
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
