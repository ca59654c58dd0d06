package gh_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { http.DefaultTransport.(*http.Transport).CloseIdleConnections() }))
}

// site is a MockWorld with acme/shop, where the bot is a token's account
// ("dev-bot") and an App ("pipelinebot[bot]").
type site struct {
	*mockworld.World
	t     *testing.T
	base  string
	clock *clock.Fake
}

var shop = forge.Repo{Owner: "acme", Name: "shop"}

func newSite(t *testing.T) *site {
	t.Helper()
	fake := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w, err := mockworld.New(mockworld.Options{Clock: fake, JWTClock: clock.Real{}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{World: w, t: t, clock: fake}
	base, _, err := w.Serve(t.Context(), "127.0.0.1:0")
	s.must(err)
	t.Cleanup(func() {
		if v := w.Violations(); len(v) != 0 {
			t.Errorf("MockWorld knows no such request: %v", v)
		}
		s.must(w.Close())
	})
	s.base = base + "/api/v3/"
	s.must(w.AddUser("acme", mockworld.Organization))
	s.must(w.AddRepo(mockworld.RepoSpec{
		Owner: "acme", Name: "shop", Files: map[string]string{"shop.go": "package shop\n\nfunc Add(a, b int) int { return a - b }\n"},
		Roles: map[string]mockworld.Role{"ann": mockworld.RoleMaintain, "bob": mockworld.RoleTriage, "dev-bot": mockworld.RoleWrite},
	}))
	grants := map[string]string{"issues": "write", "pull_requests": "write", "contents": "write", "checks": "write", "statuses": "read", "metadata": "read"}
	s.must(w.AddToken(mockworld.TokenSpec{Token: token, Login: "dev-bot", Permissions: grants}))
	s.must(w.AddToken(mockworld.TokenSpec{Token: "tok-weak", Login: "dev-bot", Permissions: map[string]string{"metadata": "read", "issues": "read"}}))
	s.must(w.AddApp(mockworld.AppSpec{ID: 31, Slug: "pipelinebot", PublicKeyPEM: publicPEM(), Permissions: grants, InstallationID: 77, Repos: []string{"acme/shop"}}))
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) connect(o gh.Options) *gh.Client {
	s.t.Helper()
	tr := &http.Transport{}
	s.t.Cleanup(tr.CloseIdleConnections)
	o.BaseURL, o.Clock, o.Transport = s.base, s.clock, tr
	c, err := gh.New(o)
	s.must(err)
	return c
}

// eachBot runs a test as the token and as the App.
func eachBot(t *testing.T, test func(t *testing.T, s *site, c *gh.Client)) {
	t.Helper()
	t.Parallel()
	for name, o := range map[string]gh.Options{
		"token": {Token: secret.New(token)},
		"app":   {App: &gh.App{ID: 31, Key: secret.New(privatePEM())}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			test(t, s, s.connect(o))
		})
	}
}

func TestAnIssueFromLabelToReviewedPullRequest(t *testing.T) {
	eachBot(t, func(t *testing.T, s *site, c *gh.Client) {
		ctx := t.Context()
		n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "ann", Title: "Add subtracts", NoBody: true})
		s.must(err)
		s.must(s.Label("acme/shop", n, "ann", "pipeline:triage"))
		ref := forge.Ref{Repo: shop, Number: n}

		self, err := c.Self(ctx)
		s.must(err)
		r, err := c.Repository(ctx, shop)
		s.must(err)
		if r.DefaultBranch != "main" || r.CloneURL == "" || r.Repo != shop {
			t.Errorf("repository %+v", r)
		}
		found, err := c.IssuesByLabel(ctx, shop, "pipeline:triage")
		s.must(err)
		if len(found) != 1 || found[0].Ref != ref || found[0].Author.Login != "ann" || found[0].Body != "" {
			t.Fatalf("found %+v", found)
		}
		log, err := c.Events(ctx, ref)
		s.must(err)
		if len(log) == 0 || log[len(log)-1].Kind != "labeled" || log[len(log)-1].Label != "pipeline:triage" || log[len(log)-1].Actor.Login != "ann" {
			t.Errorf("log %+v", log)
		}
		for login, want := range map[string]forge.Permission{"ann": forge.Maintain, "bob": forge.Triage, "stranger": forge.None} {
			if got, err := c.Permission(ctx, shop, login); got != want || err != nil {
				t.Errorf("%s may %s, %v; want %s", login, got, err, want)
			}
		}

		s.must(c.PutLabel(ctx, shop, forge.Label{Name: "pipeline:plan", Color: "0e8a16", Description: "d"}))
		s.must(c.PutLabel(ctx, shop, forge.Label{Name: "pipeline:plan", Color: "0e8a16", Description: "other"}))
		s.must(c.AddLabel(ctx, ref, "pipeline:plan"))
		s.must(c.AddLabel(ctx, ref, "pipeline:plan"))
		s.must(c.RemoveLabel(ctx, ref, "pipeline:triage"))
		s.must(c.RemoveLabel(ctx, ref, "pipeline:triage"))
		i, err := c.Issue(ctx, ref)
		s.must(err)
		if !slices.Equal(i.Labels, []string{"pipeline:plan"}) {
			t.Errorf("labels %v", i.Labels)
		}

		said, err := c.AddComment(ctx, ref, "working")
		s.must(err)
		_, err = c.EditComment(ctx, shop, said.ID, "done")
		s.must(err)
		all, err := c.Comments(ctx, ref)
		s.must(err)
		if len(all) != 1 || all[0].Body != "done" || all[0].Author.ID != self.ID {
			t.Errorf("comments %+v of %+v", all, self)
		}
		if _, err := c.AddComment(ctx, ref, strings.Repeat("x", 65_537)); !forge.IsKind(err, forge.KindInvalid) {
			t.Errorf("a body over the limit: %v", err)
		}

		sha, err := s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "dev-bot", Branch: "bot/fix", Files: map[string]string{"shop.go": "package shop\n\nfunc Add(a, b int) int { return a + b }\n"}})
		s.must(err)
		opened, err := c.OpenPull(ctx, shop, forge.NewPull{Title: "Fix Add", Body: fmt.Sprintf("Fixes #%d", n), Head: "bot/fix", Base: "main"})
		s.must(err)
		if opened.HeadSHA != sha || !opened.Open || opened.Author.ID != self.ID {
			t.Errorf("opened %+v", opened)
		}
		if _, err := c.OpenPull(ctx, shop, forge.NewPull{Title: "Fix Add", Head: "bot/fix", Base: "main"}); !forge.IsKind(err, forge.KindConflict) {
			t.Errorf("a second one: %v", err)
		}
		byHead, err := c.PullsByHead(ctx, shop, "bot/fix")
		s.must(err)
		linked, err := c.LinkedPulls(ctx, ref)
		s.must(err)
		if len(byHead) != 1 || len(linked) != 1 || byHead[0].Ref != opened.Ref || linked[0].Ref != opened.Ref {
			t.Errorf("by head %+v, linked %+v", byHead, linked)
		}
		files, err := c.PullFiles(ctx, opened.Ref)
		s.must(err)
		if len(files) != 1 || files[0].Path != "shop.go" || files[0].Patch == "" {
			t.Errorf("files %+v", files)
		}

		if _, err := c.AddReview(ctx, opened.Ref, forge.NewReview{SHA: sha, Event: "APPROVE", Body: "fine"}); !forge.IsKind(err, forge.KindInvalid) {
			t.Errorf("approving its own: %v", err)
		}
		if _, err := c.AddReview(ctx, opened.Ref, forge.NewReview{SHA: sha, Event: "COMMENT", Body: "b", Comments: []forge.LineComment{{Path: "shop.go", Line: 99, Body: "x"}}}); !forge.IsKind(err, forge.KindInvalid) {
			t.Errorf("a comment outside the diff: %v", err)
		}
		_, err = c.AddReview(ctx, opened.Ref, forge.NewReview{SHA: sha, Event: "COMMENT", Body: "fine", Comments: []forge.LineComment{{Path: "shop.go", Line: 3, Body: "good"}}})
		s.must(err)
		reviews, err := c.Reviews(ctx, opened.Ref)
		s.must(err)
		if len(reviews) != 1 || reviews[0].State != "COMMENTED" || reviews[0].SHA != sha {
			t.Errorf("reviews %+v", reviews)
		}

		_, err = s.SetCheckRun("acme/shop", mockworld.CheckSpec{SHA: sha, Name: "build", Conclusion: "success"})
		s.must(err)
		s.must(s.SetStatus("acme/shop", mockworld.StatusSpec{SHA: sha, Actor: "ann", Context: "ci", State: "pending"}))
		want := 2
		for _, conclusion := range []string{"", "success"} {
			switch err := c.PutCheck(ctx, shop, gh.CheckRun{Name: "pipelinebot/review", SHA: sha, Conclusion: conclusion, Title: "T", Summary: "S"}); {
			case err == nil:
				want = 3
			case !forge.IsKind(err, forge.KindDenied):
				t.Errorf("check run: %v", err)
			}
		}
		checks, err := c.Checks(ctx, shop, sha)
		s.must(err)
		if len(checks) != want {
			t.Errorf("checks %+v, want %d", checks, want)
		}
		for _, check := range checks {
			if check.Own != (check.Name == "pipelinebot/review") || check.Done != (check.Name != "ci") {
				t.Errorf("check %+v", check)
			}
		}
		p, err := c.Pull(ctx, opened.Ref)
		s.must(err)
		_, err = s.MergePull("acme/shop", opened.Ref.Number, "ann", "merge")
		s.must(err)
		if p, err = c.Pull(ctx, p.Ref); err != nil || !p.Merged || p.Open {
			t.Errorf("merged %+v, %v", p, err)
		}
	})
}

func TestManyPagesOfARealListing(t *testing.T) {
	eachBot(t, func(t *testing.T, s *site, c *gh.Client) {
		for k := range 230 {
			s.must(s.AddLabel("acme/shop", mockworld.LabelSpec{Name: fmt.Sprintf("l%03d", k)}))
		}
		got, err := c.RepoLabels(t.Context(), shop)
		s.must(err)
		if len(got) < 230 {
			t.Errorf("%d labels", len(got))
		}
	})
}

func TestMovesOfIssuesAndRepositories(t *testing.T) {
	eachBot(t, func(t *testing.T, s *site, c *gh.Client) {
		s.must(s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "other", Files: map[string]string{"a": "b"}, Roles: map[string]mockworld.Role{"ann": mockworld.RoleAdmin}}))
		s.must(s.SetRole("acme/shop", "ann", mockworld.RoleAdmin))
		moved, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "ann", Title: "a"})
		s.must(err)
		stays, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "ann", Title: "b"})
		s.must(err)
		_, err = s.TransferIssue("acme/shop", moved, "ann", "acme/other")
		s.must(err)
		if _, err := c.Issue(t.Context(), forge.Ref{Repo: shop, Number: moved}); !forge.IsKind(err, forge.KindNotFound) {
			t.Errorf("transferred: %v", err)
		}
		s.must(s.RenameRepo("acme/shop", "ann", "store"))
		got, err := c.Issue(t.Context(), forge.Ref{Repo: shop, Number: stays})
		if err != nil || got.Ref.Repo.Name != "store" {
			t.Errorf("renamed: %+v, %v", got, err)
		}
		_, err = c.AddComment(t.Context(), forge.Ref{Repo: shop, Number: stays}, "hello")
		s.must(err)
	})
}

func TestTokensEndAfterAnHourAndPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "ann", Title: "a"})
	s.must(err)
	ref := forge.Ref{Repo: shop, Number: n}
	app := s.connect(gh.Options{App: &gh.App{ID: 31, InstallationID: 77, Key: secret.New(privatePEM())}})
	_, err = app.AddComment(t.Context(), ref, "one")
	s.must(err)
	s.clock.Advance(61 * time.Minute)
	_, err = app.AddComment(t.Context(), ref, "two")
	s.must(err)
	repos, err := app.Repositories(t.Context())
	s.must(err)
	if len(repos) != 1 || repos[0].Repo != shop {
		t.Errorf("repositories %+v", repos)
	}
	weak := s.connect(gh.Options{Token: secret.New("tok-weak")})
	_, err = weak.AddComment(t.Context(), ref, "three")
	if !forge.IsKind(err, forge.KindDenied) || !strings.Contains(err.Error(), "issues=write") {
		t.Errorf("got %v", err)
	}
	_, err = s.connect(gh.Options{Token: secret.New("nonsense")}).Issue(t.Context(), ref)
	if !forge.IsKind(err, forge.KindDenied) {
		t.Errorf("got %v", err)
	}
}

func TestFaultsOfTheWire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "ann", Title: "a"})
	s.must(err)
	ref := forge.Ref{Repo: shop, Number: n}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := gh.New(gh.Options{BaseURL: s.base, Token: secret.New(token), Transport: tr, Clock: &hasty{now: s.clock.Now()}})
	s.must(err)
	s.must(s.AddFault(mockworld.Fault{Match: mockworld.Match{Method: "GET", Path: "/issues/"}, Kind: mockworld.FaultDropResponse, Times: 2}))
	_, err = c.Issue(t.Context(), ref)
	s.must(err)
	s.must(s.AddFault(mockworld.Fault{Match: mockworld.Match{Method: "POST", Path: "/comments"}, Kind: mockworld.FaultDropResponse}))
	if _, err := c.AddComment(t.Context(), ref, "once"); !forge.IsKind(err, forge.KindTransient) {
		t.Errorf("got %v", err)
	}
	s.must(s.AddFault(mockworld.Fault{Match: mockworld.Match{Method: "POST", Path: "/labels"}, Kind: mockworld.FaultDropRequest}))
	s.must(c.AddLabel(t.Context(), ref, "bug"))
	all, err := c.Comments(t.Context(), ref)
	s.must(err)
	if len(all) != 1 {
		t.Errorf("%d comments: a write whose answer was lost must not be sent again", len(all))
	}
}
