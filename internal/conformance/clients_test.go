//go:build !race

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// The clients below were made by others, for the real GitHub. Each lists,
// labels, comments, opens a pull request and reviews it.

const (
	repo   = "acme/shop"
	token  = "tok-ann"
	secret = "It's a Secret to Everybody"
	branch = "topic"
)

// world is a served world with an issue and a branch that waits for its pull
// request. What it answers and sends is checked against the description in
// the end, where that can be had.
func world(t *testing.T) (w *mockworld.World, base string) {
	t.Helper()
	w, err := mockworld.New(mockworld.Options{Dir: t.TempDir(), KeepBodies: true})
	must(t, err)
	base, _, err = w.Serve(t.Context(), "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	must(t, w.AddUser("acme", mockworld.Organization))
	must(t, w.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "shop", Files: map[string]string{"README.md": "# Shop\n"},
		Roles: map[string]mockworld.Role{"ann": mockworld.RoleMaintain, "rita": mockworld.RoleWrite}}))
	must(t, w.AddToken(mockworld.TokenSpec{Token: token, Login: "ann"}))
	for _, title := range []string{"One", "Two"} {
		_, err := w.AddIssue(mockworld.IssueSpec{Repo: repo, Author: "rita", Title: title})
		must(t, err)
	}
	_, err = w.PushCommit(repo, mockworld.CommitSpec{Actor: "ann", Branch: branch, Files: map[string]string{"new.txt": "1\n2\n"}})
	must(t, err)
	return w, base
}

// described holds all that happened against GitHub's description.
func described(t *testing.T, w *mockworld.World) {
	t.Helper()
	for _, v := range w.Violations() {
		t.Errorf("the world does not know %s", v)
	}
	dir, err := installed()
	if err != nil {
		t.Logf("not checked against the description: %v", err)
		return
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range w.Requests() {
		must(t, enc.Encode(r))
	}
	for _, d := range w.Deliveries() {
		must(t, enc.Encode(d))
	}
	file := filepath.Join(t.TempDir(), "seen.jsonl")
	must(t, os.WriteFile(file, lines.Bytes(), 0o600))
	for _, x := range check(t, dir, file).Violations {
		t.Errorf("%s: %s (%d times): %s", x.Where, x.What, x.Times, x.Sample)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// worked checks what a client has left behind.
func worked(t *testing.T, w *mockworld.World, name string) {
	t.Helper()
	snap, err := w.Snapshot()
	must(t, err)
	r := snap.Repos[repo]
	i := r.Issues[0]
	if diff := cmp.Diff([]string{"by " + strings.ToLower(name)}, i.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(i.Comments) != 1 || i.Comments[0].Body != "By "+name+"." || i.Comments[0].Author != "ann" {
		t.Errorf("comments: %+v", i.Comments)
	}
	if len(r.Pulls) != 1 || r.Pulls[0].Title != "By "+name || r.Pulls[0].Head != branch || len(r.Pulls[0].Reviews) == 0 || r.Pulls[0].Reviews[0].State != "COMMENTED" {
		t.Errorf("pull requests: %+v", r.Pulls)
	}
}

func TestOctokit(t *testing.T) {
	t.Parallel()
	dir := need(t)
	w, base := world(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "octokit.mjs", base+"/api/v3", token, secret, "acme", "shop", "1", branch)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := json.NewDecoder(out)
	var first struct{ Hook string }
	must(t, said.Decode(&first))
	_, err = w.AddHook(mockworld.HookSpec{Repo: repo, URL: first.Hook, Secret: secret})
	must(t, err)
	_, err = fmt.Fprintln(in, "go")
	must(t, err)
	var seen map[string]any
	err = said.Decode(&seen)
	if err == nil {
		err = w.Wait(ctx, func(s mockworld.Snapshot) bool { return s.PendingDeliveries == 0 })
	}
	must(t, in.Close())
	if err != nil {
		t.Error(err)
	}
	if err = cmd.Wait(); err != nil || seen == nil {
		t.Fatalf("octokit.mjs: %v, violations %q", err, w.Violations())
	}
	delivery, _ := seen["delivery"].(map[string]any)
	delete(delivery, "id")
	want := map[string]any{"login": "ann", "issues": []any{"Two", "One"}, "labels": []any{"by octokit"}, "comment": "By Octokit.", "pull": 3.0,
		"files": []any{"new.txt"}, "review": "COMMENTED", "line": 1.0, "diff": "diff --git", "found": 1.0, "missing": 404.0,
		"delivery": map[string]any{"label": "by octokit", "by": "ann"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("what Octokit saw (-want +got):\n%s", diff)
	}
	worked(t, w, "Octokit")
	for _, d := range w.Deliveries() {
		if d.Done && d.Status != 200 {
			t.Errorf("delivery of %s: %d %s", d.Event, d.Status, d.Response)
		}
	}
	described(t, w)
}

func TestGH(t *testing.T) {
	t.Parallel()
	gh, err := exec.LookPath("gh")
	if err != nil {
		missing(t, fmt.Errorf("gh is not here: %w", err))
	}
	w, base := world(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GH_HOST=" + strings.Split(strings.TrimPrefix(base, "http://"), "/")[0], "GH_ENTERPRISE_TOKEN=" + token,
		"GH_CONFIG_DIR=" + t.TempDir(), "GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1", "NO_PROXY=127.0.0.1"}
	api := func(path string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), gh, append([]string{"api", base + "/api/v3" + path}, args...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gh api %s: %v: %s", path, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	at := "/repos/" + repo
	if got := api(at+"/issues?per_page=1", "--paginate", "--jq", ".[].title"); got != "Two\nOne" {
		t.Errorf("issues: got %q", got)
	}
	if got := api(at+"/issues/1/labels", "-f", "labels[]=by gh", "--jq", ".[0].name"); got != "by gh" {
		t.Errorf("labels: got %q", got)
	}
	api(at+"/issues/1/comments", "-f", "body=By GH.")
	if got := api(at+"/pulls", "-f", "title=By GH", "-f", "head="+branch, "-f", "base=main", "-f", "body=Closes #1", "--jq", ".number"); got != "3" {
		t.Errorf("pull request: got %q", got)
	}
	if got := api(at+"/pulls/3/reviews", "-f", "event=COMMENT", "-f", "body=Read.", "--jq", ".state"); got != "COMMENTED" {
		t.Errorf("review: got %q", got)
	}
	if got := api("/", "-i"); !strings.Contains(got, "X-Oauth-Scopes: repo") {
		t.Errorf("root: got %q", got)
	}
	api(at, "--method", "HEAD")
	worked(t, w, "GH")
	described(t, w)
}

func TestGit(t *testing.T) {
	t.Parallel()
	w, base := world(t)
	remote := strings.Replace(base, "http://", "http://x-access-token:"+token+"@", 1) + "/git/" + repo + ".git"
	dir := filepath.Join(t.TempDir(), "shop")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "NO_PROXY=127.0.0.1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("clone", "-q", remote, dir)
	git("-C", dir, "checkout", "-q", "-b", "mine")
	must(t, os.WriteFile(filepath.Join(dir, "mine.txt"), []byte("mine\n"), 0o600))
	git("-C", dir, "add", "-A")
	git("-C", dir, "commit", "-q", "-m", "Mine")
	git("-C", dir, "push", "-q", "origin", "mine")
	git("-C", dir, "fetch", "-q", "origin", branch)
	snap, err := w.Snapshot()
	must(t, err)
	if got, want := snap.Repos[repo].Branches["mine"].SHA, git("-C", dir, "rev-parse", "HEAD"); got != want {
		t.Errorf("pushed: got %s, want %s", got, want)
	}
	described(t, w)
}
