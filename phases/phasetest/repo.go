package phasetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Origin is a remote repository with real git, and a workspace.Provider of
// worktrees of it, as simple as the contract allows: all share the remote's
// objects, so that nothing is cloned, fetched or sent. Processes are what the
// tests of the phases spend their time on.
type Origin struct {
	t   testing.TB
	dir string // the bare remote
	tmp string

	mu     sync.Mutex
	trees  map[string]*worktree      // open ones by key
	diffs  map[string]workspace.Diff // by base and content
	opened int
	// FailPush makes the next pushes fail, once an entry.
	FailPush []error
	// Closed are the keys of closed worktrees.
	Closed []string
}

var _ workspace.Provider = (*Origin)(nil)

// NewOrigin is a repository whose branch trunk holds the files.
func NewOrigin(t testing.TB, files map[string]string) *Origin {
	t.Helper()
	tmp := t.TempDir()
	o := &Origin{t: t, tmp: tmp, dir: filepath.Join(tmp, "origin.git"), trees: map[string]*worktree{}, diffs: map[string]workspace.Diff{}}
	Write(t, o.dir, "HEAD", "ref: refs/heads/trunk\n")
	Write(t, o.dir, "config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	for _, d := range []string{"refs/heads", "objects/info", "objects/pack"} {
		if err := os.MkdirAll(filepath.Join(o.dir, filepath.FromSlash(d)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o.record("trunk", "", "Begin", files)
	return o
}

// record puts a commit with files on a branch and returns its id.
func (o *Origin) record(branch, parent, message string, files map[string]string) string {
	o.t.Helper()
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter Seed <seed@example.com> 1767323045 +0000\ndata %d\n%s\n", branch, len(message)+1, message)
	if parent != "" {
		fmt.Fprintf(&in, "\nfrom %s\n", parent)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(files[name]), files[name])
	}
	if _, err := o.git(o.t.Context(), in.Bytes(), "fast-import", "--quiet"); err != nil {
		o.t.Fatal(err)
	}
	return o.Head(branch)
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
	sha, err := o.Resolve(o.t.Context(), "", branch)
	if err != nil {
		return ""
	}
	return sha
}

// Show is a file at a revision.
func (o *Origin) Show(rev, name string) string {
	return o.must("show", rev+":"+name)
}

// Rev is the commit of a revision.
func (o *Origin) Rev(rev string) string { return o.must("rev-parse", rev) }

// Tree is the id of a revision's content.
func (o *Origin) Tree(rev string) string {
	return strings.TrimSpace(o.must("rev-parse", rev+"^{tree}"))
}

// Branch makes a branch at the head of trunk.
func (o *Origin) Branch(name string) { o.must("update-ref", "refs/heads/"+name, "refs/heads/trunk") }

// PushAs puts a commit of somebody else on a branch and returns its id.
func (o *Origin) PushAs(branch, name, text string) string {
	o.t.Helper()
	return o.Rewrite(branch, name, text, "Interfere")
}

// Rewrite puts a commit on a branch, also one that changes nothing, and
// returns its id.
func (o *Origin) Rewrite(branch, name, text, message string) string {
	o.t.Helper()
	return o.record(branch, o.Head(branch), message, map[string]string{name: text})
}

// Resolve implements workspace.Provider. Nothing packs references here, so
// each is a file.
func (o *Origin) Resolve(_ context.Context, _, branch string) (string, error) {
	if branch == "" {
		branch = "trunk"
	}
	sha, err := os.ReadFile(filepath.Join(o.dir, "refs", "heads", filepath.FromSlash(branch)))
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w: %w", branch, workspace.ErrNotFound, err)
	}
	return strings.TrimSpace(string(sha)), nil
}

// Open implements workspace.Provider.
func (o *Origin) Open(ctx context.Context, s workspace.Spec) (workspace.Workspace, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := s.Parent
	if at == "" {
		at = s.Base
	}
	known := o.trees[s.Key]
	w := &worktree{o: o, base: s.Base, parent: at}
	if known != nil {
		w.dir = known.dir
	} else {
		o.opened++
		w.dir = filepath.Join(o.tmp, fmt.Sprintf("w%d", o.opened))
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			return nil, err
		}
	}
	if _, err := w.git(ctx, nil, "read-tree", "--reset", "-u", at); err != nil {
		return nil, err
	}
	if known != nil {
		if _, err := w.git(ctx, nil, "clean", "-q", "-fd"); err != nil {
			return nil, err
		}
	}
	o.trees[s.Key] = w
	return w, nil
}

// Close implements workspace.Provider.
func (o *Origin) Close(_ context.Context, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Closed = append(o.Closed, key)
	w := o.trees[key]
	delete(o.trees, key)
	if w == nil {
		return nil
	}
	return os.RemoveAll(w.dir)
}

func (o *Origin) must(argv ...string) string {
	o.t.Helper()
	out, err := o.git(o.t.Context(), nil, argv...)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// git runs git on the remote.
func (o *Origin) git(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	return git(ctx, o.dir, []string{"GIT_DIR=" + o.dir}, stdin, argv...)
}

func git(ctx context.Context, dir string, env []string, stdin []byte, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", argv...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(argv, " "), err, stderr.String())
	}
	return string(out), err
}
