package implement

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/plandoc"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// publish commits the attempt and pushes it, once. The commit is a function of
// the state, so that a repetition after a crash makes the same one. It reads
// work_base, work_ref, branch, evidence_ref, base_sha, plan_ref, plan_hash,
// default_branch and conflicts; it writes head_sha and patch_ref, or, when the
// base has moved so that the work does not fit it any more, what another attempt
// on the new base begins with.
func (p phase) publish() flows.Action {
	return flows.Action{
		Name: "implement.publish", Version: "2", Effects: true,
		Reads: []string{"base_sha", "work_base", "work_ref", "branch", "evidence_ref", "plan_ref", "plan_hash", "default_branch", "conflicts"},
		Writes: []string{"head_sha", "patch_ref", "base_sha", "work_base", "work_ref", "passed", "blocked", "problems_ref", "conflicts",
			"result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			base, branch := c.In.Str("work_base"), c.In.Str("branch")
			w, err := p.Trees.Open(ctx, c, tree.At{Base: base, Patch: c.In.Artifact("work_ref")})
			if err != nil {
				return flows.Result{}, err
			}
			if err := tested(ctx, c, w); err != nil {
				return flows.Result{}, err
			}
			doc, err := plandoc.Load(ctx, c)
			if err != nil {
				return flows.Result{}, err
			}
			sha, err := w.Commit(ctx, p.Identity.Commit(c, message(c.Run.Issue, c.Run.Round, doc, c.In.Str("plan_hash"))))
			if errors.Is(err, workspace.ErrEmpty) {
				return issue.End("empty", "empty", "The changes come to nothing."), nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("committing: %w", err)
			}
			if r, moved, err := p.moved(ctx, c, sha); err != nil || moved {
				return r, err
			}
			expect := ""
			if base != c.In.Str("base_sha") {
				expect = base
			}
			err = delivery.Push(ctx, c, p.Trees, w, sha, branch, expect)
			if errors.Is(err, workspace.ErrConflict) {
				return issue.End(issue.NeedsHuman, "branch-moved", "The branch %s holds commits that are not this run's; nothing was overwritten.", branch), nil
			}
			if err != nil {
				return flows.Result{}, err
			}
			return flows.Result{
				Delta: flows.Delta{"head_sha": sha, "patch_ref": c.In.Artifact("work_ref")},
				Note:  fmt.Sprintf("pushed %s to %s", tree.Short(sha), branch),
			}, nil
		}),
	}
}

// tested refuses to push content that is not what the tests passed on.
func tested(ctx context.Context, c flows.Call, w workspace.Workspace) error {
	ev, err := evidence(ctx, c, "evidence_ref")
	if err != nil {
		return err
	}
	d, err := w.Diff(ctx)
	if err != nil {
		return fmt.Errorf("reading the changes: %w", err)
	}
	if !ev.Passed || ev.Tree != d.Tree {
		return fmt.Errorf("publishing: the evidence (passed: %t) is for content %s, the worktree holds %s", ev.Passed, tree.Short(ev.Tree), tree.Short(d.Tree))
	}
	return nil
}

// message is the commit's text. The summary is a model's; it can't close
// another issue.
func message(issueNumber, round int, d plandoc.Document, hash string) string {
	m := fmt.Sprintf("%s\n\nRefs #%d. Carries out plan %s", markdown.Inline(d.Summary, 68), issueNumber, plandoc.Short(hash))
	if round > 1 {
		m += fmt.Sprintf(", review round %d", round)
	}
	return m + ".\n"
}
