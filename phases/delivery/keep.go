package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// Keeper keeps unfinished work on a branch. Saved may be nil.
type Keeper struct {
	Trees    *tree.Trees
	Rules    gates.Rules
	Identity Identity
	// Saved is told the branch on which a run's unfinished work was kept.
	Saved func(ctx context.Context, runID, branch string) error
}

// Action is a `finally` action: when the work did not become a pull request it
// is kept on the WIP branch, and the worktree is removed in any case. baseKey
// is the state key of the commit upon which work_ref lies. The note says where
// the work is.
func (k Keeper) Action(name, baseKey string) flows.Action {
	return flows.Action{
		Name: name, Version: "1", Effects: true, Reads: []string{}, Writes: []string{},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			note, err := "", error(nil)
			if WorthSaving(c.Ended, c.In.Int("pr")) {
				note, err = k.save(ctx, c, c.In.Str(baseKey))
			}
			return flows.Result{Note: note}, errors.Join(err, k.Trees.Release(ctx, c.Run.ID))
		},
	}
}

// WorthSaving is false when the work is published, settled or nothing. A
// result in a flow's own words is none of these, unless there is a pull
// request; pr is its number, 0 for none.
func WorthSaving(e *flows.Ended, pr int) bool {
	switch {
	case e == nil:
		return false
	case e.How != "sink":
		return true
	}
	switch e.Result {
	case "needs_human", "no_progress":
		return true
	case "pr_opened", "approved", "changes_requested", "merged", "closed", "empty":
		return false
	}
	return pr == 0
}

func (k Keeper) save(ctx context.Context, c flows.Call, base string) (string, error) {
	w, ok := k.Trees.Current(c.Run.ID)
	if !ok {
		if base == "" || !blob.Set(c.In.Artifact("work_ref")) {
			return "", nil
		}
		var err error
		if w, err = k.Trees.Open(ctx, c, tree.At{Base: base, Patch: c.In.Artifact("work_ref")}); err != nil {
			return "", fmt.Errorf("opening the work to save it: %w", err)
		}
	}
	d, err := w.Diff(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the work to save it: %w", err)
	}
	if len(d.Files) == 0 {
		return "", nil
	}
	for _, f := range gates.CheckDiff(d, gates.Rules{MaxFiles: gates.Unlimited, MaxLines: gates.Unlimited, Protected: k.Rules.Protected, AllowWorkflows: k.Rules.AllowWorkflows}) {
		if f.Fatal {
			return "the unfinished work is not kept on a branch: " + f.String(), nil
		}
	}
	branch := WIPBranch(c.Run.Issue, c.Run.Lineage)
	sha, err := w.Commit(ctx, k.Identity.Commit(c, fmt.Sprintf("Keep unfinished work on #%d\n\nThe run ended before its work could be published.\n", c.Run.Issue)))
	if errors.Is(err, workspace.ErrEmpty) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("committing the work to save it: %w", err)
	}
	shadow, err := k.push(ctx, c, w, sha, branch)
	if err != nil {
		return "", err
	}
	if shadow {
		return "a shadow run keeps no work: it would be on branch " + branch, nil
	}
	if k.Saved != nil {
		if err := k.Saved(ctx, c.Run.ID, branch); err != nil {
			return "", fmt.Errorf("recording that the work is on %s: %w", branch, err)
		}
	}
	return fmt.Sprintf("the unfinished work (%s) is on branch %s", markdown.Count(len(d.Files), "file"), branch), nil
}

// push publishes the kept work, once for each content; shadow tells that the
// run writes nothing outside.
func (k Keeper) push(ctx context.Context, c flows.Call, w workspace.Workspace, sha, branch string) (shadow bool, err error) {
	expect := ""
	raw, err := c.Effects.Once(ctx, "save/"+sha,
		func(ctx context.Context) (json.RawMessage, bool, error) {
			now, err := k.Trees.Resolve(ctx, c, branch)
			if errors.Is(err, workspace.ErrNotFound) {
				return nil, false, nil
			}
			expect = now
			return quote(sha), err == nil && now == sha, err
		},
		func(ctx context.Context) (json.RawMessage, error) {
			return quote(sha), w.Push(ctx, workspace.Push{SHA: sha, Ref: headRef(branch), Expect: expect})
		})
	if err != nil {
		return false, fmt.Errorf("pushing the work to %s: %w", branch, err)
	}
	return string(raw) == "null", nil
}
