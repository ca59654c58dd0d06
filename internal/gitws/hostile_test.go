package gitws_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// TestNothingIsExecuted plants every kind of program that git runs by itself,
// first in the repository, then in the worktree as repository code could.
func TestNothingIsExecuted(t *testing.T) {
	t.Parallel()
	o, p := newOrigin(t), provider(t)
	trap := filepath.Join(t.TempDir(), "sprung")
	program := "touch " + trap
	base := o.commit(map[string]string{
		".gitattributes": "* filter=evil diff=evil merge=evil\n*.hid -diff\n", "a": "1\n", "b.hid": "1\n",
		".gitmodules": "[submodule \"s\"]\n\tpath = s\n\turl = https://example.invalid/s\n\tupdate = !" + program + "\n",
	})
	// A submodule in the index, empty in the worktree until code fills it.
	o.gitIn(o.work, "update-index", "--add", "--cacheinfo", "160000,"+base+",s")
	o.gitIn(o.work, "commit", "-q", "-m", "submodule")
	o.gitIn(o.work, "push", "-q", "origin", "HEAD:trunk")
	base = o.gitIn(o.work, "rev-parse", "HEAD")
	s := workspace.Spec{CloneURL: o.url, Key: "k", Base: base}
	w := open(t, p, s)

	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = \"" + program + "\"\n\thooksPath = hooks\n\tpager = " + program +
		"\n[filter \"evil\"]\n\tclean = \"" + program + "; cat\"\n\tsmudge = \"" + program + "; cat\"\n\trequired = true\n" +
		"[diff]\n\texternal = " + program + "\n[diff \"evil\"]\n\ttextconv = " + program + "\n\tcommand = " + program +
		"\n[merge \"evil\"]\n\tdriver = " + program + "\n[alias]\n\tadd = !" + program + "\n"
	hook := "#!/bin/sh\n" + program + "\n"
	repo := map[string]string{"HEAD": "ref: refs/heads/x\n", "config": config, "objects/.k": "", "refs/heads/.k": "",
		"hooks/post-checkout": hook, "hooks/pre-commit": hook, "hooks/fsmonitor-watchman": hook, "hooks/post-index-change": hook, "hooks/reference-transaction": hook}
	plant := func(dir string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		for name, text := range repo {
			write(t, dir, map[string]string{".git/" + name: text})
		}
		for name := range repo {
			_ = os.Chmod(filepath.Join(dir, ".git", name), 0o755)
		}
	}
	plant(w.Dir())                         // instead of the link
	plant(filepath.Join(w.Dir(), "s"))     // where the submodule was to be
	plant(filepath.Join(w.Dir(), "inner")) // a new one
	plant(filepath.Join(w.Dir(), "inner", "deep"))
	write(t, w.Dir(), map[string]string{"a": "2\n", "b.hid": "secret line\n", "s/file": "x\n", "inner/file": "x\n", "inner/deep/file": "x\n"})

	d := diff(t, w)
	if _, err := w.Commit(t.Context(), meta()); err != nil {
		t.Fatal(err)
	}
	names := map[string]workspace.File{}
	for _, f := range d.Files {
		names[f.Path] = f
	}
	if f := names["b.hid"]; f.Added != 1 {
		t.Errorf("attributes hid the lines of a text file: %+v", f)
	}
	for _, n := range []string{"a", "inner/file", "inner/deep/file"} {
		if names[n].Mode != "100644" {
			t.Errorf("%s is not in the diff as a file: %+v", n, d.Files)
		}
	}
	open(t, p, s)
	if err := p.Close(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Fatal("something in the worktree was executed")
	}
}
