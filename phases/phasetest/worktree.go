package phasetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// worktree is a folder with an index of its own; all else is the remote's.
type worktree struct {
	o                 *Origin
	dir, base, parent string
}

func (w *worktree) git(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	return w.gitAs(ctx, nil, stdin, argv...)
}

func (w *worktree) gitAs(ctx context.Context, env []string, stdin []byte, argv ...string) (string, error) {
	env = append([]string{"GIT_DIR=" + w.o.dir, "GIT_WORK_TREE=" + w.dir, "GIT_INDEX_FILE=" + w.dir + ".index"}, env...)
	return git(ctx, w.dir, env, stdin, argv...)
}

// tree writes the content, ignored files aside, as a tree.
func (w *worktree) tree(ctx context.Context) (string, error) {
	if _, err := w.git(ctx, nil, "add", "-A"); err != nil {
		return "", err
	}
	out, err := w.git(ctx, nil, "write-tree")
	return strings.TrimSpace(out), err
}

// Dir implements workspace.Workspace.
func (w *worktree) Dir() string { return w.dir }

// Diff implements workspace.Workspace. A phase looks at the same content many
// times; only the first costs processes.
func (w *worktree) Diff(ctx context.Context) (workspace.Diff, error) {
	content, err := w.content()
	if err != nil {
		return workspace.Diff{}, err
	}
	key := w.base + " " + content
	w.o.mu.Lock()
	d, known := w.o.diffs[key]
	w.o.mu.Unlock()
	if !known {
		if d, err = w.compare(ctx); err != nil {
			return d, err
		}
		w.o.mu.Lock()
		w.o.diffs[key] = d
		w.o.mu.Unlock()
	}
	d.Files, d.Patch = slices.Clone(d.Files), bytes.Clone(d.Patch)
	return d, nil
}

// content is a hash of every file's name, mode and content.
func (w *worktree) content() (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var b []byte
		if info.Mode().IsRegular() {
			b, err = os.ReadFile(path)
		} else if info.Mode()&fs.ModeSymlink != 0 {
			var to string
			to, err = os.Readlink(path)
			b = []byte(to)
		}
		fmt.Fprintf(h, "%q %s %d\n%s", strings.TrimPrefix(path, w.dir), info.Mode(), len(b), b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func (w *worktree) compare(ctx context.Context) (workspace.Diff, error) {
	tree, err := w.tree(ctx)
	if err != nil {
		return workspace.Diff{}, err
	}
	d := workspace.Diff{Tree: tree}
	// Lines of --raw, lines of --numstat, an empty line, the patch.
	out, err := w.git(ctx, nil, "diff-tree", "-r", "--no-renames", "--raw", "--numstat", "--patch", "--binary", "--full-index", w.base, tree)
	if err != nil {
		return workspace.Diff{}, err
	}
	head, patch, _ := strings.Cut(out, "\n\n")
	d.Patch = []byte(patch)
	counted := 0
	for line := range strings.SplitSeq(head, "\n") {
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
func (w *worktree) Apply(ctx context.Context, patch []byte) error {
	if _, err := w.git(ctx, patch, "apply", "--binary", "-"); err != nil {
		return errors.Join(workspace.ErrConflict, err)
	}
	return nil
}

// Commit implements workspace.Workspace.
func (w *worktree) Commit(ctx context.Context, c workspace.Commit) (string, error) {
	tree, err := w.tree(ctx)
	if err != nil {
		return "", err
	}
	before, err := w.git(ctx, nil, "rev-parse", w.parent+"^{tree}")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(before) == tree {
		return "", workspace.ErrEmpty
	}
	when := c.When.UTC().Format(time.RFC3339)
	out, err := w.gitAs(ctx, []string{
		"GIT_AUTHOR_NAME=" + c.Name, "GIT_AUTHOR_EMAIL=" + c.Email, "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + c.Name, "GIT_COMMITTER_EMAIL=" + c.Email, "GIT_COMMITTER_DATE=" + when,
	}, []byte(c.Message), "commit-tree", tree, "-p", w.parent)
	return strings.TrimSpace(out), err
}

// Push implements workspace.Workspace.
func (w *worktree) Push(ctx context.Context, p workspace.Push) error {
	if err := w.o.failPush(); err != nil {
		return err
	}
	now, err := w.o.Resolve(ctx, "", strings.TrimPrefix(p.Ref, "refs/heads/"))
	if err != nil {
		now = ""
	}
	switch now {
	case p.SHA:
		return nil
	case p.Expect:
		_, err := w.git(ctx, nil, "update-ref", p.Ref, p.SHA)
		return err
	}
	return workspace.ErrConflict
}

func (o *Origin) failPush() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.FailPush) > 0 {
		err, o.FailPush = o.FailPush[0], o.FailPush[1:]
	}
	return err
}
