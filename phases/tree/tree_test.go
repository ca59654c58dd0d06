package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/phasetest"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What was saved opens again as it was, in another process too, and what was
// not saved is gone.
func TestOpenSaveOpen(t *testing.T) {
	t.Parallel()
	origin := phasetest.NewOrigin(t, map[string]string{"a.txt": "a\n"})
	c := phasetest.Call(t, nil)
	trees := tree.New(origin, phasetest.NewForge())
	base := origin.Head("trunk")
	w, err := trees.Open(t.Context(), c, tree.At{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	phasetest.Write(t, w.Dir(), "a.txt", "changed\n")
	phasetest.Write(t, w.Dir(), "new/b.txt", "b\n")
	saved, err := tree.Save(t.Context(), c.Artifacts, w)
	if err != nil {
		t.Fatal(err)
	}
	if added, deleted := saved.Lines(); len(saved.Files) != 2 || added != 2 || deleted != 1 {
		t.Errorf("%+v", saved.Summary)
	}
	if _, ok := trees.Current(c.Run.ID); !ok {
		t.Error("the open worktree is not known")
	}
	phasetest.Write(t, w.Dir(), "a.txt", "lost\n")
	for _, trees := range []*tree.Trees{trees, tree.New(origin, phasetest.NewForge())} {
		w, err := trees.Open(t.Context(), c, tree.At{Base: base, Patch: saved.Patch})
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, w.Dir(), "a.txt") + read(t, w.Dir(), "new/b.txt"); got != "changed\nb\n" {
			t.Errorf("opened %q", got)
		}
	}
	d, err := tree.LoadDiff(t.Context(), c.Artifacts, saved.Patch, saved.Diff)
	if err != nil || d.Tree != saved.Tree || len(d.Patch) == 0 || len(d.Files) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if err := trees.Release(t.Context(), c.Run.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := trees.Current(c.Run.ID); ok {
		t.Error("a released worktree is still known")
	}
	if err := trees.Release(t.Context(), "unknown"); err != nil {
		t.Error(err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	origin := phasetest.NewOrigin(t, map[string]string{"a.txt": "a\n"})
	trees := tree.New(origin, phasetest.NewForge())
	c := phasetest.Call(t, nil)
	if sha, err := trees.Resolve(t.Context(), c, ""); err != nil || sha != origin.Head("trunk") {
		t.Errorf("%s, %v", sha, err)
	}
	_, err := trees.Resolve(t.Context(), c, "no-such-branch")
	var retry *flows.Retry
	if !errors.Is(err, workspace.ErrNotFound) || errors.As(err, &retry) {
		t.Errorf("%v", err)
	}
}

// Only what may pass is tried again, and not for ever.
func TestPassing(t *testing.T) {
	t.Parallel()
	c := phasetest.Call(t, nil)
	var retry *flows.Retry
	if err := tree.Passing(c, errors.New("connection reset")); !errors.As(err, &retry) {
		t.Error(err)
	}
	for _, err := range []error{nil, workspace.ErrDenied, workspace.ErrConflict, workspace.ErrEmpty, workspace.ErrNotFound} {
		if got := tree.Passing(c, err); errors.As(got, &retry) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	c.Attempt = 6
	if err := tree.Passing(c, errors.New("connection reset")); errors.As(err, &retry) {
		t.Error("tried for ever")
	}
}
