// Package workspace is the contract for a repository checkout that a run
// works in: a worktree at a pinned base, changed by an actuator, read back as
// a diff, committed and pushed.
//
// It must not know git or credentials and imports only the standard library.
// The driver is internal/gitws.
package workspace

import (
	"context"
	"errors"
	"time"
)

// Spec names a workspace.
type Spec struct {
	// CloneURL is the HTTPS address without credentials.
	CloneURL string
	// Key names the worktree and is stable over resumes, e.g. a run id.
	Key string
	// Base is the full commit SHA that the worktree starts from.
	Base string
	// Parent is the commit that Commit builds on; Base when empty. It
	// differs from Base on a later review round.
	Parent string
}

// Provider opens workspaces.
type Provider interface {
	// Resolve returns the SHA of a branch ("" = the default branch) on the
	// remote. ErrNotFound when there is no such branch.
	Resolve(ctx context.Context, cloneURL, branch string) (sha string, err error)
	// Open returns the worktree for the spec, fetching what is missing. An
	// existing worktree of the same key is reset to the spec's parent (tracked
	// and untracked files; ignored ones are kept as a build cache).
	Open(ctx context.Context, s Spec) (Workspace, error)
	// Close removes the worktree of key; unknown keys are fine.
	Close(ctx context.Context, key string) error
}

// Workspace is one open worktree. Methods are not safe for concurrent use.
type Workspace interface {
	// Dir is the worktree's absolute path.
	Dir() string
	// Diff is everything that differs from Base, untracked files included.
	Diff(ctx context.Context) (Diff, error)
	// Apply applies a patch that Diff made. ErrConflict when it does not fit.
	Apply(ctx context.Context, patch []byte) error
	// Commit records everything that differs from Parent as one commit. Equal
	// content and equal metadata give an equal SHA. ErrEmpty when nothing
	// differs.
	Commit(ctx context.Context, c Commit) (sha string, err error)
	// Push publishes sha at ref on the remote; see Push.
	Push(ctx context.Context, p Push) error
}

// Diff is the difference between a worktree and its base.
type Diff struct {
	// Patch is a binary-safe git patch, as `git diff --binary --full-index`.
	Patch []byte
	// Files are the changed paths, slash-separated, sorted.
	Files []File
	// Tree is the git tree id of the whole content: equal content, equal id.
	Tree string
}

// File is one changed path.
type File struct {
	Path string `json:"path"`
	// OldPath is set for a rename.
	OldPath string `json:"old_path,omitempty"`
	// Status is A, M, D, R or T as git prints it.
	Status string `json:"status"`
	// Added and Deleted count lines; both are -1 for binary files.
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
	// Mode is the new git mode, e.g. "100644", "120000" for a symbolic link.
	Mode string `json:"mode"`
}

// Commit is the metadata of a commit; all of it enters the SHA.
type Commit struct {
	Message string
	// Name and Email are author and committer.
	Name, Email string
	// When is author and committer date; take a recorded instant so that a
	// repeated commit has the same SHA.
	When time.Time
	// SignOff adds a Signed-off-by trailer.
	SignOff bool
}

// Push publishes a commit.
type Push struct {
	SHA string
	// Ref is the full remote ref, e.g. "refs/heads/pipelinebot/7-ab12cd34".
	Ref string
	// Expect is the SHA that the ref must have now, "" when it must not
	// exist. A ref that has SHA already is success. ErrConflict otherwise.
	Expect string
}

// Errors that callers decide by.
var (
	ErrNotFound = errors.New("workspace: not found")
	ErrConflict = errors.New("workspace: conflict")
	ErrEmpty    = errors.New("workspace: nothing changed")
	// ErrDenied is a push or fetch refused for missing rights; not retried.
	ErrDenied = errors.New("workspace: permission denied")
)
