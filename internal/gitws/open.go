package gitws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Open implements workspace.Provider.
func (p *Provider) Open(ctx context.Context, s workspace.Spec) (workspace.Workspace, error) {
	r, err := p.remote(s.CloneURL)
	if err != nil {
		return nil, err
	}
	if s.Key == "" {
		return nil, errors.New("opening a worktree: the key is empty")
	}
	if s.Parent == "" {
		s.Parent = s.Base
	}
	unlock, err := p.lock(ctx, r.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.ensureMirror(ctx, r); err != nil {
		return nil, err
	}
	for _, sha := range []string{s.Base, s.Parent} {
		if err := p.ensureCommit(ctx, r, sha); err != nil {
			return nil, err
		}
	}
	w := p.worktree(r, s)
	if w.whole() {
		if err := w.reset(ctx); err == nil {
			return w, nil
		} else if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		} else {
			p.o.Log.WarnContext(ctx, "remaking a worktree that can't be reset", "key", s.Key, "error", err)
		}
	}
	if err := w.remove(ctx); err != nil {
		return nil, err
	}
	if err := w.make(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Close implements workspace.Provider.
func (p *Provider) Close(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	repos, err := os.ReadDir(filepath.Join(p.o.Dir, "work"))
	if err != nil {
		return fmt.Errorf("closing worktree %s: %w", key, err)
	}
	for _, repo := range repos {
		dir := filepath.Join(p.o.Dir, "work", repo.Name(), slug(key))
		mirror := filepath.Join(p.o.Dir, "mirrors", repo.Name()+".git")
		w := &worktree{p: p, dir: dir, admin: filepath.Join(mirror, "worktrees", slug(key)), r: remote{name: repo.Name(), mirror: mirror}}
		if !present(w.dir) && !present(w.admin) {
			continue
		}
		unlock, err := p.lock(ctx, repo.Name())
		if err != nil {
			return err
		}
		err = w.remove(ctx)
		unlock()
		if err != nil {
			return fmt.Errorf("closing worktree %s: %w", key, err)
		}
	}
	return nil
}

// worktree implements workspace.Workspace.
type worktree struct {
	p     *Provider
	r     remote
	s     workspace.Spec
	dir   string
	admin string // the mirror's folder for it, its GIT_DIR
}

func (p *Provider) worktree(r remote, s workspace.Spec) *worktree {
	name := slug(s.Key)
	return &worktree{
		p: p, r: r, s: s,
		dir:   filepath.Join(p.o.Dir, "work", r.name, name),
		admin: filepath.Join(r.mirror, "worktrees", name),
	}
}

// Dir implements workspace.Workspace.
func (w *worktree) Dir() string { return w.dir }

// in is a call on the worktree; in the mirror when it needs no files.
func (w *worktree) in(args ...string) call {
	return call{gitDir: w.admin, workTree: w.dir, dir: w.dir, args: args}
}

func (w *worktree) run(ctx context.Context, c call) ([]byte, error) {
	return w.p.git(ctx, localDeadline, c)
}

// whole reports that folder and registration are there and belong together.
func (w *worktree) whole() bool {
	fi, err := os.Lstat(w.dir)
	if err != nil || !fi.IsDir() {
		return false
	}
	back, err := os.ReadFile(filepath.Join(w.admin, "gitdir"))
	return err == nil && filepath.Clean(strings.TrimSpace(string(back))) == filepath.Join(w.dir, ".git")
}

// make registers and fills the worktree.
func (w *worktree) make(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(w.dir), 0o700); err != nil {
		return fmt.Errorf("making worktree %s: %w", w.s.Key, err)
	}
	add := call{gitDir: w.r.mirror, args: []string{"worktree", "add", "--quiet", "--force", "--detach", "--no-checkout", w.dir, w.s.Parent}}
	if _, err := w.run(ctx, add); err != nil {
		return fmt.Errorf("making worktree %s: %w", w.s.Key, err)
	}
	if !w.whole() {
		return fmt.Errorf("making worktree %s: git registered it elsewhere than %s", w.s.Key, w.admin)
	}
	return w.reset(ctx)
}

// reset brings tracked and untracked files to the parent; ignored ones stay,
// as a build cache.
func (w *worktree) reset(ctx context.Context) error {
	// Left by a git that was killed; nobody else works here.
	if err := os.Remove(filepath.Join(w.admin, "index.lock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resetting worktree %s: %w", w.s.Key, err)
	}
	if err := w.relink(); err != nil {
		return err
	}
	if err := w.flatten(ctx); err != nil {
		return err
	}
	for _, c := range []call{
		w.in("reset", "--quiet", "--hard", w.s.Parent),
		w.in("clean", "--quiet", "-ffd"),
	} {
		if _, err := w.run(ctx, c); err != nil {
			return fmt.Errorf("resetting worktree %s: %w", w.s.Key, err)
		}
	}
	return nil
}

// relink restores the file by which people and tools in the worktree find the
// repository. We don't: repository code may have changed it.
func (w *worktree) relink() error {
	link, want := filepath.Join(w.dir, ".git"), []byte("gitdir: "+filepath.ToSlash(w.admin)+"\n")
	if fi, err := os.Lstat(link); err == nil && fi.Mode().IsRegular() {
		if b, err := os.ReadFile(link); err == nil && bytes.Equal(b, want) {
			return nil
		}
	}
	if err := removeTree(link); err != nil {
		return fmt.Errorf("restoring the link of worktree %s: %w", w.s.Key, err)
	}
	if err := os.WriteFile(link, want, 0o600); err != nil {
		return fmt.Errorf("restoring the link of worktree %s: %w", w.s.Key, err)
	}
	return nil
}

// flatten removes repositories inside the worktree. Git would record them as
// submodules, and run their own filters to see whether they are clean.
func (w *worktree) flatten(ctx context.Context) error {
	const depth = 20 // of repositories in repositories
	for range depth {
		found := false
		staged, err := w.run(ctx, w.in("ls-files", "--stage", "-z"))
		if err != nil {
			return fmt.Errorf("listing worktree %s: %w", w.s.Key, err)
		}
		var inner []string
		for _, entry := range strings.Split(string(staged), "\x00") {
			if meta, name, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(meta, "160000 ") {
				inner = append(inner, name)
			}
		}
		others, err := w.run(ctx, w.in("ls-files", "--others", "-z"))
		if err != nil {
			return fmt.Errorf("listing worktree %s: %w", w.s.Key, err)
		}
		for _, name := range strings.Split(string(others), "\x00") {
			// Git does not look into other repositories and marks them so.
			if strings.HasSuffix(name, "/") {
				inner = append(inner, strings.TrimSuffix(name, "/"))
			}
		}
		for _, name := range inner {
			git := filepath.Join(w.dir, filepath.FromSlash(name), ".git")
			if !filepath.IsLocal(filepath.FromSlash(name)) || !present(git) || crossesLink(w.dir, name) {
				continue
			}
			found = true
			if err := removeTree(git); err != nil {
				return fmt.Errorf("removing the repository %s inside worktree %s: %w", name, w.s.Key, err)
			}
		}
		if !found {
			return nil
		}
	}
	return fmt.Errorf("worktree %s holds repositories nested more than %d deep", w.s.Key, depth)
}

// crossesLink reports that a symbolic link lies on the way to name.
func crossesLink(root, name string) bool {
	at := root
	for _, part := range strings.Split(name, "/") {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err != nil || fi.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// remove deletes folder and registration; missing ones are fine.
func (w *worktree) remove(ctx context.Context) error {
	for _, d := range []string{w.dir, w.admin} {
		if err := removeTree(d); err != nil {
			return fmt.Errorf("removing worktree %s: %w", filepath.Base(w.dir), err)
		}
	}
	if !present(w.r.mirror) {
		return nil
	}
	if _, err := w.run(ctx, call{gitDir: w.r.mirror, args: []string{"worktree", "prune"}}); err != nil {
		return fmt.Errorf("removing worktree %s: %w", filepath.Base(w.dir), err)
	}
	return nil
}

// removeTree removes even what repository code made read-only.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
