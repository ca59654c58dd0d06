package gitws_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/gitws"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

const goodToken = "ghs_0123456789abcdefghij"

// server serves an origin over smart HTTP to those with the token.
type server struct {
	*httptest.Server
	status   atomic.Int32 // answers everything with it, when set
	redirect atomic.Value // string: where everything is redirected to
	seen     atomic.Int32 // requests with any credential
}

func serve(t *testing.T, o *origin) *server {
	t.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git was installed without its HTTP server")
	}
	o.gitIn(o.bare, "config", "http.receivepack", "true")
	h := &cgi.Handler{Path: backend, Root: "/git", Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(filepath.Dir(o.bare)), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "REMOTE_USER=bot",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
	}}
	s := &server{}
	s.redirect.Store("")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, token, ok := r.BasicAuth()
		if ok {
			s.seen.Add(1)
		}
		if to := s.redirect.Load().(string); to != "" {
			http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusMovedPermanently)
			return
		}
		if code := int(s.status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		if user != "x-access-token" || token != goodToken {
			w.Header().Set("WWW-Authenticate", "Basic realm=git")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	base := o.commit(map[string]string{"a": "1\n"})
	s := serve(t, o)
	url := s.URL + "/git/acme/widgets.git"
	dir := t.TempDir()
	asked := 0
	token := func(_ context.Context, cloneURL string) (secret.Value, error) {
		asked++
		if cloneURL != url {
			t.Errorf("asked for %s", cloneURL)
		}
		if asked == 1 {
			return secret.New("ghs_expired0123456789abc"), nil // replaced meanwhile
		}
		return secret.New(goodToken), nil
	}
	// A git in between records arguments, as a process list would show them.
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	argv := filepath.Join(t.TempDir(), "argv")
	wrapper := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\necho \"$@\" >> "+argv+"\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := gitws.New(gitws.Options{Dir: dir, Token: token, Git: wrapper})
	if err != nil {
		t.Fatal(err)
	}
	if sha, err := p.Resolve(t.Context(), url, "trunk"); err != nil || sha != base {
		t.Fatalf("resolve: %s, %v", sha, err)
	}
	w := open(t, p, workspace.Spec{CloneURL: url, Key: "k", Base: base})
	write(t, w.Dir(), map[string]string{"a": "2\n"})
	sha, err := w.Commit(t.Context(), meta())
	if err != nil {
		t.Fatal(err)
	}
	push := workspace.Push{SHA: sha, Ref: "refs/heads/bot/7"}
	for range 2 {
		if err := w.Push(t.Context(), push); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Push(t.Context(), workspace.Push{SHA: base, Ref: push.Ref}); !errors.Is(err, workspace.ErrConflict) {
		t.Errorf("conflict over HTTP: %v", err)
	}
	if asked < 5 {
		t.Errorf("the token was asked for %d times, want a fresh one for each contact", asked)
	}
	// It is nowhere on disk, and in no argument.
	for _, root := range []string{dir, filepath.Dir(argv)} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if b, _ := os.ReadFile(path); strings.Contains(string(b), goodToken) {
					t.Errorf("%s holds the token", path)
				}
			}
			return nil
		})
	}
	if b, _ := os.ReadFile(argv); !strings.Contains(string(b), "push") {
		t.Error("the arguments were not recorded")
	}
}

func TestRemoteErrors(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"a": "1\n"})
	s := serve(t, o)
	url := s.URL + "/git/acme/widgets.git"
	with := func(token string) *gitws.Provider {
		t.Helper()
		p, err := gitws.New(gitws.Options{Dir: t.TempDir(), Token: func(context.Context, string) (secret.Value, error) { return secret.New(token), nil }})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	retry := func(err error) string {
		var r *flows.Retry
		if errors.As(err, &r) {
			return r.Cause
		}
		return ""
	}
	for _, token := range []string{"", "ghs_wrong0123456789abcdef"} {
		_, err := with(token).Resolve(t.Context(), url, "")
		if !errors.Is(err, workspace.ErrDenied) || (token != "" && strings.Contains(err.Error(), token)) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	p := with(goodToken)
	if _, err := p.Resolve(t.Context(), s.URL+"/git/acme/absent.git", ""); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	for code, want := range map[int32]string{403: "", 404: "", 429: "rate-limited", 500: "transient", 503: "transient"} {
		s.status.Store(code)
		_, err := p.Resolve(t.Context(), url, "")
		if retry(err) != want || err == nil || (code == 403) != errors.Is(err, workspace.ErrDenied) || (code == 404) != errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("%d: %v", code, err)
		}
	}
	s.status.Store(0)
	if _, err := p.Resolve(t.Context(), "http://example.com/a/b.git", ""); err == nil || !strings.Contains(err.Error(), "use https") {
		t.Errorf("the token would go out unencrypted: %v", err)
	}
	down := serve(t, o)
	down.Close()
	if _, err := p.Resolve(t.Context(), down.URL+"/git/acme/widgets.git", ""); retry(err) != "transient" {
		t.Errorf("no server: %v", err)
	}
}

func TestTokenStaysWithItsHost(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"a": "1\n"})
	here, there := serve(t, o), serve(t, o)
	here.redirect.Store(strings.Replace(there.URL, "127.0.0.1", "localhost", 1))
	p, err := gitws.New(gitws.Options{Dir: t.TempDir(), Token: func(context.Context, string) (secret.Value, error) { return secret.New(goodToken), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resolve(t.Context(), here.URL+"/git/acme/widgets.git", ""); err == nil {
		t.Error("a redirect to another host was authenticated")
	}
	if n := there.seen.Load(); n != 0 {
		t.Errorf("the other host saw %d credentials", n)
	}
}
