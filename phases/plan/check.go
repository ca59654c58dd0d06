package plan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// check holds the draft against the repository: what it names must exist or be
// marked new. It reads plan_ref and base_sha; it writes problems and
// problems_ref.
func (p phase) check() flows.Action {
	return flows.Action{
		Name: "plan.check", Version: "1",
		Reads: []string{"plan_ref", "base_sha"}, Writes: []string{"problems", "problems_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			d, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha")})
			if err != nil {
				return flows.Result{}, err
			}
			root, err := os.OpenRoot(w.Dir())
			if err != nil {
				return flows.Result{}, fmt.Errorf("looking into the worktree: %w", err)
			}
			defer func() { _ = root.Close() }()
			problems, err := problemsOf(d, p.Settings, func(name string) (exists, regular bool, err error) {
				info, err := root.Lstat(name)
				if errors.Is(err, fs.ErrNotExist) {
					return false, false, nil
				}
				if err != nil {
					return false, false, fmt.Errorf("looking at %q: %w", name, err)
				}
				return true, info.Mode().IsRegular(), nil
			})
			if err != nil {
				return flows.Result{}, err
			}
			return withProblems(ctx, c, problems, markdown.Count(len(problems), "problem")+" found by rule")
		}),
	}
}

// problemsOf is pure but for the look at the repository. The words go to the
// next draft and to people.
func problemsOf(d plandoc.Document, s Settings, look func(name string) (exists, regular bool, err error)) ([]string, error) {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(d.Steps) > s.MaxSteps {
		say("the plan has %s, at most %d are allowed: plan a smaller change", markdown.Count(len(d.Steps), "step"), s.MaxSteps)
	}
	if len(d.Acceptance) == 0 {
		say("the plan does not say what must hold when it is done")
	}
	changes := workspace.Diff{}
	for _, f := range d.Files {
		changes.Files = append(changes.Files, workspace.File{Path: f.Path, Status: "M", Mode: "100644"})
	}
	clean := map[string]bool{}
	for _, f := range d.Files {
		if clean[f.Path] {
			say("%q is named twice among the files", f.Path)
		}
		clean[f.Path] = true
	}
	for _, f := range gates.CheckDiff(changes, gates.Rules{
		MaxFiles: s.MaxFiles, MaxLines: gates.Unlimited, Protected: s.Protected, AllowWorkflows: s.AllowWorkflows,
	}) {
		clean[f.Path] = false
		say("%s", f.String())
	}
	for _, f := range d.Files {
		if !clean[f.Path] || strings.ContainsAny(f.Path, "*?[") {
			if clean[f.Path] {
				say("%q is a pattern, not the path of one file", f.Path)
			}
			continue
		}
		exists, regular, err := look(f.Path)
		switch {
		case err != nil:
			return nil, err
		case exists && f.New:
			say("%q is marked new, but exists", f.Path)
		case !exists && !f.New:
			say("%q does not exist and is not marked new", f.Path)
		case exists && !regular:
			say("%q is not a regular file", f.Path)
		}
	}
	if len(d.Tests) == 0 && !onlyDocs(d.Paths()) {
		say("the plan names no test that would fail before the change and pass after it")
	}
	for _, t := range d.Tests {
		switch {
		case strings.TrimSpace(t.Name) == "":
			say("a test in %q has no name", t.Path)
		case !slices.Contains(d.Paths(), t.Path):
			say("the test file %q is not among the files", t.Path)
		}
	}
	return problems, nil
}

// onlyDocs reports that a change to these paths can't be tested.
func onlyDocs(paths []string) bool {
	for _, p := range paths {
		switch strings.ToLower(path.Ext(p)) {
		case ".md", ".rst", ".adoc", ".txt":
		default:
			return false
		}
	}
	return len(paths) > 0
}
