package gitws

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// emptyTree is the id of a tree without entries. As attr.tree it keeps newer
// versions of git from taking attributes of the repository for the mirror.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// snapshot writes everything but ignored files as a tree, through an index of
// its own, so that the worktree's stays as it is.
func (w *worktree) snapshot(ctx context.Context) (tree string, err error) {
	if err := w.flatten(ctx); err != nil {
		return "", err
	}
	index := filepath.Join(w.admin, "snapshot-index")
	for _, f := range []string{index, index + ".lock"} {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
		}
	}
	defer func() { _ = os.Remove(index) }() // the next one begins by removing it
	// The worktree's own index knows what is tracked and saves reading files
	// that did not change.
	old, err := os.Stat(filepath.Join(w.admin, "index"))
	if err != nil {
		return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
	}
	now, err := os.ReadFile(filepath.Join(w.admin, "index"))
	if err != nil {
		return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
	}
	if err := os.WriteFile(index, now, 0o600); err != nil {
		return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
	}
	// By the age of the index git tells which entries are too young to be
	// trusted: a younger copy would hide a change made within a second.
	if err := os.Chtimes(index, old.ModTime(), old.ModTime()); err != nil {
		return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
	}
	for _, args := range [][]string{{"add", "--all", "."}, {"write-tree"}} {
		c := w.in(args...)
		c.env = []string{"GIT_INDEX_FILE=" + index}
		out, err := w.run(ctx, c)
		if err != nil {
			return "", fmt.Errorf("reading worktree %s: %w", w.s.Key, err)
		}
		tree = strings.TrimSpace(string(out))
	}
	return tree, nil
}

// Diff implements workspace.Workspace.
func (w *worktree) Diff(ctx context.Context) (workspace.Diff, error) {
	tree, err := w.snapshot(ctx)
	if err != nil {
		return workspace.Diff{}, err
	}
	// Trees are compared in the mirror, without files: attributes in the
	// worktree could otherwise declare text to be binary and hide its lines.
	compare := func(args ...string) ([]byte, error) {
		c := call{gitDir: w.r.mirror, config: [][2]string{{"attr.tree", emptyTree}}}
		c.args = append(append([]string{"diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color"}, args...), w.s.Base, tree)
		out, err := w.run(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("comparing worktree %s with its base: %w", w.s.Key, err)
		}
		return out, nil
	}
	raw, err := compare("--raw", "-z")
	if err != nil {
		return workspace.Diff{}, err
	}
	counts, err := compare("--numstat", "-z")
	if err != nil {
		return workspace.Diff{}, err
	}
	d := workspace.Diff{Tree: tree}
	if d.Patch, err = compare("--patch", "--binary", "--full-index"); err != nil {
		return workspace.Diff{}, err
	}
	if d.Files, err = parseFiles(raw, counts); err != nil {
		return workspace.Diff{}, fmt.Errorf("comparing worktree %s with its base: %w", w.s.Key, err)
	}
	return d, nil
}

// parseFiles joins `diff-tree --raw -z` and `--numstat -z` (git-diff-tree(1),
// "Raw output format"); names are bytes that may hold anything but zero.
func parseFiles(raw, counts []byte) ([]workspace.File, error) {
	files, err := parseRaw(fields(raw))
	if err != nil {
		return nil, err
	}
	if err := parseCounts(fields(counts), files); err != nil {
		return nil, err
	}
	list := make([]workspace.File, 0, len(files))
	for _, f := range files {
		list = append(list, *f)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list, nil
}

// fields are the parts of a -z output, each of which ends with a zero.
func fields(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// parseRaw is the list of changes by their new path.
func parseRaw(parts []string) (map[string]*workspace.File, error) {
	files := map[string]*workspace.File{}
	for i := 0; i < len(parts); {
		// :oldmode newmode oldid newid status
		head := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if !strings.HasPrefix(parts[i], ":") || len(head) != 5 || i+1 >= len(parts) {
			return nil, fmt.Errorf("git's list of changes is not understood at %q", parts[i])
		}
		f := &workspace.File{Mode: head[1], Status: head[4][:1], Path: parts[i+1]}
		i += 2
		if f.Status == "R" || f.Status == "C" {
			if i >= len(parts) {
				return nil, fmt.Errorf("git's list of changes ends within the rename of %q", f.Path)
			}
			f.OldPath, f.Path = f.Path, parts[i]
			i++
		}
		files[f.Path] = f
	}
	return files, nil
}

// parseCounts sets the lines of files; -1 stands for binary content.
func parseCounts(parts []string, files map[string]*workspace.File) error {
	for i := 0; i < len(parts); i++ {
		count := strings.SplitN(parts[i], "\t", 3)
		if len(count) != 3 {
			return fmt.Errorf("git's count of lines is not understood at %q", parts[i])
		}
		name := count[2]
		if name == "" { // a rename: old and new name follow
			if i+2 >= len(parts) {
				return errors.New("git's count of lines ends within a rename")
			}
			name = parts[i+2]
			i += 2
		}
		f := files[name]
		if f == nil {
			return fmt.Errorf("git counts lines of %q, which it does not list", name)
		}
		if count[0] == "-" {
			f.Added, f.Deleted = -1, -1
			continue
		}
		var err error
		if f.Added, err = strconv.Atoi(count[0]); err != nil {
			return fmt.Errorf("git's count of lines of %q: %w", name, err)
		}
		if f.Deleted, err = strconv.Atoi(count[1]); err != nil {
			return fmt.Errorf("git's count of lines of %q: %w", name, err)
		}
	}
	return nil
}

// Apply implements workspace.Workspace. Git refuses patches that leave the
// worktree, go through a symbolic link or enter .git, and applies all or
// nothing.
func (w *worktree) Apply(ctx context.Context, patch []byte) error {
	if len(patch) == 0 {
		return nil
	}
	c := w.in("apply", "--binary", "--whitespace=nowarn", "-")
	c.stdin = patch
	_, err := w.run(ctx, c)
	var f *failure
	if errors.As(err, &f) && f.code == 1 {
		return fmt.Errorf("applying a patch to worktree %s: %w: %w", w.s.Key, workspace.ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("applying a patch to worktree %s: %w", w.s.Key, err)
	}
	return nil
}
