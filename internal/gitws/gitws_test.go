package gitws_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/gitws"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// origin is a bare repository with a work clone beside it, in which tests make
// commits with plain git.
type origin struct {
	t          *testing.T
	bare, work string
	url        string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	root := t.TempDir()
	o := &origin{t: t, bare: filepath.Join(root, "acme", "widgets.git"), work: filepath.Join(root, "work")}
	o.url = "file://" + filepath.ToSlash(o.bare)
	o.gitIn(root, "init", "-q", "--bare", "-b", "trunk", o.bare)
	o.gitIn(root, "clone", "-q", o.bare, o.work)
	o.gitIn(o.work, "checkout", "-q", "-b", "trunk")
	return o
}

func (o *origin) gitIn(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, commits all and pushes; it returns the SHA.
func (o *origin) commit(files map[string]string) string {
	o.t.Helper()
	write(o.t, o.work, files)
	o.gitIn(o.work, "add", "-A", ".")
	o.gitIn(o.work, "commit", "-q", "--allow-empty", "-m", "change")
	o.gitIn(o.work, "push", "-q", "origin", "HEAD:trunk")
	return o.gitIn(o.work, "rev-parse", "HEAD")
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func provider(t *testing.T) *gitws.Provider {
	t.Helper()
	p, err := gitws.New(gitws.Options{Dir: t.TempDir(), AllowFile: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, p *gitws.Provider, s workspace.Spec) workspace.Workspace {
	t.Helper()
	w, err := p.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func diff(t *testing.T, w workspace.Workspace) workspace.Diff {
	t.Helper()
	d, err := w.Diff(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func meta() workspace.Commit {
	return workspace.Commit{Message: "Fix the widget", Name: "bot", Email: "bot@example.com", When: time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC)}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	if _, err := p.Resolve(t.Context(), o.url, ""); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("empty repository: %v", err)
	}
	sha := o.commit(map[string]string{"a": "1\n"})
	o.gitIn(o.work, "push", "-q", "origin", "HEAD:refs/heads/deep/trunk2")
	for branch, want := range map[string]string{"": sha, "trunk": sha, "deep/trunk2": sha} {
		if got, err := p.Resolve(t.Context(), o.url, branch); err != nil || got != want {
			t.Errorf("%q: %s, %v", branch, got, err)
		}
	}
	for _, branch := range []string{"absent", "trunk2", "tr*", "../x", "-x y"} {
		if _, err := p.Resolve(t.Context(), o.url, branch); !errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("%q: %v", branch, err)
		}
	}
	for _, url := range []string{"", "ext::sh -c x", "ssh://git@host/a/b", "https://user:pw@host/a/b.git", "file://host/x"} {
		if _, err := p.Resolve(t.Context(), url, ""); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	long := strings.Repeat("a line that stays\n", 20)
	if err := os.Symlink("a", filepath.Join(o.work, "link")); err != nil {
		t.Fatal(err)
	}
	base := o.commit(map[string]string{
		"a": "one\ntwo\n", "gone": "to be deleted\n", "from": long, "run.sh": "#!/bin/sh\n", "pic": "\x00\x01", ".gitignore": "*.tmp\n", "bye.bin": "\x00",
	})
	w := open(t, p, workspace.Spec{CloneURL: o.url, Key: "run-1", Base: base})
	if d := diff(t, w); len(d.Files) != 0 || len(d.Patch) != 0 || d.Tree != o.gitIn(o.work, "rev-parse", "HEAD^{tree}") {
		t.Fatalf("an untouched worktree differs: %+v", d)
	}
	dir := w.Dir()
	odd := "né w\t\"q\"\nline"
	write(t, dir, map[string]string{"a": "one\n2\nthree\n", odd: "x\n", "pic": "\x00\x02", "skip.tmp": "x", "new.bin": "\x00\x00"})
	for _, err := range []error{
		os.Remove(filepath.Join(dir, "gone")), os.Remove(filepath.Join(dir, "bye.bin")),
		os.Rename(filepath.Join(dir, "from"), filepath.Join(dir, "to")),
		os.Chmod(filepath.Join(dir, "run.sh"), 0o755),
		os.Remove(filepath.Join(dir, "link")), os.Symlink("gone", filepath.Join(dir, "link2")),
		os.WriteFile(filepath.Join(dir, "link"), []byte("now a file\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := diff(t, w)
	want := []workspace.File{
		{Path: "a", Status: "M", Added: 2, Deleted: 1, Mode: "100644"},
		{Path: "bye.bin", Status: "D", Added: -1, Deleted: -1, Mode: "000000"},
		{Path: "gone", Status: "D", Deleted: 1, Mode: "000000"},
		{Path: "link", Status: "T", Added: 1, Deleted: 1, Mode: "100644"},
		{Path: "link2", Status: "A", Added: 1, Mode: "120000"},
		{Path: "new.bin", Status: "A", Added: -1, Deleted: -1, Mode: "100644"},
		{Path: odd, Status: "A", Added: 1, Mode: "100644"},
		{Path: "pic", Status: "M", Added: -1, Deleted: -1, Mode: "100644"},
		{Path: "run.sh", Status: "M", Mode: "100755"},
		{Path: "to", OldPath: "from", Status: "R", Mode: "100644"},
	}
	if x := cmp.Diff(want, d.Files); x != "" {
		t.Errorf("files (-want +got):\n%s", x)
	}
	if again := diff(t, w); again.Tree != d.Tree || string(again.Patch) != string(d.Patch) {
		t.Error("a second diff differs")
	}

	// The patch makes the same content elsewhere.
	w2 := open(t, p, workspace.Spec{CloneURL: o.url, Key: "run-2", Base: base})
	if err := w2.Apply(t.Context(), d.Patch); err != nil {
		t.Fatal(err)
	}
	if got := diff(t, w2); got.Tree != d.Tree {
		t.Errorf("applied tree %s, want %s", got.Tree, d.Tree)
	}
	if err := w2.Apply(t.Context(), d.Patch); !errors.Is(err, workspace.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
	if err := w2.Apply(t.Context(), []byte("rubbish")); err == nil || errors.Is(err, workspace.ErrConflict) {
		t.Errorf("rubbish: %v", err)
	}
	if err := w2.Apply(t.Context(), nil); err != nil {
		t.Errorf("an empty patch: %v", err)
	}
}

func TestApplyStaysInside(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	base := o.commit(map[string]string{"a": "1\n"})
	w := open(t, p, workspace.Spec{CloneURL: o.url, Key: "k", Base: base})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.Dir(), "door")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../evil", ".git/hooks/evil", "door/evil", "/etc/evil"} {
		patch := "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n"
		if err := w.Apply(t.Context(), []byte(patch)); err == nil && name != "/etc/evil" {
			t.Errorf("%s was applied", name)
		}
	}
	_ = filepath.WalkDir(filepath.Dir(filepath.Dir(w.Dir())), func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "evil" && !strings.HasPrefix(path, w.Dir()+string(filepath.Separator)+"etc") {
			t.Errorf("%s was written", path)
		}
		return nil
	})
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Error("something went through the link")
	}
}

func TestCommitRepeats(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	base := o.commit(map[string]string{"a": "1\n"})
	var shas []string
	for range 2 {
		w := open(t, provider(t), workspace.Spec{CloneURL: o.url, Key: "k", Base: base})
		if _, err := w.Commit(t.Context(), meta()); !errors.Is(err, workspace.ErrEmpty) {
			t.Errorf("nothing changed: %v", err)
		}
		write(t, w.Dir(), map[string]string{"b/c": "new\n"})
		for range 2 {
			c := meta()
			c.SignOff = true
			sha, err := w.Commit(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			shas = append(shas, sha)
		}
		if err := w.Push(t.Context(), workspace.Push{SHA: shas[0], Ref: "refs/heads/bot/1"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range shas[1:] {
		if s != shas[0] {
			t.Errorf("SHAs differ: %v", shas)
		}
	}
	seconds := strconv.FormatInt(meta().When.Unix(), 10)
	got := o.gitIn(o.bare, "log", "-1", "--format=%an|%ae|%cn|%at|%ct|%P|%B", shas[0])
	want := "bot|bot@example.com|bot|" + seconds + "|" + seconds + "|" + base + "|Fix the widget\n\nSigned-off-by: bot <bot@example.com>"
	if x := cmp.Diff(want, got); x != "" {
		t.Errorf("commit (-want +got):\n%s", x)
	}
	for name, change := range map[string]func(*workspace.Commit){
		"no name":       func(c *workspace.Commit) { c.Name = "" },
		"no message":    func(c *workspace.Commit) { c.Message = " \n" },
		"no date":       func(c *workspace.Commit) { c.When = time.Time{} },
		"forged header": func(c *workspace.Commit) { c.Name = "x>\nparent y" },
	} {
		c := meta()
		change(&c)
		w := open(t, provider(t), workspace.Spec{CloneURL: o.url, Key: "k", Base: base})
		write(t, w.Dir(), map[string]string{"a": "2\n"})
		if _, err := w.Commit(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	base := o.commit(map[string]string{"a": "1\n"})
	ref := "refs/heads/pipelinebot/7"
	w := open(t, p, workspace.Spec{CloneURL: o.url, Key: "k", Base: base})
	commit := func(text string) string {
		t.Helper()
		write(t, w.Dir(), map[string]string{"a": text})
		sha, err := w.Commit(t.Context(), meta())
		if err != nil {
			t.Fatal(err)
		}
		return sha
	}
	one, two := commit("2\n"), commit("3\n")
	steps := []struct {
		what     string
		push     workspace.Push
		conflict bool
	}{
		{"a new branch", workspace.Push{SHA: one, Ref: ref}, false},
		{"the same again", workspace.Push{SHA: one, Ref: ref}, false},
		{"it must not exist", workspace.Push{SHA: two, Ref: ref}, true},
		{"it must be another", workspace.Push{SHA: two, Ref: ref, Expect: base}, true},
		{"not a fast-forward, as expected", workspace.Push{SHA: two, Ref: ref, Expect: one}, false},
		{"there already, whatever is expected", workspace.Push{SHA: two, Ref: ref, Expect: base}, false},
		{"gone, though expected", workspace.Push{SHA: two, Ref: ref + "x", Expect: base}, true},
	}
	for _, s := range steps {
		err := w.Push(t.Context(), s.push)
		if s.conflict != errors.Is(err, workspace.ErrConflict) || (!s.conflict && err != nil) {
			t.Errorf("%s: %v", s.what, err)
		}
	}
	if got := o.gitIn(o.bare, "rev-parse", ref); got != two {
		t.Errorf("the branch is at %s, want %s", got, two)
	}
	for _, bad := range []workspace.Push{
		{SHA: "HEAD", Ref: ref}, {SHA: one, Ref: "trunk"}, {SHA: one, Ref: "refs/heads/a:refs/heads/trunk"}, {SHA: one, Ref: "refs/heads/*"},
		{SHA: one, Ref: "refs/tags/v1"}, {SHA: "+" + one, Ref: ref},
	} {
		if err := w.Push(t.Context(), bad); err == nil {
			t.Errorf("%+v was pushed", bad)
		}
	}
	hook := filepath.Join(o.bare, "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho no >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.Push(t.Context(), workspace.Push{SHA: one, Ref: ref, Expect: two}); !errors.Is(err, workspace.ErrDenied) {
		t.Errorf("refused by the server: %v", err)
	}
}

func TestOpenAgain(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	base := o.commit(map[string]string{"a": "1\n", ".gitignore": "cache/\n"})
	s := workspace.Spec{CloneURL: o.url, Key: "run/7 x", Base: base}
	w := open(t, p, s)
	write(t, w.Dir(), map[string]string{"a": "2\n", "untracked/x": "x", "cache/x": "x"})
	sha, err := w.Commit(t.Context(), meta())
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, p, s)
	if again.Dir() != w.Dir() || len(diff(t, again).Files) != 0 {
		t.Error("the worktree was not reset")
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), "cache", "x")); err != nil {
		t.Error("the ignored build cache is gone")
	}
	// A later round builds on the commit, and still differs from the base.
	s.Parent = sha
	round := open(t, p, s)
	if d := diff(t, round); len(d.Files) != 2 {
		t.Errorf("round two differs in %+v", d.Files)
	}
	if _, err := round.Commit(t.Context(), meta()); !errors.Is(err, workspace.ErrEmpty) {
		t.Errorf("nothing changed since the parent: %v", err)
	}
	// Whatever repository code did to the worktree, it opens.
	for name, harm := range map[string]func(dir string){
		"link gone":     func(dir string) { os.Remove(filepath.Join(dir, ".git")) },
		"link replaced": func(dir string) { write(t, dir, map[string]string{".git": "gitdir: /evil\n"}) },
		"link is folder": func(dir string) {
			os.Remove(filepath.Join(dir, ".git"))
			write(t, dir, map[string]string{".git/config": "[x"})
		},
		"folder gone": func(dir string) { os.RemoveAll(dir) },
		"read-only": func(dir string) {
			write(t, dir, map[string]string{"ro/x": "x"})
			os.Chmod(filepath.Join(dir, "ro"), 0o500)
		},
	} {
		harm(round.Dir())
		if d := diff(t, open(t, p, s)); len(d.Files) != 2 {
			t.Errorf("%s: %+v", name, d.Files)
		}
	}
	for range 2 {
		if err := p.Close(t.Context(), s.Key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(w.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the worktree is there after Close")
	}
	open(t, p, s) // and opens anew
}

func TestFetchesWhatIsMissing(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	one := o.commit(map[string]string{"a": "1\n"})
	open(t, p, workspace.Spec{CloneURL: o.url, Key: "1", Base: one})
	two := o.commit(map[string]string{"a": "2\n"})
	open(t, p, workspace.Spec{CloneURL: o.url, Key: "2", Base: two})
	if err := os.Rename(o.bare, o.bare+".away"); err != nil {
		t.Fatal(err)
	}
	open(t, p, workspace.Spec{CloneURL: o.url, Key: "3", Base: one, Parent: two}) // needs no remote
	_, err := p.Open(t.Context(), workspace.Spec{CloneURL: o.url, Key: "4", Base: strings.Repeat("1", 40)})
	if !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("no remote: %v", err)
	}
	if err := os.Rename(o.bare+".away", o.bare); err != nil {
		t.Fatal(err)
	}
	for _, sha := range []string{strings.Repeat("1", 40), "trunk", ""} {
		if _, err := p.Open(t.Context(), workspace.Spec{CloneURL: o.url, Key: "4", Base: sha}); err == nil {
			t.Errorf("%q was opened", sha)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	boom := errors.New("stopped")
	cancel(boom)
	if _, err := p.Resolve(ctx, o.url, ""); !errors.Is(err, boom) {
		t.Errorf("got %v, want the cause", err)
	}
}
