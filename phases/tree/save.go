package tree

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
)

// Saved is a worktree as artifacts.
type Saved struct {
	// Patch is a git patch upon the base.
	Patch flows.Artifact
	// Diff is a Summary as JSON.
	Diff flows.Artifact
	Summary
}

// Summary is what a diff touches; the patch is apart, since it may be large.
type Summary struct {
	Tree  string           `json:"tree"`
	Files []workspace.File `json:"files"`
}

// Lines counts added and deleted lines.
func (s Summary) Lines() (added, deleted int) {
	for _, f := range s.Files {
		added += max(f.Added, 0)
		deleted += max(f.Deleted, 0)
	}
	return added, deleted
}

// Save keeps what differs from the base.
func Save(ctx context.Context, s checkpoints.ArtifactStore, w workspace.Workspace) (Saved, error) {
	d, err := w.Diff(ctx)
	if err != nil {
		return Saved{}, fmt.Errorf("reading the changes: %w", err)
	}
	sum := Summary{Tree: d.Tree, Files: d.Files}
	if sum.Files == nil {
		sum.Files = []workspace.File{}
	}
	patch, err := blob.Put(ctx, s, "patch", d.Patch)
	if err != nil {
		return Saved{}, err
	}
	diff, err := blob.PutJSON(ctx, s, "summary of the changes", sum)
	if err != nil {
		return Saved{}, err
	}
	return Saved{Patch: patch, Diff: diff, Summary: sum}, nil
}

// LoadDiff reads back what Save kept.
func LoadDiff(ctx context.Context, s checkpoints.ArtifactStore, patch, diff flows.Artifact) (workspace.Diff, error) {
	p, err := blob.Get(ctx, s, "patch", patch)
	if err != nil {
		return workspace.Diff{}, err
	}
	sum, err := blob.GetJSON[Summary](ctx, s, "summary of the changes", diff)
	if err != nil {
		return workspace.Diff{}, err
	}
	return workspace.Diff{Patch: p, Files: sum.Files, Tree: sum.Tree}, nil
}

// ReleaseAction is a `finally` action that removes the run's worktree.
func ReleaseAction(name string, t *Trees) flows.Action {
	return flows.Action{
		Name: name, Version: "1", Reads: []string{}, Writes: []string{},
		Run: func(ctx context.Context, c flows.Call) (flows.Result, error) {
			return flows.Result{}, t.Release(ctx, c.Run.ID)
		},
	}
}
