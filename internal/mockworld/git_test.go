package mockworld_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestGitAccess(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "vault", Private: true, Files: map[string]string{"a": "b"}, Roles: map[string]mockworld.Role{"ann": mockworld.RoleAdmin}}))
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-read", Login: "dev-bot", Permissions: map[string]string{"contents": "read"}}))
	dir := s.clone("tok-read")
	s.write(dir, "x", "y")
	s.commitAll(dir, "x")
	push := func(remote string) string {
		out, err := s.git(dir, "push", remote, "HEAD:refs/heads/x")
		if err == nil {
			t.Errorf("push to %s went through", remote)
		}
		return out
	}
	for token, want := range map[string]string{"tok-read": "Permission to acme/shop.git denied to dev-bot", "tok-rita": "denied to rita", "": "Authentication failed|could not read", "nope": "Authentication failed|Invalid username or token"} {
		out, ok := push(s.remote(token)), false
		for w := range strings.SplitSeq(want, "|") {
			ok = ok || strings.Contains(out, w)
		}
		if !ok {
			t.Errorf("token %q: got %q, want %q", token, out, want)
		}
	}
	vault := strings.Replace(s.remote("tok-bot"), "shop.git", "vault.git", 1)
	if out, err := s.git(dir, "ls-remote", vault); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("private repository for others: %v: %s", err, out)
	}
	vault = strings.Replace(s.remote("tok-ann"), "shop.git", "vault.git", 1)
	if out, err := s.git(dir, "ls-remote", vault); err != nil || !strings.Contains(out, "refs/heads/main") {
		t.Errorf("private repository for members: %v: %s", err, out)
	}
	if n := len(s.snap().Branches); n != 1 {
		t.Errorf("branches: %d, want 1", n)
	}
}

func TestWorkflowFilesNeedThePermission(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	k := s.app()
	token := s.mint(k, nil)
	dir := s.clone(token)
	s.write(dir, ".github/workflows/ci.yml", "on: push\n")
	s.commitAll(dir, "Add CI")
	out, err := s.git(dir, "push", s.remote(token), "HEAD:refs/heads/ci")
	want := "! [remote rejected] HEAD -> ci (refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission)"
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("push: %v: got %s, want %q", err, out, want)
	}
	if s.snap().Branches["ci"].SHA != "" {
		t.Error("the branch was made all the same")
	}
	// Removing it again in a later commit does not help.
	if out, err := s.git(dir, "rm", "-q", ".github/workflows/ci.yml"); err != nil {
		t.Fatal(out)
	}
	s.commitAll(dir, "Remove CI")
	if _, err := s.git(dir, "push", s.remote(token), "HEAD:refs/heads/ci"); err == nil {
		t.Error("a history with a workflow file went through")
	}
	must(t, s.AddToken(mockworld.TokenSpec{Token: "tok-wf", Login: "ann", Scopes: []string{"repo", "workflow"}}))
	if out, err := s.git(dir, "push", s.remote("tok-wf"), "HEAD:refs/heads/ci"); err != nil {
		t.Errorf("push with the permission: %s", out)
	}
	// Commits that are there already may be pushed by anyone.
	if out, err := s.git(dir, "push", s.remote(token), "HEAD:refs/heads/copy"); err != nil {
		t.Errorf("push of known commits: %s", out)
	}
}

func TestPushMovesPullRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	dir := s.clone("tok-bot")
	var big strings.Builder
	for k := range 40_000 { // beyond git's post buffer, so that it sends chunks
		fmt.Fprintf(&big, "%x\n", sha256.Sum256([]byte{byte(k), byte(k >> 8)}))
	}
	s.write(dir, "big.txt", big.String())
	s.commitAll(dir, "Big")
	if out, err := s.git(dir, "push", "origin", "HEAD:refs/heads/work"); err != nil {
		t.Fatal(out)
	}
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "dev-bot", Title: "Big", Head: "work"})
	must(t, err)
	before := s.snap().Pulls[0]
	if before.Additions != 40_000 {
		t.Errorf("additions: %d", before.Additions)
	}
	files := s.want(200, "GET", "/repos/acme/shop/pulls/1/files", "tok-bot", nil).list()
	if _, has := files[0].(map[string]any)["patch"]; has {
		t.Error("a big file has a patch")
	}
	s.want(406, "GET", "/repos/acme/shop/pulls/1", "tok-bot", nil, "Accept", "application/vnd.github.v3.diff")
	s.write(dir, "big.txt", "small\n")
	s.commitAll(dir, "Small")
	if out, err := s.git(dir, "push", "origin", "HEAD:refs/heads/work"); err != nil {
		t.Fatal(out)
	}
	after := s.snap().Pulls[0]
	if after.HeadSHA == before.HeadSHA || after.Commits != 2 || after.Additions != 1 {
		t.Errorf("after the push: %+v", after)
	}
	if out, err := s.git(dir, "fetch", "-q", "origin", "refs/pull/1/head"); err != nil {
		t.Errorf("fetching refs/pull/1/head: %s", out)
	}
	for _, spec := range []string{"HEAD:refs/pull/1/head", ":refs/heads/main"} {
		if out, err := s.git(dir, "push", "origin", spec); err == nil {
			t.Errorf("push %s went through: %s", spec, out)
		}
	}
	if out, err := s.git(dir, "push", "origin", ":refs/heads/work"); err != nil {
		t.Fatal(out)
	}
	if p := s.snap().Pulls[pr-1]; p.State != "closed" || p.Merged {
		t.Errorf("pull request of a deleted branch: %+v", p)
	}
}

func TestGzipAndProtocolVersion2(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, err := z.Write([]byte("0014command=ls-refs\n0000"))
	must(t, err)
	must(t, z.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.remote("")+"/git-upload-pack", &body)
	must(t, err)
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("Git-Protocol", "version=2")
	resp, err := s.http.Do(req)
	must(t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	must(t, err)
	if want := s.snap().Branches["main"].SHA + " refs/heads/main"; resp.StatusCode != 200 || !strings.Contains(string(out), want) {
		t.Errorf("got %d %q, want %q", resp.StatusCode, out, want)
	}
}

func TestHistoriesAreTheSameOnEachRun(t *testing.T) {
	t.Parallel()
	a, b := newSite(t, nil), newSite(t, nil)
	for _, s := range []*site{a, b} {
		_, err := s.PushCommit("acme/shop", mockworld.CommitSpec{Branch: "t", Files: map[string]string{"a b": "1"}, Executable: map[string]string{"run.sh": "#!/bin/sh\n"},
			Symlinks: map[string]string{"link": "README.md"}, Submodules: map[string]string{"sub": strings.Repeat("a", 40)}, Delete: []string{"shop.go"}})
		must(t, err)
	}
	if x, y := a.snap().Branches["t"], b.snap().Branches["t"]; x != y || x.Commits != 2 {
		t.Errorf("heads: %+v and %+v", x, y)
	}
}

func TestConflictIsNotMergeable(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, c := range []mockworld.CommitSpec{{Branch: "b", Files: map[string]string{"README.md": "one\n"}}, {Files: map[string]string{"README.md": "two\n"}}} {
		_, err := s.PushCommit("acme/shop", c)
		must(t, err)
	}
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "ann", Title: "T", Head: "b"})
	must(t, err)
	s.want(200, "GET", "/repos/acme/shop/pulls/1", "tok-ann", nil)
	got := s.want(200, "GET", "/repos/acme/shop/pulls/1", "tok-ann", nil).obj()
	if got["mergeable"] != false || got["mergeable_state"] != "dirty" {
		t.Errorf("mergeable: %v, %v", got["mergeable"], got["mergeable_state"])
	}
	s.want(405, "PUT", "/repos/acme/shop/pulls/1/merge", "tok-ann", nil)
	if _, err := s.MergePull("acme/shop", pr, "ann", ""); err == nil {
		t.Error("a conflict was merged")
	}
}

func TestPullRequestFromFork(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "stranger", Title: "Gift", Head: "main", ForkFiles: map[string]string{"gift.txt": "x\n"}})
	must(t, err)
	got := s.want(200, "GET", "/repos/acme/shop/pulls?head=stranger:main", "tok-bot", nil).list()
	if len(got) != 1 {
		t.Fatalf("pulls of the fork: %d, want 1", len(got))
	}
	head := got[0].(map[string]any)["head"].(map[string]any)
	if head["label"] != "stranger:main" || head["repo"].(map[string]any)["fork"] != true {
		t.Errorf("head: %v", head)
	}
	st := s.snap()
	if len(st.Branches) != 1 || st.Pulls[0].Files[0] != "gift.txt" {
		t.Errorf("branches %v, pull %+v", st.Branches, st.Pulls[0])
	}
	_, err = s.MergePull("acme/shop", pr, "ann", "")
	must(t, err)
	if !s.snap().Pulls[0].Merged {
		t.Error("not merged")
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "vault", Private: true, Files: map[string]string{"a": "b"}}))
	s.issue("Adds wrongly")
	_, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "stranger", Title: "Gift", Head: "main", ForkFiles: map[string]string{"gift.txt": "present\n"}})
	must(t, err)
	for path, want := range map[string]string{"/": "acme/shop", "/acme/shop": "Adds wrongly", "/acme/shop/issues/1": "It is broken.", "/acme/shop/pull/2.diff": "+present"} {
		if a := s.want(200, "GET", s.base+path, "", nil); !strings.Contains(string(a.raw), want) || strings.Contains(string(a.raw), "vault") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	for _, path := range []string{"/acme/vault", "/acme/shop/issues/9", "/acme/shop/issues/1.diff", "/x"} {
		s.want(404, "GET", s.base+path, "", nil)
	}
}
