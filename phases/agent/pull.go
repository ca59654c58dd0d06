package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

// pullWith are texts of the flow's author; what templates put into them is
// data and rings nobody.
type pullWith struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	// Closes makes the merge close the issue; otherwise it is only named.
	Closes bool `json:"closes"`
	// Untested lets work out that no tests.run passed on, e.g. documentation.
	// The pull request says so.
	Untested bool `json:"untested"`
}

func checkPull(raw json.RawMessage) error {
	w, err := flows.With[pullWith](raw)
	if err == nil && strings.TrimSpace(w.Title) == "" {
		err = errors.New("title is empty")
	}
	return err
}

// openPull commits the work, pushes it and opens the pull request, each once;
// on a later visit it pushes to the same pull request. It refuses content that
// the tests did not pass on. It reads base_sha, work_ref, diff_ref, report_ref,
// evidence_ref, problems_ref, default_branch, branch and head_sha; it writes
// branch, head_sha, patch_ref, pr and the result pr_opened.
func (k kit) openPull() flows.Action {
	return flows.Action{
		Name: "pull.open", Version: "1", Effects: true, CheckWith: checkPull,
		Reads: []string{"base_sha", "work_ref", "diff_ref", "report_ref", "evidence_ref", "problems_ref", "default_branch",
			"branch", "head_sha"},
		Writes: []string{"branch", "head_sha", "patch_ref", "pr", "result"}, Sets: []string{"pr_opened"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[pullWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			r, err := repo(c)
			if err != nil {
				return flows.Result{}, err
			}
			at, err := position(c)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := k.Trees.Open(ctx, c, at)
			if err != nil {
				return flows.Result{}, err
			}
			tests, err := evidence(ctx, c, w, with.Untested)
			if err != nil {
				return flows.Result{}, err
			}
			text, err := k.pullText(ctx, c, with, tests)
			if err != nil {
				return flows.Result{}, err
			}
			sha, err := w.Commit(ctx, k.Identity.Commit(c, fmt.Sprintf("%s\n\nRefs #%d.\n", markdown.Inline(text.Title, 68), c.Run.Issue)))
			if errors.Is(err, workspace.ErrEmpty) {
				return issue.End("empty", "empty", "The changes come to nothing."), nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("committing: %w", err)
			}
			branch := c.In.Str("branch")
			if branch == "" {
				branch = delivery.Branch(c.Run.Issue, c.Run.Lineage)
			}
			err = delivery.Push(ctx, c, k.Trees, w, sha, branch, c.In.Str("head_sha"))
			if errors.Is(err, workspace.ErrConflict) {
				return issue.End(issue.NeedsHuman, "branch-moved", "The branch %s holds commits that are not this run's; nothing was overwritten.", branch), nil
			}
			if err != nil {
				return flows.Result{}, err
			}
			text.Head, text.Base = branch, c.In.Str("default_branch")
			number, err := delivery.OpenPull(ctx, c, k.Forge, r, text)
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{
					"branch": branch, "head_sha": sha, "patch_ref": c.In.Artifact("work_ref"), "pr": number, "result": "pr_opened",
				},
				Note: fmt.Sprintf("pull request #%d at %s", number, tree.Short(sha)),
			}, nil
		}),
	}
}

// evidence refuses content that is not what the tests passed on.
func evidence(ctx context.Context, c flows.Call, w workspace.Workspace, untested bool) (gates.Evidence, error) {
	ev, err := blob.GetJSON[gates.Evidence](ctx, c.Artifacts, "test evidence", c.In.Artifact("evidence_ref"))
	if err != nil {
		return ev, err
	}
	d, err := w.Diff(ctx)
	if err != nil {
		return ev, fmt.Errorf("reading the changes: %w", err)
	}
	if ev.Passed && ev.Tree == d.Tree {
		return ev, nil
	}
	if untested {
		return gates.Evidence{}, nil
	}
	return ev, fmt.Errorf("opening a pull request: no tests passed on exactly this content (passed: %t, tested: %q, to be pushed: %s); "+
		"let tests.run run before, or say untested: true", ev.Passed, tree.Short(ev.Tree), tree.Short(d.Tree))
}

func (k kit) pullText(ctx context.Context, c flows.Call, with pullWith, tests gates.Evidence) (forge.NewPull, error) {
	report, err := writer.LoadReport(ctx, c)
	if err != nil {
		return forge.NewPull{}, err
	}
	found, err := blob.GetJSON[[]gates.Finding](ctx, c.Artifacts, "problems", c.In.Artifact("problems_ref"))
	if err != nil {
		return forge.NewPull{}, err
	}
	sum, err := blob.GetJSON[tree.Summary](ctx, c.Artifacts, "summary of the changes", c.In.Artifact("diff_ref"))
	if err != nil {
		return forge.NewPull{}, err
	}
	marker := issue.Marker("pull", "issue", fmt.Sprint(c.Run.Issue), "run", c.Run.ID)
	return forge.NewPull{
		Title: k.Scrub.Scrub(markdown.Inline(with.Title, 200)),
		Body:  issue.Body(k.Scrub, marker, pullBody(c.Run.Issue, with, report, tests, found, sum)),
	}, nil
}

// pullBody is pure; it is golden-tested.
func pullBody(number int, with pullWith, report writer.Report, tests gates.Evidence, found []gates.Finding, sum tree.Summary) string {
	var b strings.Builder
	word := "Refs"
	if with.Closes {
		word = "Fixes"
	}
	fmt.Fprintf(&b, "%s #%d\n\n", word, number)
	if text := strings.TrimSpace(with.Body); text != "" {
		b.WriteString(markdown.Prose(text) + "\n\n")
	}
	if report.Summary != "" {
		b.WriteString(markdown.Prose(report.Summary) + "\n\n")
	}
	if report.Unfinished != "" {
		b.WriteString("Not done: " + markdown.Prose(report.Unfinished) + "\n\n")
	}
	if tests.Code == "" {
		b.WriteString("No tests were run on this by the bot.\n")
	} else {
		b.WriteString(delivery.TestTable(gates.Evidence{}, tests))
	}
	added, deleted := sum.Lines()
	fmt.Fprintf(&b, "\n%s changed, %d lines added, %d removed.\n", markdown.Count(len(sum.Files), "file"), added, deleted)
	b.WriteString(delivery.Remarks(found))
	return b.String()
}
