package mockworld_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is a served world with one repository acme/shop.
type site struct {
	*mockworld.World
	t     *testing.T
	base  string
	clock *clock.Fake
	http  *http.Client
}

func newSite(t *testing.T, change func(*mockworld.Options)) *site {
	t.Helper()
	fake := clock.NewFake(epoch)
	o := mockworld.Options{Clock: fake, Dir: t.TempDir(), KeepBodies: true}
	if change != nil {
		change(&o)
	}
	w, err := mockworld.New(o)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()); exchanges(t, w) })
	base, _, err := w.Serve(t.Context(), "127.0.0.1:0")
	must(t, err)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	s := &site{World: w, t: t, base: base, clock: fake, http: &http.Client{Transport: tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	must(t, w.AddUser("acme", mockworld.Organization))
	must(t, w.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "shop",
		Files:  map[string]string{"README.md": "# Shop\n", "shop.go": "package shop\n\nfunc Add(a, b int) int { return a - b }\n"},
		Labels: []mockworld.LabelSpec{{Name: "bug", Color: "d73a4a"}},
		Roles:  map[string]mockworld.Role{"ann": mockworld.RoleMaintain, "bob": mockworld.RoleTriage, "rita": mockworld.RoleRead, "dev-bot": mockworld.RoleWrite}}))
	must(t, w.AddToken(mockworld.TokenSpec{Token: "tok-bot", Login: "dev-bot", Permissions: map[string]string{
		"issues": "write", "pull_requests": "write", "contents": "write", "statuses": "write", "metadata": "read"}, Repos: []string{"acme/shop"}}))
	must(t, w.AddToken(mockworld.TokenSpec{Token: "tok-ann", Login: "ann"}))
	must(t, w.AddToken(mockworld.TokenSpec{Token: "tok-rita", Login: "rita"}))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer is a response with its decoded body.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   any
}

func (a answer) obj() map[string]any { m, _ := a.body.(map[string]any); return m }
func (a answer) list() []any         { l, _ := a.body.([]any); return l }

// do sends a request; path is below the API, or a whole address.
func (s *site) do(method, path, token string, body any, headers ...string) answer {
	s.t.Helper()
	var rd io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		must(s.t, err)
		rd = bytes.NewReader(b)
	}
	if strings.HasPrefix(path, "/") {
		path = s.base + "/api/v3" + path
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, path, rd)
	must(s.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for k := 0; k+1 < len(headers); k += 2 {
		req.Header.Set(headers[k], headers[k+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answer{raw: []byte(err.Error())}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(s.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && len(raw) > 0 {
		must(s.t, json.Unmarshal(raw, &a.body))
	}
	return a
}

// exchanges appends what the world answered and sent to the file that
// MOCKWORLD_EXCHANGES names, one JSON object a line, for the check against
// GitHub's published descriptions in internal/conformance.
func exchanges(t *testing.T, w *mockworld.World) {
	t.Helper()
	file := os.Getenv("MOCKWORLD_EXCHANGES")
	if file == "" {
		return
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range w.Requests() {
		if !strings.HasPrefix(r.Path, "/git/") && r.Status != http.StatusNotImplemented { // 501 are tested for
			must(t, enc.Encode(r))
		}
	}
	for _, d := range w.Deliveries() {
		must(t, enc.Encode(d))
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = f.Write(lines.Bytes())
	must(t, err)
	must(t, f.Close())
}

// want sends a request and checks the status.
func (s *site) want(status int, method, path, token string, body any, headers ...string) answer {
	s.t.Helper()
	a := s.do(method, path, token, body, headers...)
	if a.status != status {
		s.t.Fatalf("%s %s: got %d, want %d: %s", method, path, a.status, status, a.raw)
	}
	return a
}

func (s *site) issue(title string) int {
	s.t.Helper()
	n, err := s.AddIssue(mockworld.IssueSpec{Repo: "acme/shop", Author: "rita", Title: title, Body: "It is broken."})
	must(s.t, err)
	return n
}

// git runs git in dir as a user would, with the world's name for a remote.
func (s *site) git(dir string, args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "HOME=" + s.t.TempDir(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *site) remote(token string) string {
	u := s.base + "/git/acme/shop.git"
	if token == "" {
		return u
	}
	return strings.Replace(u, "http://", "http://x-access-token:"+token+"@", 1)
}

func (s *site) clone(token string) string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "shop")
	out, err := s.git(s.t.TempDir(), "clone", "-q", s.remote(token), dir)
	if err != nil {
		s.t.Fatalf("clone: %v: %s", err, out)
	}
	return dir
}

func (s *site) write(dir, path, content string) {
	s.t.Helper()
	must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
	must(s.t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600))
}

func (s *site) commitAll(dir, msg string) {
	s.t.Helper()
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", msg}} {
		if out, err := s.git(dir, args...); err != nil {
			s.t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

func (s *site) snap() mockworld.RepoState {
	s.t.Helper()
	snap, err := s.Snapshot()
	must(s.t, err)
	return snap.Repos["acme/shop"]
}

func (s *site) noViolations() {
	s.t.Helper()
	if v := s.Violations(); len(v) > 0 {
		s.t.Errorf("violations: %q", v)
	}
}

func TestPullRequestEndToEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	n := s.issue("Add subtracts")
	dir := s.clone("")
	if out, err := s.git(dir, "checkout", "-q", "-b", "fix/add"); err != nil {
		t.Fatal(out)
	}
	s.write(dir, "shop.go", "package shop\n\nfunc Add(a, b int) int { return a + b }\n")
	s.commitAll(dir, "Add adds")
	if out, err := s.git(dir, "push", "-q", s.remote("tok-bot"), "fix/add"); err != nil {
		t.Fatalf("push: %v: %s", err, out)
	}
	pr := s.want(201, "POST", "/repos/acme/shop/pulls", "tok-bot", map[string]any{"title": "Add adds", "head": "fix/add", "base": "main", "body": "Fixes #1"})
	if got := pr.obj()["number"]; got != 2.0 {
		t.Fatalf("number: got %v, want 2", got)
	}
	dup := s.want(422, "POST", "/repos/acme/shop/pulls", "tok-bot", map[string]any{"title": "Again", "head": "acme:fix/add", "base": "main"})
	if !strings.Contains(string(dup.raw), "A pull request already exists for acme:fix/add.") {
		t.Errorf("duplicate: %s", dup.raw)
	}
	if got := s.want(200, "GET", "/repos/acme/shop/pulls/2", "tok-bot", nil).obj(); got["mergeable"] != nil {
		t.Errorf("mergeable at first: got %v, want null", got["mergeable"])
	}
	got := s.want(200, "GET", "/repos/acme/shop/pulls/2", "tok-bot", nil).obj()
	if got["mergeable"] != true || got["additions"] != 1.0 || got["changed_files"] != 1.0 {
		t.Errorf("pull: mergeable %v, additions %v, files %v", got["mergeable"], got["additions"], got["changed_files"])
	}
	diff := s.want(200, "GET", "/repos/acme/shop/pulls/2", "tok-bot", nil, "Accept", "application/vnd.github.diff")
	if !strings.Contains(string(diff.raw), "+func Add(a, b int) int { return a + b }") {
		t.Errorf("diff: %s", diff.raw)
	}
	// The author may comment only, and only on lines of the diff.
	review := func(event string, line int) map[string]any {
		return map[string]any{"event": event, "body": "ok", "comments": []any{map[string]any{"path": "shop.go", "line": line, "side": "RIGHT", "body": "here"}}}
	}
	s.want(422, "POST", "/repos/acme/shop/pulls/2/reviews", "tok-bot", review("APPROVE", 3))
	s.want(422, "POST", "/repos/acme/shop/pulls/2/reviews", "tok-bot", review("COMMENT", 40))
	s.want(200, "POST", "/repos/acme/shop/pulls/2/reviews", "tok-bot", review("COMMENT", 3))
	s.want(200, "POST", "/repos/acme/shop/pulls/2/reviews", "tok-ann", review("APPROVE", 3))
	_, err := s.MergePull("acme/shop", 2, "ann", "squash")
	must(t, err)
	st := s.snap()
	if st.Issues[0].State != "closed" || st.Issues[0].Number != n {
		t.Errorf("issue after the merge: %+v", st.Issues[0])
	}
	if p := st.Pulls[0]; !p.Merged || len(p.Reviews) != 2 || p.Files[0] != "shop.go" {
		t.Errorf("pull after the merge: %+v", p)
	}
	if b := st.Branches["main"]; b.Commits != 2 {
		t.Errorf("main has %d commits, want 2", b.Commits)
	}
	s.noViolations()
}
