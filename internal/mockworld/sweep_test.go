package mockworld_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// TestEveryRoute calls each operation once in a world that has one of
// everything, so that none of them is a stub.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	key := s.app()
	n := s.issue("Broken")
	must(t, s.Label("acme/shop", n, "bob", "bug"))
	comment, err := s.Comment("acme/shop", n, "rita", "Please mind #2.")
	must(t, err)
	_, err = s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Branch: "topic/one", Files: map[string]string{"new.txt": "1\n2\n"}})
	must(t, err)
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "dev-bot", Title: "One", Body: "Closes #1, see acme/shop#1", Head: "topic/one"})
	must(t, err)
	review, err := s.SubmitReview("acme/shop", pr, mockworld.ReviewSpec{Actor: "ann", Event: "REQUEST_CHANGES", Body: "no",
		Comments: []mockworld.LineComment{{Path: "new.txt", Line: 2, Body: "why"}}})
	must(t, err)
	must(t, s.SetStatus("acme/shop", mockworld.StatusSpec{SHA: "topic/one", State: "success", Context: "ci/lint", Description: "fine"}))
	run, err := s.SetCheckRun("acme/shop", mockworld.CheckSpec{SHA: "topic/one", Name: "test", Conclusion: "failure", Title: "1 failed", Summary: "TestAdd"})
	must(t, err)
	_, err = s.AddHook(mockworld.HookSpec{Repo: "acme/shop", URL: "http://127.0.0.1:1/hook"})
	must(t, err)
	head := s.snap().Branches["topic/one"].SHA
	app := s.mint(key, nil)
	jwt := s.jwt(key)
	must(t, s.SetRole("acme/shop", "root", mockworld.RoleAdmin))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-root", Login: "root"}))

	// A review stays its author's until it is submitted.
	reviews := fmt.Sprintf("/repos/acme/shop/pulls/%d/reviews", pr)
	for _, submit := range []bool{true, false} {
		pending := s.want(200, "POST", reviews, "tok-ann", map[string]any{"body": "Later.", "commit_id": head}).obj()
		one := fmt.Sprintf("%s/%d", reviews, int64(pending["id"].(float64)))
		s.want(404, "GET", one, app, nil)
		if !submit {
			s.want(200, "DELETE", one, "tok-ann", nil)
			continue
		}
		s.want(422, "POST", one+"/events", "tok-ann", map[string]any{"event": "LATER"})
		if got := s.want(200, "POST", one+"/events", "tok-ann", map[string]any{"event": "COMMENT", "body": "Now."}).obj(); got["state"] != "COMMENTED" {
			t.Errorf("submitted: %v", got)
		}
	}

	issue, pull := fmt.Sprintf("/repos/acme/shop/issues/%d", n), fmt.Sprintf("/repos/acme/shop/pulls/%d", pr)
	type m = map[string]any
	for _, c := range []struct {
		status       int
		method, path string
		token        string
		body         any
	}{
		{200, "GET", "/user", "tok-ann", nil},
		{200, "GET", "/users/rita", "", nil},
		{200, "GET", "/app", jwt, nil},
		{200, "GET", "/app/installations", jwt, nil},
		{200, "GET", "/app/installations/77", jwt, nil},
		{200, "GET", "/repos/acme/shop/installation", jwt, nil},
		{200, "GET", "/installation/repositories", app, nil},
		{200, "GET", "/rate_limit", app, nil},
		{200, "GET", "/meta", app, nil},
		{200, "GET", "/repos/acme/shop", "tok-ann", nil},
		{200, "GET", "/repos/acme/shop/collaborators/ann/permission", app, nil},
		{204, "GET", "/repos/acme/shop/collaborators/ann", app, nil},
		{200, "GET", "/repos/acme/shop/hooks", "tok-root", nil},
		{200, "GET", "/repos/acme/shop/contents/README.md", app, nil},
		{200, "GET", "/repos/acme/shop/contents/", app, nil},
		{200, "GET", "/repos/acme/shop/readme", app, nil},
		{200, "GET", "/repos/acme/shop/issues?state=all&labels=BUG&creator=rita&sort=updated&direction=asc&since=2020-01-01T00:00:00Z", app, nil},
		{201, "POST", "/repos/acme/shop/issues", app, m{"title": "Another", "labels": []string{"bug"}}},
		{200, "GET", issue, app, nil},
		{200, "PATCH", issue, app, m{"title": "Broken badly", "state": "closed", "state_reason": "not_planned"}},
		{200, "PATCH", issue, app, m{"state": "open"}},
		{204, "PUT", issue + "/lock", app, m{"lock_reason": "resolved"}},
		{204, "DELETE", issue + "/lock", app, nil},
		{200, "GET", issue + "/events", app, nil},
		{200, "GET", issue + "/timeline", app, nil},
		{200, "GET", "/repos/acme/shop/issues/events", app, nil},
		{200, "GET", issue + "/comments", app, nil},
		{201, "POST", issue + "/comments", app, m{"body": "Working on it."}},
		{200, "GET", "/repos/acme/shop/issues/comments?sort=updated&direction=desc", app, nil},
		{200, "GET", fmt.Sprintf("/repos/acme/shop/issues/comments/%d", comment), app, nil},
		{200, "PATCH", fmt.Sprintf("/repos/acme/shop/issues/comments/%d", comment), app, m{"body": "Changed."}},
		{204, "DELETE", fmt.Sprintf("/repos/acme/shop/issues/comments/%d", comment), app, nil},
		{200, "GET", issue + "/labels", app, nil},
		{200, "POST", issue + "/labels", app, []string{"pipeline:plan"}},
		{200, "PUT", issue + "/labels", app, m{"labels": []string{"bug", "x"}}},
		{200, "DELETE", issue + "/labels/x", app, nil},
		{204, "DELETE", issue + "/labels", app, nil},
		{200, "GET", "/repos/acme/shop/labels", app, nil},
		{201, "POST", "/repos/acme/shop/labels", app, m{"name": "a/b c", "color": "ff0000", "description": "d"}},
		{200, "GET", "/repos/acme/shop/labels/a%2Fb%20c", app, nil},
		{200, "PATCH", "/repos/acme/shop/labels/a%2Fb%20c", app, m{"new_name": "ab"}},
		{204, "DELETE", "/repos/acme/shop/labels/ab", app, nil},
		{200, "GET", "/repos/acme/shop/pulls?head=acme:topic/one&base=main&state=all", app, nil},
		{200, "GET", pull, app, nil},
		{200, "PATCH", pull, app, m{"title": "First", "body": "Closes #1"}},
		{200, "GET", pull + "/files", app, nil},
		{200, "GET", pull + "/commits", app, nil},
		{404, "GET", pull + "/merge", app, nil},
		{200, "GET", pull + "/reviews", app, nil},
		{200, "POST", pull + "/reviews", app, m{"commit_id": head, "body": "Pending."}},
		{200, "GET", fmt.Sprintf("%s/reviews/%d", pull, review), app, nil},
		{200, "PUT", fmt.Sprintf("%s/reviews/%d", pull, review), "tok-ann", m{"body": "No."}},
		{200, "GET", fmt.Sprintf("%s/reviews/%d/comments", pull, review), app, nil},
		{200, "PUT", fmt.Sprintf("%s/reviews/%d/dismissals", pull, review), app, m{"message": "done"}},
		{200, "GET", pull + "/comments", app, nil},
		{422, "DELETE", fmt.Sprintf("%s/reviews/%d", pull, review), "tok-ann", nil},
		{201, "POST", "/repos/acme/shop/check-runs", app, m{"name": "pipeline", "head_sha": head, "status": "in_progress"}},
		{200, "GET", fmt.Sprintf("/repos/acme/shop/check-runs/%d", run), app, nil},
		{403, "PATCH", fmt.Sprintf("/repos/acme/shop/check-runs/%d", run), app, m{"status": "completed", "conclusion": "success"}},
		{200, "GET", "/repos/acme/shop/commits/topic/one/check-runs?filter=latest", app, nil},
		{200, "GET", "/repos/acme/shop/commits/topic/one/check-suites", app, nil},
		{201, "POST", "/repos/acme/shop/statuses/" + head, app, m{"state": "pending", "context": "ci/deploy"}},
		{200, "GET", "/repos/acme/shop/commits/" + head + "/status", app, nil},
		{200, "GET", "/repos/acme/shop/commits/topic/one/statuses", app, nil},
		{200, "GET", "/repos/acme/shop/branches", app, nil},
		{200, "GET", "/repos/acme/shop/branches/topic/one", app, nil},
		{200, "GET", "/repos/acme/shop/git/ref/heads/topic/one", app, nil},
		{200, "GET", "/repos/acme/shop/git/matching-refs/heads/topic", app, nil},
		{201, "POST", "/repos/acme/shop/git/refs", app, m{"ref": "refs/heads/copy", "sha": head}},
		{200, "PATCH", "/repos/acme/shop/git/refs/heads/copy", app, m{"sha": head, "force": true}},
		{204, "DELETE", "/repos/acme/shop/git/refs/heads/copy", app, nil},
		{200, "GET", "/repos/acme/shop/git/commits/" + head, app, nil},
		{200, "GET", "/repos/acme/shop/commits?sha=topic/one", app, nil},
		{200, "GET", "/repos/acme/shop/commits/topic/one", app, nil},
		{200, "GET", "/repos/acme/shop/commits/" + head + "/pulls", app, nil},
		{200, "GET", "/repos/acme/shop/compare/main...topic/one", app, nil},
		{200, "PUT", pull + "/merge", app, m{"sha": head, "merge_method": "merge"}},
		{204, "GET", pull + "/merge", app, nil},
		{204, "DELETE", "/installation/token", app, nil},
		{401, "GET", "/repos/acme/shop", app, nil},
	} {
		a := s.want(c.status, c.method, c.path, c.token, c.body)
		if h := a.header; h.Get("X-GitHub-Request-Id") == "" || (c.status < 400 && h.Get("X-RateLimit-Remaining") == "") {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
	}
	s.noViolations()
}

// TestUnknownIsAViolation shows that nothing is accepted in silence.
func TestUnknownIsAViolation(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/repos/acme/shop/milestones", nil},
		{"GET", "/repos/acme/shop/issues?label=bug", nil},
		{"GET", "/repos/acme/shop/issues?milestone=3", nil},
		{"POST", "/repos/acme/shop/issues/1/comments", map[string]any{"body": "x", "text": "y"}},
		{"PUT", "/repos/acme/shop/issues/1", nil},
		{"GET", "/repos/acme/shop?per_page=3", nil},
	} {
		s.want(501, c.method, c.path, "tok-bot", c.body)
	}
	s.want(501, "POST", s.base+"/api/graphql", "tok-bot", map[string]any{"query": "{viewer{login}}"})
	v := s.Violations()
	if len(v) != 7 || !strings.Contains(v[1], `query parameter "label" not known`) {
		t.Errorf("violations: %q", v)
	}
}
