package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

type pinWith struct {
	// Branch is what to build on; the default branch when empty.
	Branch string `json:"branch"`
}

// pin looks whether the issue is still open to work and settles the commit
// that everything after it builds on. It writes base_sha and default_branch,
// the branch that a pull request goes to.
func (k kit) pin() flows.Action {
	return flows.Action{
		Name: "workspace.pin", Version: "1", ReadOnly: true, CheckWith: flows.CheckWith[pinWith],
		Reads: []string{}, Writes: []string{"base_sha", "default_branch", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[pinWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			_, end, stop, err := issue.Read(ctx, k.Forge, ref)
			if err != nil || stop {
				return end, err
			}
			branch := with.Branch
			if branch == "" {
				r, err := k.Forge.Repository(ctx, ref.Repo)
				if err != nil {
					return flows.Result{}, fmt.Errorf("reading repository %s: %w", ref.Repo, err)
				}
				branch = r.DefaultBranch
			}
			sha, err := k.Trees.Resolve(ctx, c, branch)
			if errors.Is(err, workspace.ErrNotFound) {
				return issue.End(issue.NeedsHuman, "branch-missing", "The repository has no branch %s.", branch), nil
			}
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"base_sha": sha, "default_branch": branch},
				Note:  fmt.Sprintf("building on %s of %s", tree.Short(sha), branch),
			}, nil
		}),
	}
}
