// Package delivery is how work leaves a run: what of a diff no further attempt
// can settle, the commit that is the same on a repeat, the push and the pull
// request that happen once, and the branch on which unfinished work is kept.
//
// It must not know models, plans or any one phase. It may import flows,
// internal/{forge,workspace} and phases/{blob,gates,issue,tree}.
package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// Identity is the author of the commits.
type Identity struct {
	Name, Email string
	SignOff     bool
}

// Commit is the metadata of a run's commit: a function of the run, so that a
// repetition after a crash makes the same one.
func (i Identity) Commit(c flows.Call, message string) workspace.Commit {
	return workspace.Commit{Message: message, Name: i.Name, Email: i.Email, When: c.Run.Created, SignOff: i.SignOff}
}

// Branch is the branch of an issue's pipeline; a later round pushes to it
// again.
func Branch(issue int, lineage string) string {
	return fmt.Sprintf("pipelinebot/%d-%s", issue, short(lineage))
}

// WIPBranch is where unfinished work is kept when a run is stopped.
func WIPBranch(issue int, lineage string) string {
	return fmt.Sprintf("pipelinebot/wip/%d-%s", issue, short(lineage))
}

// short is the end of a lineage's id: its beginning is the time, which two
// pipelines of one issue may share.
func short(lineage string) string { return lineage[max(0, len(lineage)-8):] }

func headRef(branch string) string { return "refs/heads/" + branch }

// Push publishes a commit of w at branch, once, under the effect name "push".
// expect is the commit that the branch must be at, "" when it must not exist.
// The error is workspace.ErrConflict when it holds something else.
func Push(ctx context.Context, c flows.Call, t *tree.Trees, w workspace.Workspace, sha, branch, expect string) error {
	_, err := c.Effects.Once(ctx, "push",
		func(ctx context.Context) (json.RawMessage, bool, error) {
			now, err := t.Resolve(ctx, c, branch)
			if errors.Is(err, workspace.ErrNotFound) {
				return nil, false, nil
			}
			return quote(sha), err == nil && now == sha, err
		},
		func(ctx context.Context) (json.RawMessage, error) {
			err := w.Push(ctx, workspace.Push{SHA: sha, Ref: headRef(branch), Expect: expect})
			return quote(sha), tree.Passing(c, err)
		})
	if err != nil {
		return fmt.Errorf("pushing %s: %w", branch, err)
	}
	return nil
}

func quote(sha string) json.RawMessage { return json.RawMessage(`"` + sha + `"`) }

// Pulls opens pull requests.
type Pulls interface {
	PullsByHead(ctx context.Context, r forge.Repo, branch string) ([]forge.Pull, error)
	OpenPull(ctx context.Context, r forge.Repo, p forge.NewPull) (forge.Pull, error)
}

// OpenPull opens a branch's pull request, once, under the effect name "pull",
// and returns its number; an open one is adopted.
func OpenPull(ctx context.Context, c flows.Call, pulls Pulls, r forge.Repo, p forge.NewPull) (int, error) {
	find := func(ctx context.Context) (json.RawMessage, bool, error) {
		all, err := pulls.PullsByHead(ctx, r, p.Head)
		if err != nil {
			return nil, false, err
		}
		for _, pull := range all {
			if pull.Open {
				v, err := json.Marshal(pull.Ref.Number)
				return v, true, err
			}
		}
		return nil, false, nil
	}
	raw, err := c.Effects.Once(ctx, "pull", find, func(ctx context.Context) (json.RawMessage, error) {
		pull, err := pulls.OpenPull(ctx, r, p)
		if forge.IsKind(err, forge.KindConflict) {
			// Somebody was quicker, or the answer to an earlier try was lost.
			if v, found, ferr := find(ctx); ferr == nil && found {
				return v, nil
			}
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(pull.Ref.Number)
	})
	if err != nil {
		return 0, fmt.Errorf("opening the pull request of %s: %w", p.Head, err)
	}
	var number int
	if string(raw) == "null" {
		return 0, nil // a shadow run opens none
	}
	if err := json.Unmarshal(raw, &number); err != nil {
		return 0, fmt.Errorf("reading the recorded pull request: %w", err)
	}
	return number, nil
}
