package intake_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/intake"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// served is a MockWorld with acme/widgets, a client of it, and an inbox.
type served struct {
	*mockworld.World
	t      *testing.T
	clock  *clock.Fake
	client *gh.Client
	store  *memory.Store
}

func serve(t *testing.T, labelBumps bool) *served {
	t.Helper()
	s := &served{t: t, clock: clock.NewFake(start), store: memory.New(memory.Options{})}
	var err error
	s.World, err = mockworld.New(mockworld.Options{Clock: s.clock, Dir: t.TempDir(), LabelBumpsUpdated: labelBumps})
	s.must(err)
	base, _, err := s.Serve(t.Context(), "127.0.0.1:0")
	s.must(err)
	s.must(s.AddUser("acme", mockworld.Organization))
	s.must(s.AddRepo(mockworld.RepoSpec{
		Owner: "acme", Name: "widgets", Files: map[string]string{"README.md": "# Widgets\n"},
		Roles: map[string]mockworld.Role{"ann": mockworld.RoleAdmin, "bot": mockworld.RoleWrite},
	}))
	s.must(s.AddToken(mockworld.TokenSpec{Token: "tok-bot", Login: "bot"}))
	s.client, err = gh.New(gh.Options{BaseURL: base + "/api/v3/", Token: secret.New("tok-bot"), Clock: s.clock})
	s.must(err)
	t.Cleanup(func() {
		s.client.Close()
		if v := s.Violations(); len(v) != 0 {
			t.Errorf("MockWorld knows no such request: %v", v)
		}
		s.must(s.Close())
	})
	return s
}

func (s *served) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// story is what people do to an issue; between is called after each step.
func (s *served) story(between func()) {
	s.t.Helper()
	const repo = "acme/widgets"
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: repo, Author: "ann", Title: "It breaks", Body: "text"})
	s.must(err)
	text := "more text"
	var said int64
	for _, step := range []func() error{
		func() error { return s.Label(repo, n, "ann", "pipeline:triage") },
		func() (err error) { said, err = s.Comment(repo, n, "ann", "hello"); return err },
		func() error { return s.EditComment(repo, said, "ann", "hello again") },
		func() error { return s.Unlabel(repo, n, "ann", "pipeline:triage") },
		func() error { return s.Label(repo, n, "ann", "pipeline:plan") },
		func() error { return s.EditIssue(repo, n, "ann", mockworld.IssueEdit{Body: &text}) },
		func() error { return s.LockIssue(repo, n, "ann", "") },
		func() error { return s.CloseIssue(repo, n, "ann", "completed") },
		func() error { return s.ReopenIssue(repo, n, "ann") },
	} {
		s.clock.Advance(time.Minute)
		s.must(step())
		between()
	}
}

// settle waits until every webhook was tried.
func (s *served) settle() {
	s.t.Helper()
	s.must(s.Wait(s.t.Context(), func(w mockworld.Snapshot) bool { return w.PendingDeliveries == 0 }))
}

// told is the kinds and labels of what is in the inbox, in order.
func (s *served) told() []string {
	var out []string
	for _, row := range rows(s.t, s.store) {
		ev := decoded(s.t, row)
		out = append(out, strings.TrimSpace(string(ev.Kind)+" "+ev.Label))
	}
	return out
}

func wanted() []string {
	return []string{
		"labeled pipeline:triage", "commented", "comment_edited", "unlabeled pipeline:triage",
		"labeled pipeline:plan", "edited", "locked", "closed", "reopened",
	}
}

func (s *served) poller(interest ...forge.Ref) *intake.Poller {
	return intake.NewPoller(intake.PollerOptions{
		Source: s.client, Inbox: s.store, Labels: []string{"pipeline:triage", "pipeline:plan"}, Clock: s.clock,
		Interest: func(context.Context) ([]forge.Ref, error) { return interest, nil },
		Repos:    func(context.Context) ([]forge.Repo, error) { return []forge.Repo{widgets}, nil },
	})
}

func TestPollingSeesTheSameStoryAsWebhooks(t *testing.T) {
	t.Parallel()
	t.Run("polls", func(t *testing.T) {
		t.Parallel()
		for _, bumps := range []bool{true, false} {
			s := serve(t, bumps)
			p := s.poller(forge.Ref{Repo: widgets, Number: 1})
			s.story(func() { s.must(p.Round(t.Context())) })
			if diff := cmp.Diff(wanted(), s.told()); diff != "" {
				t.Errorf("labelling moves the time: %t (-want +got):\n%s", bumps, diff)
			}
		}
	})
	t.Run("webhooks", func(t *testing.T) {
		t.Parallel()
		s := serve(t, true)
		hook := httptest.NewServer(handler(s.store))
		defer hook.Close()
		_, err := s.AddHook(mockworld.HookSpec{Repo: "acme/widgets", URL: hook.URL, Secret: newSecret})
		s.must(err)
		s.story(func() { s.settle() })
		if diff := cmp.Diff(append([]string{"opened"}, wanted()...), s.told()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestAQuietRoundCostsNoQuota(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	p := s.poller(forge.Ref{Repo: widgets, Number: 1})
	s.story(func() {})
	s.must(p.Round(t.Context()))
	before := len(s.Requests())
	s.must(p.Round(t.Context()))
	quiet := s.Requests()[before:]
	for _, r := range quiet {
		if r.Status != http.StatusNotModified {
			t.Errorf("%s %s was answered %d", r.Method, r.Path, r.Status)
		}
	}
	if len(quiet) == 0 {
		t.Error("the round asked nothing")
	}
}

func TestWebhookAndPollTogetherStartOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	hook := httptest.NewServer(handler(s.store))
	defer hook.Close()
	_, err := s.AddHook(mockworld.HookSpec{Repo: "acme/widgets", URL: hook.URL, Secret: newSecret})
	s.must(err)
	p := s.poller(forge.Ref{Repo: widgets, Number: 1})
	s.story(func() {
		s.settle()
		s.must(p.Round(t.Context()))
	})
	got := s.told()
	slices.Sort(got)
	for _, kind := range []string{"commented", "comment_edited"} {
		if n := strings.Count(strings.Join(got, "\n")+"\n", kind+"\n"); n != 1 {
			t.Errorf("%s was told %d times, want once: both sources give it one key", kind, n)
		}
	}
}
