package gh_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
)

func TestAnIssueWithNullsEverywhere(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/issues/7", 200, issueJSON(7, "bug", "pipeline:plan"))
	got, err := f.client().Issue(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	got.Created, got.Updated = got.Created.UTC(), got.Updated.UTC()
	if got.Ref.String() != "Acme/widgets#7" || got.Body != "" || got.Author != (forge.Actor{Login: "ghost"}) || !got.Open || got.Created.IsZero() {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"bug", "pipeline:plan"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestATransferredIssueIsGoneAndARenamedRepositoryIsNot(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	moved := func(to string) string {
		return `{"id":1,"number":7,"state":"open","labels":[],"repository_url":"` + f.base() + `repos/` + to + `"}`
	}
	f.json("GET repos/acme/widgets/issues/7", 200, moved("acme/gadgets"))
	f.json("GET repos/acme/widgets", 200, `{"id":1,"full_name":"acme/gadgets"}`)
	if got, err := f.client().Issue(t.Context(), ref); err != nil || got.Ref.Repo.Name != "gadgets" {
		t.Errorf("renamed: got %+v, %v", got, err)
	}
	f.json("GET repos/acme/widgets", 200, `{"id":1,"full_name":"acme/widgets"}`)
	if got, err := f.client().Issue(t.Context(), ref); !forge.IsKind(err, forge.KindNotFound) {
		t.Errorf("transferred: got %+v, %v", got, err)
	}
}

func TestListingsLeavePullRequestsOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/issues?direction=desc&labels=pipeline%3Aplan&per_page=100&sort=updated&state=open", 200,
		`[`+issueJSON(7, "pipeline:plan")+`,{"number":8,"labels":[],"pull_request":{"url":"x"}}]`)
	got, err := f.client().IssuesByLabel(t.Context(), repo, "pipeline:plan")
	if err != nil || len(got) != 1 || got[0].Ref.Number != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEventsComeOldestFirst(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/issues/7/events", 200, `[
		{"id":12,"event":"unlabeled","actor":null,"label":{"name":"b"},"created_at":"2026-11-01T10:00:00Z"},
		{"id":11,"event":"labeled","actor":{"id":3,"login":"x","type":"Bot"},"label":{"name":"a"},"created_at":"2026-11-01T10:00:00Z"},
		{"id":10,"event":"closed","actor":{"id":4,"login":"helper[bot]"},"created_at":"2026-11-02T10:00:00Z"}]`)
	got, err := f.client().Events(t.Context(), ref)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got[0].ID != 11 || !got[0].Actor.Bot || got[1].Actor.Login != "ghost" || got[2].ID != 10 || !got[2].Actor.Bot {
		t.Errorf("got %+v", got)
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code int
		body string
		want forge.Permission
		fail bool
	}{
		{200, `{"permission":"write","role_name":"maintain"}`, forge.Maintain, false},
		{200, `{"permission":"read","role_name":"triage"}`, forge.Triage, false},
		{200, `{"permission":"write","role_name":"release-captain"}`, forge.Write, false},
		{200, `{"permission":"none","role_name":""}`, forge.None, false},
		{200, `{"permission":"admin"}`, forge.Admin, false},
		{404, `{"message":"Not Found"}`, forge.None, false},
		{200, `{}`, forge.None, true},
		{200, `{"permission":"emperor"}`, forge.None, true},
		{500, ``, forge.None, true},
		{403, `{}`, forge.None, true},
	}
	for _, tt := range tests {
		f := newFake(t)
		f.json("GET repos/acme/widgets/collaborators/ada/permission", tt.code, tt.body)
		got, err := f.client().Permission(t.Context(), repo, "ada")
		if got != tt.want || (err != nil) != tt.fail {
			t.Errorf("%d %s: got %s, %v", tt.code, tt.body, got, err)
		}
	}
	if got, err := newFake(t).client().Permission(t.Context(), repo, ""); got != forge.None || err != nil {
		t.Errorf("a deleted account: %s, %v", got, err)
	}
}

func TestSelfIsAskedForOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET user", 200, `{"id":42,"login":"robot","type":"User"}`)
	c := f.client()
	for range 2 {
		if got, err := c.Self(t.Context()); err != nil || got != (forge.Actor{ID: 42, Login: "robot"}) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestLabelsAreAddedAndRemovedOneByOne(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("POST repos/acme/widgets/issues/7/labels", 200, `[{"name":"pipeline:plan"}]`)
	f.on("DELETE repos/acme/widgets/issues/7/labels/a%2Fb%20c", each(reply(200, `[]`), reply(404, `{"message":"Label does not exist"}`)))
	c := f.client()
	if err := c.AddLabel(t.Context(), ref, "pipeline:plan"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := c.RemoveLabel(t.Context(), ref, "a/b c"); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		`POST repos/acme/widgets/issues/7/labels {"labels":["pipeline:plan"]}`,
		`DELETE repos/acme/widgets/issues/7/labels/a%2Fb%20c`,
		`DELETE repos/acme/widgets/issues/7/labels/a%2Fb%20c`,
	}
	if diff := cmp.Diff(want, f.lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPutLabelWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	const path = "repos/acme/widgets/labels"
	want := forge.Label{Name: "pipeline:plan", Color: "#00FF00", Description: "d"}
	there := reply(200, `{"name":"pipeline:plan","color":"00ff00","description":"d"}`)
	other := reply(200, `{"name":"pipeline:plan","color":"ffffff","description":null}`)
	missing := reply(404, `{}`)
	tests := []struct {
		name  string
		get   http.HandlerFunc
		post  http.HandlerFunc
		wants []string
	}{
		{"there", there, nil, []string{"GET " + path + "/pipeline:plan"}},
		{"differs", other, nil, []string{"GET " + path + "/pipeline:plan", `PATCH ` + path + `/pipeline:plan {"color":"00FF00","description":"d"}`}},
		{"missing", missing, reply(201, `{}`), []string{"GET " + path + "/pipeline:plan", `POST ` + path + ` {"name":"pipeline:plan","color":"00FF00","description":"d"}`}},
		{"created meanwhile", each(missing, there), reply(422, `{"errors":[{"code":"already_exists"}]}`), []string{
			"GET " + path + "/pipeline:plan", `POST ` + path + ` {"name":"pipeline:plan","color":"00FF00","description":"d"}`, "GET " + path + "/pipeline:plan",
		}},
	}
	for _, tt := range tests {
		f := newFake(t)
		f.on("GET "+path+"/pipeline:plan", tt.get)
		f.on("PATCH "+path+"/pipeline:plan", reply(200, `{}`))
		if tt.post != nil {
			f.on("POST "+path, tt.post)
		}
		if err := f.client().PutLabel(t.Context(), repo, want); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.wants, f.lines()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", tt.name, diff)
		}
	}
}

const pullJSON = `{"number":9,"title":"Fix","body":null,"user":null,"state":"closed","merged_at":"2026-11-01T10:00:00Z",
	"head":{"ref":"bot/7","sha":"aaa","repo":null},"base":{"ref":"main","sha":"bbb","repo":{"full_name":"acme/widgets"}}}`

func TestPullsByHead(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/pulls?head=acme%3Abot%2F7&per_page=100&state=all", 200, `[`+pullJSON+`,{"number":3,"head":{"ref":"other"}}]`)
	got, err := f.client().PullsByHead(t.Context(), repo, "bot/7")
	if err != nil {
		t.Fatal(err)
	}
	want := []forge.Pull{{
		Ref: forge.Ref{Repo: repo, Number: 9}, Title: "Fix", Author: forge.Actor{Login: "ghost"}, Merged: true,
		Head: "bot/7", HeadSHA: "aaa", Base: "main", BaseSHA: "bbb",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pulls (-want +got):\n%s", diff)
	}
}

func TestOpenPullTellsAConflictFromARefusal(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("POST repos/acme/widgets/pulls", 422, `{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for acme:bot/7."}]}`)
	f.on("GET repos/acme/widgets/pulls", each(reply(200, `[]`), reply(200, `[{"number":9,"state":"open","head":{"ref":"bot/7"}}]`)))
	c := f.client()
	n := forge.NewPull{Title: "Fix", Body: "b", Head: "bot/7", Base: "main"}
	if _, err := c.OpenPull(t.Context(), repo, n); !forge.IsKind(err, forge.KindInvalid) {
		t.Errorf("none is open: %v", err)
	}
	if _, err := c.OpenPull(t.Context(), repo, n); !forge.IsKind(err, forge.KindConflict) {
		t.Errorf("one is open: %v", err)
	}
}

func TestLinkedPulls(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/issues/7/timeline", 200, `[
		{"event":"labeled"},
		{"event":"cross-referenced","source":{"type":"issue","issue":{"number":20,"pull_request":{"url":"x"},"repository":{"full_name":"acme/widgets"}}}},
		{"event":"cross-referenced","source":{"type":"issue","issue":{"number":21,"repository":{"full_name":"acme/widgets"}}}},
		{"event":"cross-referenced","source":{"type":"issue","issue":{"number":22,"pull_request":{"url":"x"},"repository":{"full_name":"evil/fork"}}}},
		{"event":"cross-referenced","source":null},
		{"event":"connected","source":{"issue":{"number":23,"pull_request":{"url":"x"},"repository_url":"https://h/repos/acme/widgets"}}}]`)
	f.json("GET repos/acme/widgets/pulls", 200, `[
		{"number":30,"body":"Fixes #7","head":{"ref":"a"}},
		{"number":31,"body":"fixes #70, see #7"},
		{"number":32,"body":"This resolves: ACME/widgets#7."},
		{"number":33,"body":"closes other/repo#7"},
		{"number":34,"body":"close https://h.example/acme/widgets/issues/7"},
		{"number":20,"body":null,"state":"open"}]`)
	f.json("GET repos/acme/widgets/pulls/23", 404, `{}`)
	got, err := f.client().LinkedPulls(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, p := range got {
		numbers = append(numbers, p.Ref.Number)
	}
	if diff := cmp.Diff([]int{34, 32, 30, 20}, numbers); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

func TestPullFilesWithoutPatches(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/pulls/7/files", 200, `[{"filename":"a.bin","status":"added","patch":null},{"filename":"b","previous_filename":"c","status":"renamed","additions":1,"deletions":2,"patch":"@@"}]`)
	got, err := f.client().PullFiles(t.Context(), ref)
	want := []gh.PullFile{{Path: "a.bin", Status: "added"}, {Path: "b", Previous: "c", Status: "renamed", Additions: 1, Deletions: 2, Patch: "@@"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReviews(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("POST repos/acme/widgets/pulls/7/reviews", each(
		reply(422, `{"message":"Unprocessable Entity","errors":["Can not approve your own pull request"]}`),
		reply(200, `{"id":5,"user":{"id":1,"login":"robot"},"state":"COMMENTED","body":"b","commit_id":"sha"}`)))
	f.json("GET repos/acme/widgets/pulls/7/reviews", 200, `[{"id":5,"user":null,"state":"APPROVED","body":null,"commit_id":null}]`)
	c := f.client()
	_, err := c.AddReview(t.Context(), ref, forge.NewReview{SHA: "sha", Event: "APPROVE", Body: "b"})
	if !forge.IsKind(err, forge.KindInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := c.AddReview(t.Context(), ref, forge.NewReview{SHA: "sha", Event: "COMMENT", Body: "b", Comments: []forge.LineComment{{Path: "a.go", Line: 3, Body: "hm"}}}); err != nil {
		t.Error(err)
	}
	if got, err := c.Reviews(t.Context(), ref); err != nil || len(got) != 1 || got[0].Author.Login != "ghost" || got[0].State != "APPROVED" {
		t.Errorf("got %+v, %v", got, err)
	}
	want := []string{
		`POST repos/acme/widgets/pulls/7/reviews {"commit_id":"sha","event":"APPROVE","body":"b"}`,
		`POST repos/acme/widgets/pulls/7/reviews {"commit_id":"sha","event":"COMMENT","body":"b","comments":[{"path":"a.go","line":3,"side":"RIGHT","body":"hm"}]}`,
		`GET repos/acme/widgets/pulls/7/reviews?per_page=100`,
	}
	if diff := cmp.Diff(want, f.lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestChecksMergeRunsAndStatuses(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.json("GET repos/acme/widgets/commits/abc/check-runs?filter=latest&per_page=100", 200, `{"total_count":2,"check_runs":[
		{"name":"build","status":"completed","conclusion":"failure","app":null},
		{"name":"pipelinebot/review","status":"in_progress","conclusion":null,"app":{"id":1}}]}`)
	f.json("GET repos/acme/widgets/commits/abc/status", 200, `{"state":"pending","statuses":[
		{"context":"ci/a","state":"success"},{"context":"ci/b","state":"pending"},{"context":"ci/c","state":"error"}]}`)
	got, err := f.client().Checks(t.Context(), repo, "abc")
	want := []forge.Check{
		{Name: "build", Done: true, Conclusion: "failure"},
		{Name: "pipelinebot/review", Own: true},
		{Name: "ci/a", Done: true, Conclusion: "success"},
		{Name: "ci/b"},
		{Name: "ci/c", Done: true, Conclusion: "failure"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	f.json("GET repos/acme/widgets/commits/abc/check-runs", 200, `{}`)
	f.json("GET repos/acme/widgets/commits/abc/check-runs?filter=latest&per_page=100", 200, `{}`)
	if got, err := f.client().Checks(t.Context(), repo, "abc"); !forge.IsKind(err, forge.KindTransient) {
		t.Errorf("no list is not an empty list: %+v, %v", got, err)
	}
}

func TestATokenWritesNoChecksAndDiscoversNothing(t *testing.T) {
	t.Parallel()
	c := newFake(t).client()
	err := c.PutCheck(t.Context(), repo, gh.CheckRun{Name: gh.OwnChecks + "review", SHA: "abc"})
	var e *forge.Error
	if !errors.As(err, &e) || e.Kind != forge.KindDenied || e.Needs != "checks=write" {
		t.Errorf("got %v", err)
	}
	if _, err := c.Repositories(t.Context()); !forge.IsKind(err, forge.KindInvalid) {
		t.Errorf("got %v", err)
	}
	if v, err := c.GitToken(t.Context(), repo); err != nil || v.Reveal() != token {
		t.Errorf("got %v", err)
	}
}
