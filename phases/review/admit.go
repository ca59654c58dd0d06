package review

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// admit looks whether there is a pull request to review. It reads pr, branch,
// head_sha, base_sha and findings_ref; it writes pr, and last_ref, under which
// the last round's findings stay readable.
func (p phase) admit() flows.Action {
	return flows.Action{
		Name: "review.admit", Version: "1", ReadOnly: true,
		Reads:  []string{"pr", "branch", "head_sha", "base_sha", "findings_ref"},
		Writes: []string{"pr", "last_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			_, end, stop, err := issue.Read(ctx, p.Issues, ref)
			if err != nil {
				return flows.Result{}, err
			}
			// A merge closes the issue: then the pull request says more.
			closed := stop
			number := c.In.Int("pr")
			if number == 0 && c.In.Str("branch") != "" {
				pulls, err := p.Issues.PullsByHead(ctx, ref.Repo, c.In.Str("branch"))
				if err != nil {
					return flows.Result{}, fmt.Errorf("looking for the pull request: %w", err)
				}
				for _, pull := range pulls {
					if number == 0 || pull.Open {
						number = pull.Ref.Number
					}
				}
			}
			if number == 0 || c.In.Str("head_sha") == "" || c.In.Str("base_sha") == "" {
				if closed {
					return end, nil
				}
				return issue.End(issue.NeedsHuman, "no-pull", "There is no pull request of the pipeline to review."), nil
			}
			_, pullEnd, stop, err := p.standing(ctx, ref.Repo, number, c.In.Str("head_sha"))
			switch {
			case err != nil:
				return flows.Result{}, err
			case stop:
				return pullEnd, nil
			case closed:
				return end, nil
			}
			delta := flows.Delta{"pr": number}
			if last := c.In.Artifact("findings_ref"); blob.Set(last) {
				delta["last_ref"] = last
			}
			return flows.Result{Delta: delta, Note: fmt.Sprintf("reviewing #%d at %s", number, tree.Short(c.In.Str("head_sha")))}, nil
		}),
	}
}

// standing reads the pull request; stop is true when it is settled or not at
// the commit that is being reviewed.
func (p phase) standing(ctx context.Context, repo forge.Repo, number int, head string) (forge.Pull, flows.Result, bool, error) {
	pull, err := p.Forge.Pull(ctx, forge.Ref{Repo: repo, Number: number})
	switch {
	case forge.IsKind(err, forge.KindNotFound):
		return pull, issue.End(issue.NeedsHuman, "no-pull", "Pull request #%d is gone.", number), true, nil
	case err != nil:
		return pull, flows.Result{}, false, fmt.Errorf("reading pull request #%d: %w", number, err)
	case pull.Merged:
		return pull, issue.End("merged", "pull-merged", "Pull request #%d is merged.", number), true, nil
	case !pull.Open:
		return pull, issue.End(issue.Closed, "pull-closed", "Pull request #%d was closed without being merged.", number), true, nil
	case pull.HeadSHA != head:
		return pull, issue.End(issue.NeedsHuman, "head-moved", "Somebody pushed to pull request #%d: it is at %s and was reviewed at %s.",
			number, tree.Short(pull.HeadSHA), tree.Short(head)), true, nil
	}
	return pull, flows.Result{}, false, nil
}

// fetch reads the whole change. It reads base_sha and head_sha; it writes
// full_ref (the patch) and diff_ref (tree.Summary).
func (p phase) fetch() flows.Action {
	return flows.Action{
		Name: "review.fetch", Version: "1",
		Reads: []string{"base_sha", "head_sha"}, Writes: []string{"full_ref", "diff_ref", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			w, err := p.Trees.Open(ctx, c, tree.At{Base: c.In.Str("base_sha"), Parent: c.In.Str("head_sha")})
			if err != nil {
				return flows.Result{}, err
			}
			saved, err := tree.Save(ctx, c.Artifacts, w)
			if err != nil {
				return flows.Result{}, err
			}
			if len(saved.Files) == 0 {
				return issue.End(issue.NeedsHuman, "empty", "The pull request changes nothing."), nil
			}
			added, deleted := saved.Lines()
			return flows.Result{
				Delta: flows.Delta{"full_ref": saved.Patch, "diff_ref": saved.Diff},
				Note:  fmt.Sprintf("%s, +%d -%d lines", markdown.Count(len(saved.Files), "file"), added, deleted),
			}, nil
		}),
	}
}
