package phasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Origin is a remote repository with real git, and a workspace.Provider of
// clones of it, as simple as the contract allows.
type Origin struct {
	t   testing.TB
	dir string // the .git of the remote
	tmp string

	mu   sync.Mutex
	dirs map[string]string // clones by key
	// FailPush makes the next pushes fail, once an entry.
	FailPush []error
	// Closed are the keys of closed worktrees.
	Closed []string
}

var _ workspace.Provider = (*Origin)(nil)

// NewOrigin is a repository whose branch trunk holds the files.
func NewOrigin(t testing.TB, files map[string]string) *Origin {
	t.Helper()
	o := &Origin{t: t, tmp: t.TempDir(), dirs: map[string]string{}}
	seed := filepath.Join(o.tmp, "origin")
	o.dir = filepath.Join(seed, ".git")
	o.must("", "init", "-q", "-b", "trunk", seed)
	for name, text := range files {
		Write(t, seed, name, text)
	}
	o.must(seed, "add", "-A")
	o.must(seed, "commit", "-q", "-m", "Begin")
	return o
}

// Write makes a file below dir.
func Write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// URL is its address for a real driver.
func (o *Origin) URL() string { return "file://" + filepath.ToSlash(o.dir) }

// Head is a branch's commit, "" when there is none.
func (o *Origin) Head(branch string) string {
	sha, err := o.Resolve(context.Background(), "", branch)
	if err != nil {
		return ""
	}
	return sha
}

// Show is a file at a revision.
func (o *Origin) Show(rev, name string) string {
	return o.must(o.dir, "show", rev+":"+name)
}

// Rev is the commit of a revision.
func (o *Origin) Rev(rev string) string { return o.must(o.dir, "rev-parse", rev) }

// Tree is the id of a revision's content.
func (o *Origin) Tree(rev string) string {
	return strings.TrimSpace(o.must(o.dir, "rev-parse", rev+"^{tree}"))
}

// Branch makes a branch at the head of trunk.
func (o *Origin) Branch(name string) { o.must(o.dir, "branch", name, "trunk") }

// PushAs puts a commit of somebody else on a branch and returns its id.
func (o *Origin) PushAs(branch, name, text string) string {
	return o.Rewrite(branch, name, text, "Interfere")
}

// Rewrite puts a commit on a branch, also one that changes nothing, and
// returns its id.
func (o *Origin) Rewrite(branch, name, text, message string) string {
	dir, err := os.MkdirTemp(o.tmp, "else")
	if err != nil {
		o.t.Fatal(err)
	}
	o.must("", "clone", "-q", "-b", branch, o.dir, dir)
	Write(o.t, dir, name, text)
	o.must(dir, "add", "-A")
	o.must(dir, "commit", "-q", "--allow-empty", "-m", message)
	o.must(dir, "push", "-q", "origin", branch)
	return o.Head(branch)
}

// Resolve implements workspace.Provider.
func (o *Origin) Resolve(_ context.Context, _, branch string) (string, error) {
	if branch == "" {
		branch = "trunk"
	}
	out, err := o.git(o.dir, nil, "rev-parse", "-q", "--verify", "refs/heads/"+branch)
	if err != nil {
		return "", workspace.ErrNotFound
	}
	return strings.TrimSpace(out), nil
}

// Open implements workspace.Provider.
func (o *Origin) Open(_ context.Context, s workspace.Spec) (workspace.Workspace, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := s.Parent
	if at == "" {
		at = s.Base
	}
	dir, ok := o.dirs[s.Key]
	if !ok {
		dir = filepath.Join(o.tmp, "w"+strconv.Itoa(len(o.dirs))+"-"+strconv.Itoa(len(o.Closed)))
		if _, err := o.git("", nil, "clone", "-q", "--no-checkout", o.dir, dir); err != nil {
			return nil, err
		}
		o.dirs[s.Key] = dir
	}
	if ok {
		if _, err := o.git(dir, nil, "fetch", "-q", "origin"); err != nil {
			return nil, err
		}
	}
	for _, argv := range [][]string{{"checkout", "-q", "-f", "--detach", at}, {"clean", "-q", "-fd"}} {
		if _, err := o.git(dir, nil, argv...); err != nil {
			return nil, err
		}
	}
	return &worktree{o: o, dir: dir, base: s.Base, parent: at}, nil
}

// Close implements workspace.Provider.
func (o *Origin) Close(_ context.Context, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Closed = append(o.Closed, key)
	dir := o.dirs[key]
	delete(o.dirs, key)
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

type worktree struct {
	o                 *Origin
	dir, base, parent string
}

// Dir implements workspace.Workspace.
func (w *worktree) Dir() string { return w.dir }

// Diff implements workspace.Workspace.
func (w *worktree) Diff(context.Context) (workspace.Diff, error) {
	var d workspace.Diff
	steps := func(argv ...string) string {
		out, err := w.o.git(w.dir, nil, argv...)
		if err != nil {
			w.o.t.Error(err)
		}
		return out
	}
	steps("add", "-A")
	d.Tree = strings.TrimSpace(steps("write-tree"))
	// Lines of --raw, lines of --numstat, an empty line, the patch.
	out := steps("diff", "--cached", "--no-renames", "--raw", "--numstat", "--patch", "--binary", "--full-index", w.base)
	head, patch, _ := strings.Cut(out, "\n\n")
	d.Patch = []byte(patch)
	counted := 0
	for _, line := range strings.Split(head, "\n") {
		switch f := strings.Fields(line); {
		case len(f) == 6 && strings.HasPrefix(line, ":"):
			d.Files = append(d.Files, workspace.File{Mode: f[1], Status: f[4], Path: f[5]})
		case len(f) == 3 && counted < len(d.Files):
			d.Files[counted].Added, d.Files[counted].Deleted = number(f[0]), number(f[1])
			counted++
		}
	}
	return d, nil
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// Apply implements workspace.Workspace.
func (w *worktree) Apply(_ context.Context, patch []byte) error {
	if _, err := w.o.git(w.dir, patch, "apply", "--binary", "-"); err != nil {
		return errors.Join(workspace.ErrConflict, err)
	}
	return nil
}

// Commit implements workspace.Workspace.
func (w *worktree) Commit(_ context.Context, c workspace.Commit) (string, error) {
	if _, err := w.o.git(w.dir, nil, "add", "-A"); err != nil {
		return "", err
	}
	if _, err := w.o.git(w.dir, nil, "diff", "--cached", "--quiet", w.parent); err == nil {
		return "", workspace.ErrEmpty
	}
	tree, err := w.o.git(w.dir, nil, "write-tree")
	if err != nil {
		return "", err
	}
	when := c.When.UTC().Format(time.RFC3339)
	cmd := gitCommand(w.dir, []byte(c.Message), "commit-tree", strings.TrimSpace(tree), "-p", w.parent)
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME="+c.Name, "GIT_AUTHOR_EMAIL="+c.Email, "GIT_AUTHOR_DATE="+when,
		"GIT_COMMITTER_NAME="+c.Name, "GIT_COMMITTER_EMAIL="+c.Email, "GIT_COMMITTER_DATE="+when)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// Push implements workspace.Workspace.
func (w *worktree) Push(ctx context.Context, p workspace.Push) error {
	w.o.mu.Lock()
	var due error
	if len(w.o.FailPush) > 0 {
		due, w.o.FailPush = w.o.FailPush[0], w.o.FailPush[1:]
	}
	w.o.mu.Unlock()
	if due != nil {
		return due
	}
	now, err := w.o.Resolve(ctx, "", strings.TrimPrefix(p.Ref, "refs/heads/"))
	if err != nil {
		now = ""
	}
	switch now {
	case p.SHA:
		return nil
	case p.Expect:
		_, err := w.o.git(w.dir, nil, "push", "-q", "-f", "origin", p.SHA+":"+p.Ref)
		return err
	}
	return workspace.ErrConflict
}

func (o *Origin) must(dir string, argv ...string) string {
	o.t.Helper()
	out, err := o.git(dir, nil, argv...)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

func (o *Origin) git(dir string, stdin []byte, argv ...string) (string, error) {
	cmd := gitCommand(dir, stdin, argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(argv, " "), err, stderr.String())
	}
	return string(out), err
}

func gitCommand(dir string, stdin []byte, argv ...string) *exec.Cmd {
	cmd := exec.Command("git", argv...) //nolint:gosec // the tests' own words
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Seed", "GIT_AUTHOR_EMAIL=seed@example.com", "GIT_COMMITTER_NAME=Seed", "GIT_COMMITTER_EMAIL=seed@example.com",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
	})
	return cmd
}
