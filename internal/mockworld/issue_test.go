package mockworld_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestLabelsOfIssues(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	path := "/repos/acme/shop/issues/1/labels"
	// Names are the same in any case; a new one is made in the repository.
	s.want(200, "POST", path, "tok-bot", []string{"BUG", "Pipeline:Plan"})
	s.want(200, "POST", path, "tok-bot", map[string]any{"labels": []string{"bug"}})
	s.want(422, "POST", path, "tok-bot", []string{strings.Repeat("x", 51)})
	s.want(404, "DELETE", path+"/absent", "tok-bot", nil)
	s.want(200, "DELETE", path+"/bUg", "tok-bot", nil)
	s.want(422, "POST", "/repos/acme/shop/labels", "tok-bot", map[string]any{"name": "PIPELINE:plan", "color": "ffffff"})
	must(t, s.RenameLabel("acme/shop", "ann", "pipeline:plan", "planned"))
	st := s.snap()
	if diff := cmp.Diff([]string{"planned"}, st.Issues[0].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := []mockworld.EventState{{Event: "labeled", Actor: "dev-bot", Label: "bug"}, {Event: "labeled", Actor: "dev-bot", Label: "Pipeline:Plan"}, {Event: "unlabeled", Actor: "dev-bot", Label: "bug"}}
	if diff := cmp.Diff(want, st.Issues[0].Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	must(t, s.DeleteRepoLabel("acme/shop", "ann", "planned"))
	if got := s.snap(); len(got.Issues[0].Labels) != 0 || len(got.Labels) != 1 {
		t.Errorf("after the label was deleted: %v, %v", got.Issues[0].Labels, got.Labels)
	}
	puts := 0
	for _, r := range s.Requests() {
		if r.Method == "PUT" {
			puts++
		}
	}
	if puts != 0 {
		t.Errorf("PUTs: %d", puts)
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *mockworld.Options) {
		o.Limits = &mockworld.Limits{PrimaryPerHour: -1, AnonymousPerHour: -1, ContentPerMinute: -1, ContentPerHour: -1, PointsPerMinute: -1, Concurrent: -1}
	})
	s.issue("One")
	path := "/repos/acme/shop/issues/1/comments"
	long := strings.Repeat("é", 65_536)
	s.want(201, "POST", path, "tok-bot", map[string]any{"body": long})
	s.want(422, "POST", path, "tok-bot", map[string]any{"body": long + "x"})
	s.want(422, "POST", path, "tok-bot", map[string]any{"body": ""})
	s.want(422, "POST", path, "tok-bot", map[string]any{"body": 3})
	s.want(422, "POST", path, "tok-bot", nil)
	s.want(422, "POST", "/repos/acme/shop/issues", "tok-bot", map[string]any{"title": "t", "body": long + "x"})
	s.want(422, "PATCH", "/repos/acme/shop/issues/1", "tok-bot", map[string]any{"body": long + "x"})
	for range 2499 {
		_, err := s.Comment("acme/shop", 1, "rita", "again")
		must(t, err)
	}
	s.want(403, "POST", path, "tok-bot", map[string]any{"body": "one too many"})
}

func TestMovedThings(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "other", Files: map[string]string{"a": "b"}}))
	s.issue("One")
	s.issue("Two")
	moved, err := s.TransferIssue("acme/shop", 1, "ann", "acme/other")
	must(t, err)
	a := s.want(301, "GET", "/repos/acme/shop/issues/1", "tok-ann", nil)
	got := s.want(200, "GET", a.header.Get("Location"), "tok-ann", nil).obj()
	if got["number"] != float64(moved) || !strings.Contains(fmt.Sprint(got["url"]), "acme/other") {
		t.Errorf("moved issue: %v %v", got["number"], got["url"])
	}
	must(t, s.DeleteIssue("acme/shop", 2, "acme"))
	s.want(410, "GET", "/repos/acme/shop/issues/2", "tok-ann", nil)
	must(t, s.RenameRepo("acme/shop", "acme", "store"))
	a = s.want(301, "GET", "/repos/acme/shop/issues?state=all", "tok-ann", nil)
	s.want(200, "GET", a.header.Get("Location"), "tok-ann", nil)
	a = s.want(307, "POST", "/repos/acme/shop/issues", "tok-ann", map[string]any{"title": "Three"})
	s.want(201, "POST", a.header.Get("Location"), "tok-ann", map[string]any{"title": "Three"})
	s.clone("") // git follows a rename too
	s.noViolations()
}

func TestDeletedUserAndNullBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "gone", Title: "One", NoBody: true})
	must(t, err)
	must(t, s.Label("acme/shop", n, "bob", "bug"))
	must(t, s.DeleteUser("gone"))
	must(t, s.DeleteUser("bob"))
	got := s.want(200, "GET", "/repos/acme/shop/issues/1", "tok-bot", nil).obj()
	if got["user"] != nil || got["body"] != nil {
		t.Errorf("user %v, body %v; want null", got["user"], got["body"])
	}
	ev := s.want(200, "GET", "/repos/acme/shop/issues/1/events", "tok-bot", nil).list()[0].(map[string]any)
	if ev["actor"] != nil || ev["event"] != "labeled" {
		t.Errorf("event: %v", ev)
	}
	s.want(404, "GET", "/repos/acme/shop/collaborators/bob/permission", "tok-bot", nil)
}

func TestPeopleNeedTheRole(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	n := s.issue("One")
	if s.Label("acme/shop", n, "stranger", "bug") == nil {
		t.Error("a stranger labelled")
	}
	if _, err := s.MergePull("acme/shop", n, "rita", ""); err == nil {
		t.Error("a reader merged an issue")
	}
	must(t, s.LockIssue("acme/shop", n, "ann", "spam"))
	if _, err := s.Comment("acme/shop", n, "rita", "but"); err == nil {
		t.Error("a reader commented on a locked issue")
	}
	s.want(201, "POST", "/repos/acme/shop/issues/1/comments", "tok-bot", map[string]any{"body": "the bot may"})
	must(t, s.ConvertToDiscussion("acme/shop", n, "ann"))
	st := s.snap().Issues[0]
	if last := st.Events[len(st.Events)-1].Event; st.State != "closed" || last != "converted_to_discussion" {
		t.Errorf("converted: %s, %s", st.State, last)
	}
}

func TestTimelineShowsReferences(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	_, err := s.PushCommit("acme/shop", mockworld.CommitSpec{Branch: "b", Files: map[string]string{"x": "y"}})
	must(t, err)
	_, err = s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "ann", Title: "T", Head: "b", Body: "Resolves #1"})
	must(t, err)
	list := s.want(200, "GET", "/repos/acme/shop/issues/1/timeline", "tok-bot", nil).list()
	src := list[0].(map[string]any)["source"].(map[string]any)["issue"].(map[string]any)
	if src["number"] != 2.0 || src["pull_request"] == nil {
		t.Errorf("cross-reference: %v", src)
	}
	if events := s.want(200, "GET", "/repos/acme/shop/issues/1/events", "tok-bot", nil).list(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
	// A commit on the default branch closes too.
	_, err = s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Message: "Fix it\n\nFixes: #1", Files: map[string]string{"z": "y"}})
	must(t, err)
	if st := s.snap().Issues[0]; st.State != "closed" || st.StateReason != "completed" {
		t.Errorf("issue: %+v", st)
	}
}

func TestEmptyPullIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	sha := s.snap().Branches["main"].SHA
	s.want(201, "POST", "/repos/acme/shop/git/refs", "tok-bot", map[string]any{"ref": "refs/heads/empty", "sha": sha})
	a := s.want(422, "POST", "/repos/acme/shop/pulls", "tok-bot", map[string]any{"title": "T", "head": "empty", "base": "main"})
	if !strings.Contains(string(a.raw), "No commits between main and empty") {
		t.Errorf("refusal: %s", a.raw)
	}
	s.want(422, "POST", "/repos/acme/shop/pulls", "tok-bot", map[string]any{"title": "T", "head": "absent", "base": "main"})
	s.want(422, "POST", "/repos/acme/shop/git/refs", "tok-bot", map[string]any{"ref": "refs/heads/empty", "sha": sha})
}
