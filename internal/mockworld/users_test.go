package mockworld_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// TestRoutesOfUsersTools calls what people and their tools use beside a bot.
func TestRoutesOfUsersTools(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, nil), newReceiver(t)
	must(t, s.SetRole("acme/shop", "root", mockworld.RoleAdmin))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-root", Login: "root"}))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-bob", Login: "bob"}))
	n := s.issue("Sums are wrong")
	must(t, s.Label("acme/shop", n, "bob", "help wanted"))
	_, err := s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Branch: "topic", Files: map[string]string{"new.txt": "1\n2\n3\n"}})
	must(t, err)
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "dev-bot", Title: "Right sums", Head: "topic"})
	must(t, err)
	head := s.snap().Branches["topic"].SHA
	pull := fmt.Sprintf("/repos/acme/shop/pulls/%d", pr)
	type m = map[string]any

	root := s.want(200, "GET", "/", "tok-ann", nil)
	if root.header.Get("X-OAuth-Scopes") != "repo" || root.obj()["current_user_url"] != s.base+"/api/v3/user" {
		t.Errorf("root: %v %s", root.header, root.raw)
	}
	s.want(200, "GET", s.base+"/api/v3", "tok-ann", nil)
	get, headed := s.want(200, "GET", "/repos/acme/shop", "tok-ann", nil), s.want(200, "HEAD", "/repos/acme/shop", "tok-ann", nil)
	if len(headed.raw) != 0 || headed.header.Get("ETag") != get.header.Get("ETag") || headed.header.Get("Content-Length") != get.header.Get("Content-Length") {
		t.Errorf("HEAD: %v %s", headed.header, headed.raw)
	}
	if got := s.want(200, "GET", "/user/repos", "tok-rita", nil).list(); len(got) != 1 {
		t.Errorf("repositories: %v", got)
	}

	// People are asked for a review, and no longer once they have given it.
	asked := func(names ...string) m { return m{"reviewers": names} }
	s.want(201, "POST", pull+"/requested_reviewers", "tok-ann", asked("rita", "bob"))
	s.want(422, "POST", pull+"/requested_reviewers", "tok-ann", asked("dev-bot"))
	s.want(422, "POST", pull+"/requested_reviewers", "tok-ann", asked("stranger"))
	s.want(403, "POST", pull+"/requested_reviewers", "tok-rita", asked("ann"))
	s.want(200, "DELETE", pull+"/requested_reviewers", "tok-ann", asked("bob"))
	users := s.want(200, "GET", pull+"/requested_reviewers", "tok-ann", nil).obj()["users"].([]any)
	if len(users) != 1 || users[0].(m)["login"] != "rita" {
		t.Errorf("requested: %v", users)
	}
	line := s.want(201, "POST", pull+"/comments", "tok-rita", m{"body": "Why?", "commit_id": head, "path": "new.txt", "line": 3, "start_line": 2, "side": "RIGHT"}).obj()
	if line["start_line"] != 2.0 || line["line"] != 3.0 {
		t.Errorf("line comment: %v", line)
	}
	if got := s.want(200, "GET", pull+"/requested_reviewers", "tok-ann", nil).obj()["users"].([]any); len(got) != 0 {
		t.Errorf("requested after the review: %v", got)
	}
	id := int64(line["id"].(float64))
	one := fmt.Sprintf("/repos/acme/shop/pulls/comments/%d", id)
	s.want(422, "POST", pull+"/comments", "tok-rita", m{"body": "Why?", "commit_id": head, "path": "new.txt", "line": 30})
	s.want(422, "POST", pull+"/comments", "tok-rita", m{"body": "Why?", "path": "new.txt", "line": 3})
	s.want(422, "POST", pull+"/comments", "tok-rita", m{"body": "", "commit_id": head, "path": "new.txt", "line": 3})
	s.want(422, "POST", pull+"/comments", "tok-rita", m{"body": "Why?", "commit_id": head, "path": "old.txt", "line": 3})
	for _, review := range []m{{"event": "LATER"}, {"event": "COMMENT"}, {"event": "COMMENT", "body": strings.Repeat("x", 70_000)}, {"event": "APPROVE", "commit_id": strings.Repeat("0", 40)}} {
		s.want(422, "POST", pull+"/reviews", "tok-rita", review)
	}
	answer := s.want(201, "POST", fmt.Sprintf("%s/comments/%d/replies", pull, id), "tok-ann", m{"body": "Because."}).obj()
	s.want(201, "POST", pull+"/comments", "tok-ann", m{"body": "So.", "in_reply_to": answer["id"]})
	if answer["in_reply_to_id"] != float64(id) {
		t.Errorf("reply: %v", answer)
	}
	s.want(200, "GET", one, "", nil)
	s.want(200, "PATCH", one, "tok-rita", m{"body": "Why so?"})
	s.want(403, "PATCH", one, "tok-bob", m{"body": "x"})
	s.want(204, "DELETE", one, "tok-ann", nil)
	s.want(404, "GET", one, "", nil)

	for q, want := range map[string]int{
		`repo:acme/shop is:issue label:"help wanted"`: 1, "is:pr author:dev-bot is:open": 1, "repo:acme/shop -label:bug sums": 2,
		"org:acme is:closed": 0, "head:topic base:main draft": 0, `"sums are"`: 1,
	} {
		got := s.want(200, "GET", "/search/issues?q="+strings.ReplaceAll(strings.ReplaceAll(q, " ", "%20"), `"`, "%22"), "tok-ann", nil).obj()
		if got["total_count"] != float64(want) {
			t.Errorf("search %s: got %v, want %d", q, got["total_count"], want)
		}
	}

	// Hooks are made, looked at and delivered once more over the API too.
	config := m{"url": r.URL, "content_type": "json", "secret": hookSecret}
	hooks := "/repos/acme/shop/hooks"
	s.want(404, "GET", hooks, "tok-rita", nil)
	s.want(422, "POST", hooks, "tok-root", m{"name": "web", "config": m{"url": "http://example.com/", "content_type": "json"}})
	made := s.want(201, "POST", hooks, "tok-root", m{"name": "web", "config": config, "events": []string{"issues"}}).obj()
	s.want(422, "POST", hooks, "tok-root", m{"name": "web", "config": config})
	hook := fmt.Sprintf("%s/%d", hooks, int64(made["id"].(float64)))
	s.want(200, "GET", hooks, "tok-root", nil)
	s.want(200, "GET", hook, "tok-root", nil)
	s.issue("Told")
	s.settle(0)
	list := s.want(200, "GET", hook+"/deliveries?per_page=1", "tok-root", nil)
	if len(list.list()) != 1 || !strings.Contains(list.header.Get("Link"), "cursor=") {
		t.Fatalf("deliveries: %v %s", list.header, list.raw)
	}
	next, _, _ := strings.Cut(strings.TrimPrefix(list.header.Get("Link"), "<"), ">")
	s.want(200, "GET", next, "tok-root", nil)
	delivery := fmt.Sprintf("%s/deliveries/%d", hook, int64(list.list()[0].(m)["id"].(float64)))
	s.want(200, "GET", delivery, "tok-root", nil)
	s.want(202, "POST", delivery+"/attempts", "tok-root", nil)
	s.settle(0)
	s.want(204, "POST", hook+"/pings", "tok-root", nil)
	s.want(200, "PATCH", hook, "tok-root", m{"active": false})
	s.issue("Not told")
	s.settle(0)
	if diff := cmp.Diff([]string{"ping", "issues.opened", "issues.opened", "ping"}, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if r.guids[1] != r.guids[2] {
		t.Errorf("GUIDs: %v", r.guids)
	}
	s.want(204, "DELETE", hook, "tok-root", nil)
	s.want(404, "GET", hook, "tok-root", nil)
	s.noViolations()
}

func TestSuspendedInstallation(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, nil), newReceiver(t)
	k := s.app()
	_, err := s.AddHook(mockworld.HookSpec{AppID: 5, URL: r.URL, Secret: hookSecret, Events: []string{"issues"}})
	must(t, err)
	token, jwt := s.mint(k, nil), s.jwt(k)
	must(t, s.SuspendApp("pipe", "ann"))
	for _, a := range []answer{s.want(403, "GET", "/repos/acme/shop", token, nil), s.want(403, "POST", "/app/installations/77/access_tokens", jwt, nil)} {
		if a.obj()["message"] != "This installation has been suspended" {
			t.Errorf("message: %s", a.raw)
		}
	}
	if out, err := s.git(t.TempDir(), "-c", "http.extraHeader=Authorization: Bearer "+token, "ls-remote", s.remote("")); err == nil {
		t.Errorf("git with a suspended installation's token: %s", out)
	}
	if got := s.want(200, "GET", "/app/installations/77", jwt, nil).obj(); got["suspended_at"] == nil || got["suspended_by"] == nil {
		t.Errorf("installation: %v", got)
	}
	s.issue("Nobody hears of it")
	must(t, s.UnsuspendApp("pipe", "ann"))
	s.want(200, "GET", "/repos/acme/shop", token, nil)
	s.want(200, "GET", "/app/hook/config", jwt, nil)
	s.want(200, "GET", "/orgs/acme/installation", jwt, nil)
	s.want(404, "GET", "/users/rita/installation", jwt, nil)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "other", Files: map[string]string{"a": "b"}}))
	must(t, s.AddAppRepo("pipe", "ann", "acme/other"))
	must(t, s.RemoveAppRepo("pipe", "ann", "acme/other"))
	must(t, s.SetAppPermissions("pipe", map[string]string{"issues": "read"}))
	s.want(204, "PUT", "/app/installations/77/suspended", jwt, nil)
	s.want(204, "DELETE", "/app/installations/77/suspended", jwt, nil)
	s.settle(0)
	deliveries := s.want(200, "GET", "/app/hook/deliveries?status=success", jwt, nil).list()
	delivery := fmt.Sprintf("/app/hook/deliveries/%d", int64(deliveries[0].(map[string]any)["id"].(float64)))
	s.want(200, "GET", delivery, jwt, nil)
	s.want(202, "POST", delivery+"/attempts", jwt, nil)
	s.settle(0)
	s.want(204, "DELETE", "/app/installations/77", jwt, nil)
	s.want(404, "GET", "/app/installations/77", jwt, nil)
	s.want(401, "GET", "/repos/acme/shop", token, nil)
	s.settle(0)
	want := []string{"ping", "installation.suspend", "installation.unsuspend", "installation_repositories.added", "installation_repositories.removed",
		"installation.new_permissions_accepted", "installation.suspend", "installation.unsuspend", "installation.unsuspend", "installation.deleted"}
	if diff := cmp.Diff(want, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s.noViolations()
}

// TestWhatIsGoneIsNull looks at what deleted accounts leave behind, and at
// what was never written.
func TestWhatIsGoneIsNull(t *testing.T) {
	t.Parallel()
	s, _ := hooked(t)
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "rita", Title: "One", NoBody: true, Labels: []string{"bug"}})
	must(t, err)
	_, err = s.Comment("acme/shop", n, "rita", "Mine.")
	must(t, err)
	_, err = s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Branch: "topic", Files: map[string]string{"new.txt": "1\n"}})
	must(t, err)
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "rita", Title: "Two", Head: "topic"})
	must(t, err)
	must(t, s.Label("acme/shop", pr, "bob", "no description"))
	_, err = s.SubmitReview("acme/shop", pr, mockworld.ReviewSpec{Actor: "rita", Event: "COMMENT", Body: "Well."})
	must(t, err)
	must(t, s.DeleteUser("rita"))
	id, err := s.Comment("acme/shop", n, "ann", "Who was that?")
	must(t, err)
	must(t, s.EditComment("acme/shop", id, "ann", "Who was it?"))
	must(t, s.DeleteComment("acme/shop", id, "ann"))
	_, err = s.Comment("acme/shop", pr, "ann", "And this?")
	must(t, err)
	must(t, s.CloseIssue("acme/shop", n, "ann", ""))
	if got := s.want(200, "GET", fmt.Sprintf("/repos/acme/shop/issues/%d", n), "", nil).obj(); got["user"] != nil || got["body"] != nil {
		t.Errorf("issue: user %v, body %v", got["user"], got["body"])
	}
	issue, pull := fmt.Sprintf("/repos/acme/shop/issues/%d", n), fmt.Sprintf("/repos/acme/shop/pulls/%d", pr)
	for _, path := range []string{"/repos/acme/shop/issues?state=all", "/repos/acme/shop/pulls", pull, pull + "/reviews", issue + "/comments", issue + "/events",
		issue + "/timeline", "/repos/acme/shop/issues/events", "/repos/acme/shop/issues/comments", "/search/issues?q=repo:acme/shop"} {
		s.want(200, "GET", path, "tok-ann", nil)
	}
	s.settle(0)
	s.noViolations()
}

// TestWebhooksOfTheRepository makes those events that happen to a repository
// and to who may act in it.
func TestWebhooksOfTheRepository(t *testing.T) {
	t.Parallel()
	s, r := hooked(t)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "other", Files: map[string]string{"a": "b"}}))
	must(t, s.SetRole("acme/shop", "eve", mockworld.RoleTriage))
	must(t, s.SetRole("acme/shop", "eve", mockworld.RoleMaintain))
	must(t, s.SetRole("acme/shop", "eve", mockworld.RoleMaintain))
	must(t, s.SetRole("acme/shop", "eve", mockworld.NoRole))
	one, two, three := s.issue("One"), s.issue("Two"), s.issue("Three")
	must(t, s.DeleteIssue("acme/shop", one, "acme"))
	_, err := s.TransferIssue("acme/shop", two, "ann", "acme/other")
	must(t, err)
	must(t, s.ConvertToDiscussion("acme/shop", three, "ann"))
	must(t, s.UnlockIssue("acme/shop", three, "ann"))
	must(t, s.DeleteRepoLabel("acme/shop", "ann", "bug"))
	must(t, s.SetStatus("acme/shop", mockworld.StatusSpec{SHA: "main", State: "success"}))
	must(t, s.RenameRepo("acme/shop", "ann", "store"))
	must(t, s.TransferRepo("acme/store", "ann", "bob"))
	s.want(301, "GET", "/repos/acme/shop", "", nil)
	must(t, s.ArchiveRepo("bob/store", "bob"))
	must(t, s.DeleteRepo("bob/store", "bob"))
	for _, name := range []string{"acme/shop", "acme/store", "bob/store"} {
		s.want(404, "GET", "/repos/"+name, "", nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must(t, s.Wait(ctx, func(sn mockworld.Snapshot) bool { return sn.PendingDeliveries == 0 }))
	want := []string{"ping", "member.added", "member.edited", "member.removed", "issues.opened", "issues.opened", "issues.opened", "issues.deleted",
		"issues.transferred", "discussion.created", "issues.closed", "issues.unlocked", "label.deleted", "status",
		"repository.renamed", "repository.transferred", "repository.archived", "repository.deleted"}
	if diff := cmp.Diff(want, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s.noViolations()
}
