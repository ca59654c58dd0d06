package implement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// admit looks whether there is still work to do and a plan to do it by. It
// reads plan_ref, base_sha, text_hash, head_sha, branch and merged_before; it
// writes branch and work_base, the commit that this round builds on.
func (p phase) admit() flows.Action {
	return flows.Action{
		Name: "implement.admit", Version: "1", ReadOnly: true,
		Reads:  []string{"plan_ref", "base_sha", "text_hash", "head_sha", "branch", "merged_before"},
		Writes: []string{"branch", "work_base", "result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			ref, err := issue.Ref(c)
			if err != nil {
				return flows.Result{}, err
			}
			i, end, stop, err := issue.Read(ctx, p.Issues, ref)
			if err != nil || stop {
				return end, err
			}
			if !blob.Set(c.In.Artifact("plan_ref")) || c.In.Str("base_sha") == "" {
				return issue.End(issue.NeedsHuman, "no-plan", "There is no approved plan for this issue."), nil
			}
			if want := c.In.Str("text_hash"); want != "" && issue.TextHash(i.Title, i.Body) != want {
				return issue.End(issue.NeedsHuman, "issue-changed", "The issue was edited after its plan was approved, so the approval lapsed."), nil
			}
			branch := c.In.Str("branch")
			if branch == "" {
				branch = delivery.Branch(c.Run.Issue, c.Run.Lineage)
			}
			var before []int
			if err := c.In.Decode("merged_before", &before); err != nil {
				return flows.Result{}, err
			}
			if end, stop, err := p.pulls(ctx, ref, branch, before); err != nil || stop {
				return end, err
			}
			base, end, stop, err := p.workBase(ctx, c, branch)
			if err != nil || stop {
				return end, err
			}
			return flows.Result{
				Delta: flows.Delta{"branch": branch, "work_base": base},
				Note:  fmt.Sprintf("round %d on %s, branch %s", c.Run.Round, tree.Short(base), branch),
			}, nil
		}),
	}
}

// pulls ends the flow when the issue's pull request is settled already. Those
// merged before the work began don't count: the issue is wanted all the same.
func (p phase) pulls(ctx context.Context, ref forge.Ref, branch string, before []int) (flows.Result, bool, error) {
	own, err := p.Pulls.PullsByHead(ctx, ref.Repo, branch)
	if err != nil {
		return flows.Result{}, false, fmt.Errorf("looking for pull requests of %s: %w", branch, err)
	}
	linked, err := p.Pulls.LinkedPulls(ctx, ref)
	if err != nil {
		return flows.Result{}, false, fmt.Errorf("looking for linked pull requests: %w", err)
	}
	for _, pull := range append(own, linked...) {
		if pull.Merged && !slices.Contains(before, pull.Ref.Number) {
			return issue.End("merged", "pull-merged", "Pull request #%d for this issue is merged.", pull.Ref.Number), true, nil
		}
	}
	closed := 0
	for _, pull := range own {
		if pull.Open {
			return flows.Result{}, false, nil
		}
		closed = pull.Ref.Number
	}
	if closed != 0 {
		return issue.End(issue.Closed, "pull-closed", "Pull request #%d was closed without being merged.", closed), true, nil
	}
	return flows.Result{}, false, nil
}

// workBase is the branch's head on a later round, else the pinned base. A
// branch that is not where the last round left it belongs to somebody else.
func (p phase) workBase(ctx context.Context, c flows.Call, branch string) (string, flows.Result, bool, error) {
	head := c.In.Str("head_sha")
	if head == "" {
		return c.In.Str("base_sha"), flows.Result{}, false, nil
	}
	now, err := p.Trees.Resolve(ctx, c, branch)
	switch {
	case errors.Is(err, workspace.ErrNotFound):
		return "", issue.End(issue.NeedsHuman, "branch-gone", "The branch %s was deleted.", branch), true, nil
	case err != nil:
		return "", flows.Result{}, false, err
	case now != head:
		return "", issue.End(issue.NeedsHuman, "branch-moved", "Somebody pushed to %s: it is at %s and was left at %s.", branch, tree.Short(now), tree.Short(head)), true, nil
	}
	return head, flows.Result{}, false, nil
}
