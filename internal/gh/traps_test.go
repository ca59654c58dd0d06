package gh_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

// The tests of this file are named for the traps of go-github v66 that each
// shows to be closed.

func TestRefusalsAreClassifiedByStatusAndHeaders(t *testing.T) {
	t.Parallel()
	const date = "Mon, 30 Nov 2026 12:00:00 GMT"
	tests := []struct {
		name   string
		code   int
		body   string
		header []string
		want   forge.Error
	}{
		{"429 with a header", 429, `{"message":"slow down"}`, []string{"Retry-After", "90"}, forge.Error{Kind: forge.KindRateLimited, RetryAfter: 90 * time.Second}},
		{"429 without one", 429, `{}`, nil, forge.Error{Kind: forge.KindRateLimited, RetryAfter: time.Minute}},
		{"403 secondary, unusual documentation", 403, `{"message":"x","documentation_url":"https://example.com/why"}`, []string{"Retry-After", "61"}, forge.Error{Kind: forge.KindRateLimited, RetryAfter: 61 * time.Second}},
		{"403 secondary told by documentation only", 403, `{"message":"x","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, nil, forge.Error{Kind: forge.KindRateLimited, RetryAfter: time.Minute}},
		{"403 primary", 403, `{}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796040600", "Date", date}, forge.Error{Kind: forge.KindRateLimited, RetryAfter: 10 * time.Minute}},
		{"403 whose prose speaks of limits", 403, `{"message":"You have exceeded a secondary rate limit"}`, []string{"X-Accepted-GitHub-Permissions", "issues=write"}, forge.Error{Kind: forge.KindDenied, Needs: "issues=write"}},
		{"401", 401, `{"message":"Bad credentials"}`, nil, forge.Error{Kind: forge.KindDenied}},
		{"404", 404, `{"message":"Not Found"}`, []string{"X-Accepted-GitHub-Permissions", "issues=read"}, forge.Error{Kind: forge.KindNotFound}},
		{"410", 410, `{}`, nil, forge.Error{Kind: forge.KindNotFound}},
		{"409", 409, `{}`, nil, forge.Error{Kind: forge.KindConflict}},
		{"422 exists", 422, `{"message":"Validation Failed","errors":[{"resource":"Label","code":"already_exists","field":"name"}]}`, nil, forge.Error{Kind: forge.KindConflict}},
		{"422", 422, `{"message":"Validation Failed","errors":["body is too long"]}`, nil, forge.Error{Kind: forge.KindInvalid}},
		{"503 html", 503, `<html>unicorn</html>`, []string{"Retry-After", "120"}, forge.Error{Kind: forge.KindTransient, RetryAfter: 2 * time.Minute}},
		{"500", 500, ``, nil, forge.Error{Kind: forge.KindTransient}},
		{"304 unasked", 304, ``, nil, forge.Error{Kind: forge.KindTransient}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.json("POST repos/acme/widgets/issues/7/comments", tt.code, tt.body, tt.header...)
			_, err := f.client().AddComment(t.Context(), ref, "hello")
			var got *forge.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a forge.Error", err)
			}
			if got.Op != "commenting on acme/widgets#7" || got.Status != tt.code {
				t.Errorf("op %q status %d", got.Op, got.Status)
			}
			if got.Kind != tt.want.Kind || got.RetryAfter != tt.want.RetryAfter || got.Needs != tt.want.Needs {
				t.Errorf("got %s %s %q, want %s %s %q", got.Kind, got.RetryAfter, got.Needs, tt.want.Kind, tt.want.RetryAfter, tt.want.Needs)
			}
			if n := len(f.requests()); n != 1 {
				t.Errorf("a write was sent %d times", n)
			}
		})
	}
}

func TestPagesFollowTheLinkVerbatim(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const path = "repos/acme/widgets/issues/7/comments"
	next := f.base() + path + "?per_page=100&since=2026-01-01T00:00:00Z&after=Y3Vyc29yOnYyOpK5,x;y=="
	f.json("GET "+path+"?per_page=100", 200, `[{"id":1,"user":null,"body":null}]`, "Link", link("prev", "x")+", "+link("next", next))
	f.json("GET "+strings.TrimPrefix(next, f.base()), 200, `[{"id":2,"body":"b"}]`, "Link", link("first", "x"))
	got, err := f.client().Comments(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[1].ID != 2 || got[0].Author.Login != "ghost" {
		t.Errorf("got %+v", got)
	}
}

func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const path = "repos/acme/widgets/labels"
	f.on("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		reply(200, `[]`, "Link", link("next", f.base()+path+"?per_page=100&page="+r.URL.Query().Get("page")+"1"))(w, r)
	})
	_, err := f.client(func(o *gh.Options) { o.MaxPages = 3 }).RepoLabels(t.Context(), repo)
	if !forge.IsKind(err, forge.KindInvalid) || !strings.Contains(err.Error(), "more than 3 pages") {
		t.Errorf("got %v", err)
	}
	if n := len(f.requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	f.on("GET "+path, reply(200, `[]`, "Link", link("next", f.base()+path+"?per_page=100")))
	if _, err := f.client().RepoLabels(t.Context(), repo); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("a circle gave %v", err)
	}
}

func TestALinkToAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/labels", 200, `[]`, "Link", link("next", "http://evil.example/labels"))
	_, err := f.client().RepoLabels(t.Context(), repo)
	if !forge.IsKind(err, forge.KindInvalid) || !strings.Contains(err.Error(), "evil.example") {
		t.Errorf("got %v", err)
	}
}

func TestAWriteIsNeverTurnedIntoARead(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 303} {
		f := newFake(t)
		f.on("PATCH repos/acme/widgets/issues/comments/5", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, under+"repositories/1/issues/comments/5", code)
		})
		_, err := f.client().EditComment(t.Context(), repo, 5, "new")
		if !forge.IsKind(err, forge.KindInvalid) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%d: got %v", code, err)
		}
		if n := len(f.requests()); n != 1 {
			t.Errorf("%d: %d requests, want 1: %v", code, n, f.lines())
		}
	}
}

func TestRedirectsOfTheSameHostAreFollowed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("GET repos/acme/widgets/issues/7", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, under+"repositories/1/issues/7", http.StatusMovedPermanently)
	})
	f.json("GET repositories/1/issues/7", 200, issueJSON(7, "pipeline:plan"))
	f.on("POST repos/acme/widgets/issues/7/comments", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, under+"repositories/1/issues/7/comments", http.StatusTemporaryRedirect)
	})
	f.json("POST repositories/1/issues/7/comments", 201, `{"id":9,"body":"hi"}`)
	c := f.client()
	if _, err := c.Issue(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if got, err := c.AddComment(t.Context(), ref, "hi"); err != nil || got.ID != 9 {
		t.Fatalf("got %+v, %v", got, err)
	}
	all := f.requests()
	last := all[len(all)-1]
	if last.Body != `{"body":"hi"}` || last.Header.Get("Authorization") != "Bearer "+token {
		t.Errorf("the redirected write came as %+v", last)
	}
}

func TestTheTokenNeverLeavesTheHost(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request reached another host")
	}))
	defer elsewhere.Close()
	f := newFake(t)
	f.on("GET repos/acme/widgets", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+under+"repos/acme/widgets", http.StatusMovedPermanently)
	})
	_, err := f.client().Repository(t.Context(), repo)
	if !forge.IsKind(err, forge.KindInvalid) || !strings.Contains(err.Error(), "refused a redirect to") {
		t.Errorf("got %v", err)
	}
}

func TestNothingWaitsOnTheWallClock(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	clk := &hasty{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	c := f.client(func(o *gh.Options) { o.Clock = clk })
	// The reset lies an hour ahead of the injected clock and of the wall's.
	reset := []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4102444800", "Date", "Thu, 31 Dec 2099 23:00:00 GMT"}
	f.json("GET repos/acme/widgets", 200, `{"id":1,"full_name":"acme/widgets"}`, reset...)
	if _, err := c.Repository(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	_, err := c.Repository(t.Context(), repo)
	var e *forge.Error
	if !errors.As(err, &e) || e.Kind != forge.KindRateLimited || e.RetryAfter != time.Hour {
		t.Fatalf("got %v, want an hour", err)
	}
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	clk.advance(time.Hour)
	f.json("GET repos/acme/widgets", 200, `{"id":1,"full_name":"acme/widgets"}`)
	if _, err := c.Repository(t.Context(), repo); err != nil {
		t.Errorf("after the hour: %v", err)
	}
}

func TestShortLimitsAreWaitedForAndLongOnesReturned(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	clk := &hasty{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	c := f.client(func(o *gh.Options) { o.Clock = clk })
	f.on("POST repos/acme/widgets/issues/7/comments", each(
		reply(403, `{}`, "Retry-After", "4"), reply(201, `{"id":9}`)))
	if got, err := c.AddComment(t.Context(), ref, "x"); err != nil || got.ID != 9 {
		t.Fatalf("got %+v, %v", got, err)
	}
	var total time.Duration
	for _, d := range clk.waited() {
		total += d
	}
	if total != 4*time.Second {
		t.Errorf("waited %v, want 4s in all", clk.waited())
	}
	f.on("POST repos/acme/widgets/issues/7/comments", reply(403, `{}`, "Retry-After", "6"))
	if _, err := c.AddComment(t.Context(), ref, "x"); !forge.IsKind(err, forge.KindRateLimited) {
		t.Errorf("got %v", err)
	}
	before := len(f.requests())
	if _, err := c.Comments(t.Context(), ref); !forge.IsKind(err, forge.KindRateLimited) || len(f.requests()) != before {
		t.Errorf("a read during the wait: %v", err)
	}
}

func TestErrorBodiesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets", 404, `{"message":"`+strings.Repeat("long ", 1<<20)+`"}`)
	_, err := f.client().Repository(t.Context(), repo)
	if !forge.IsKind(err, forge.KindNotFound) || len(err.Error()) > 1000 {
		t.Errorf("got %.200v", err)
	}
}

func TestUnchangedAnswersAreAskedForEveryTimeAndReplayed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const path = "repos/acme/widgets/issues"
	tag := `W/"one"`
	body := list(issueJSON(7, "pipeline:plan"))
	next := f.base() + path + "?page=2"
	f.on("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == tag {
			reply(304, ``, "ETag", tag)(w, r)
			return
		}
		reply(200, body, "ETag", tag, "Cache-Control", "private, max-age=60", "Link", link("next", next))(w, r)
	})
	f.json("GET "+path+"?page=2", 200, list(issueJSON(8, "pipeline:plan")))
	c := f.client()
	var answers [2][]forge.Issue
	for i := range answers {
		var err error
		if answers[i], err = c.IssuesByLabel(t.Context(), repo, "pipeline:plan"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" || len(answers[0]) != 2 {
		t.Errorf("a replayed answer differs (-first +second):\n%s", diff)
	}
	if n := len(f.requests()); n != 4 {
		t.Errorf("%d requests, want 4: the cache must always ask", n)
	}
	// A change is seen at once.
	tag, body = `W/"two"`, list(issueJSON(9, "pipeline:plan"))
	got, err := c.IssuesByLabel(t.Context(), repo, "pipeline:plan")
	if err != nil || got[0].Ref.Number != 9 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnEmptyAnswerIsNotAnEmptyList(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `null`, `<html>`, `[{"number":7,"id":1}]`} {
		f := newFake(t)
		f.json("GET repos/acme/widgets/issues", 200, body)
		got, err := f.client().IssuesByLabel(t.Context(), repo, "pipeline:plan")
		if !forge.IsKind(err, forge.KindTransient) {
			t.Errorf("%q: got %v, %v", body, got, err)
		}
	}
}

func TestReadsAreRetriedAndWritesAreNot(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := f.client()
	f.on("GET repos/acme/widgets", each(reply(502, ``), reply(500, ``), reply(200, `{"id":1}`)))
	if _, err := c.Repository(t.Context(), repo); err != nil {
		t.Errorf("reading: %v", err)
	}
	f.on("POST repos/acme/widgets/issues/7/labels", each(reply(502, ``), reply(200, `[]`)))
	if err := c.AddLabel(t.Context(), ref, "a"); err != nil {
		t.Errorf("adding a label: %v", err)
	}
	f.on("POST repos/acme/widgets/pulls", each(reply(502, ``), reply(201, `{}`)))
	if _, err := c.OpenPull(t.Context(), repo, forge.NewPull{Head: "b"}); !forge.IsKind(err, forge.KindTransient) {
		t.Errorf("opening a pull request: %v", err)
	}
	if n := len(f.requests()); n != 6 {
		t.Errorf("%d requests, want 3+2+1", n)
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("POST repos/acme/widgets/issues/7/comments", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := f.client(func(o *gh.Options) { o.Timeout = 30 * time.Millisecond })
	_, err := c.AddComment(t.Context(), ref, "x")
	if !forge.IsKind(err, forge.KindTransient) || !strings.Contains(err.Error(), "no answer within 30ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stopped by a person")
	cancel(why)
	_, err = f.client().AddComment(ctx, ref, "x")
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || forge.IsKind(err, forge.KindTransient) {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	key := secret.New("nonsense")
	tests := []struct {
		name string
		o    gh.Options
		want string
	}{
		{"no credential", gh.Options{}, "neither a token nor an App"},
		{"both", gh.Options{Token: key, App: &gh.App{ID: 1, Key: key}}, "choose one"},
		{"bad key", gh.Options{App: &gh.App{ID: 1, Key: key}}, "private key can't be read"},
		{"no key", gh.Options{App: &gh.App{ID: 1}}, "private key is missing"},
		{"no id", gh.Options{App: &gh.App{Key: key}}, "id is missing"},
		{"scheme", gh.Options{Token: key, BaseURL: "ftp://x/"}, "want https://HOST/"},
		{"credentials in the address", gh.Options{Token: key, BaseURL: "https://u:hunter22@x/"}, "must not hold credentials"},
		{"no such CA file", gh.Options{Token: key, CAFile: "no/such.pem"}, "reading the certificate authorities"},
		{"no CA in the file", gh.Options{Token: key, CAFile: "gh.go"}, "holds no PEM certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := gh.New(tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "nonsense") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAPrivateAuthorityIsTrustedByItsFile(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(reply(200, `{"id":1,"full_name":"acme/widgets"}`))
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(ca string) error {
		c, err := gh.New(gh.Options{BaseURL: s.URL + under, Token: secret.New(token), CAFile: ca})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Repository(t.Context(), repo)
		return err
	}
	if err := ask(file); err != nil {
		t.Errorf("with the file: %v", err)
	}
	if err := ask(""); !forge.IsKind(err, forge.KindInvalid) || !strings.Contains(err.Error(), "CA file") {
		t.Errorf("without it: %v", err)
	}
}
