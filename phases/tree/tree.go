// Package tree opens a run's worktree from what its state says (a pinned
// commit and a patch), saves it back as a patch, and lets it go. State and
// artifacts are the truth; the worktree on disk is only a copy that can be
// made again.
//
// It must not know models, gates or any one phase. It may import flows,
// checkpoints, internal/{forge,workspace} and phases/blob.
package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
)

// Repositories tells where a repository is cloned from.
type Repositories interface {
	Repository(ctx context.Context, r forge.Repo) (forge.Repository, error)
}

// Trees opens worktrees, one a run. It is safe for concurrent use by
// different runs. It remembers the open ones, so that work in flight can be
// saved when its run is stopped.
type Trees struct {
	provider workspace.Provider
	repos    Repositories

	mu   sync.Mutex
	open map[string]workspace.Workspace // by run id
}

// New makes a Trees; one is shared by all phases of a process.
func New(p workspace.Provider, r Repositories) *Trees {
	return &Trees{provider: p, repos: r, open: map[string]workspace.Workspace{}}
}

// At is a position: Patch (as Save made it, may be unset) upon Base. Parent,
// when set, is the commit whose content is opened instead, while Diff still
// compares with Base.
type At struct {
	Base, Parent string
	Patch        flows.Artifact
}

// Open makes the run's worktree be exactly at the position. Whatever was in it
// before is lost.
func (t *Trees) Open(ctx context.Context, c flows.Call, at At) (workspace.Workspace, error) {
	w, err := t.openAs(ctx, c, c.Run.ID, at)
	if w != nil {
		t.mu.Lock()
		t.open[c.Run.ID] = w
		t.mu.Unlock()
	}
	return w, err
}

// OpenCopy opens a worktree of the node's own at the position, for readers
// that work at once. Call done when it is read; nothing of it is kept.
func (t *Trees) OpenCopy(ctx context.Context, c flows.Call, at At) (w workspace.Workspace, done func(context.Context) error, err error) {
	key := c.Run.ID + "-" + c.Node
	done = func(ctx context.Context) error {
		if err := t.provider.Close(context.WithoutCancel(ctx), key); err != nil {
			return fmt.Errorf("removing the worktree %s: %w", key, err)
		}
		return nil
	}
	if w, err = t.openAs(ctx, c, key, at); err != nil {
		return nil, nil, errors.Join(err, done(ctx))
	}
	return w, done, nil
}

// openAs opens the worktree of a key. One that could be opened and not be
// brought to the position is returned with the error.
func (t *Trees) openAs(ctx context.Context, c flows.Call, key string, at At) (workspace.Workspace, error) {
	repo, err := t.repository(ctx, c)
	if err != nil {
		return nil, err
	}
	patch, err := blob.Get(ctx, c.Artifacts, "patch", at.Patch)
	if err != nil {
		return nil, err
	}
	w, err := t.provider.Open(ctx, workspace.Spec{
		CloneURL: repo.CloneURL, Key: key, Base: at.Base, Parent: at.Parent,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the worktree of %s at %s: %w", repo.Repo, Short(at.Base), Passing(c, err))
	}
	if len(patch) > 0 {
		if err := w.Apply(ctx, patch); err != nil {
			return w, fmt.Errorf("applying the run's patch at %s: %w", Short(at.Base), err)
		}
	}
	return w, nil
}

// Current is the worktree that this process has open for the run, as it is
// now; ok is false when it has none.
func (t *Trees) Current(runID string) (w workspace.Workspace, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok = t.open[runID]
	return w, ok
}

// Release removes the run's worktree; one that is not there is fine.
func (t *Trees) Release(ctx context.Context, runID string) error {
	t.mu.Lock()
	delete(t.open, runID)
	t.mu.Unlock()
	if err := t.provider.Close(ctx, runID); err != nil {
		return fmt.Errorf("removing the worktree of run %s: %w", runID, err)
	}
	return nil
}

// Resolve is the commit of a branch on the remote; "" is the default branch.
// The error is workspace.ErrNotFound when there is none.
func (t *Trees) Resolve(ctx context.Context, c flows.Call, branch string) (string, error) {
	repo, err := t.repository(ctx, c)
	if err != nil {
		return "", err
	}
	sha, err := t.provider.Resolve(ctx, repo.CloneURL, branch)
	if err != nil {
		return "", fmt.Errorf("resolving branch %q of %s: %w", branch, repo.Repo, Passing(c, err))
	}
	return sha, nil
}

func (t *Trees) repository(ctx context.Context, c flows.Call) (forge.Repository, error) {
	name, err := forge.ParseRepo(c.Run.Repo)
	if err != nil {
		return forge.Repository{}, err
	}
	repo, err := t.repos.Repository(ctx, name)
	if err != nil {
		return forge.Repository{}, fmt.Errorf("reading repository %s: %w", name, err)
	}
	return repo, nil
}

// maxTries is how often a failing fetch or push is tried; a cause that has not
// gone away by then is not a passing one.
const maxTries = 6

// Passing marks what may go away: fetching and pushing fail for network
// reasons, which the contract does not tell apart, while its own errors and a
// cancelled context are final.
func Passing(c flows.Call, err error) error {
	for _, final := range []error{
		workspace.ErrNotFound, workspace.ErrConflict, workspace.ErrEmpty, workspace.ErrDenied,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, final) {
			return err
		}
	}
	if err == nil || c.Attempt >= maxTries {
		return err
	}
	return &flows.Retry{Cause: "transient", Err: err}
}

// Short is a commit's first 12 digits, for people.
func Short(sha string) string {
	if len(sha) > 12 {
		return sha[:12]
	}
	return sha
}
