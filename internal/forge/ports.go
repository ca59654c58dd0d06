package forge

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reader reads repositories and issues.
type Reader interface {
	// Repository returns a repository. KindNotFound.
	Repository(ctx context.Context, r Repo) (Repository, error)
	// Issue returns an issue with all its labels. KindNotFound when it is
	// gone or was transferred.
	Issue(ctx context.Context, ref Ref) (Issue, error)
	// Events returns the issue's whole event log, oldest first.
	Events(ctx context.Context, ref Ref) ([]IssueEvent, error)
	// Permission asks the collaborator-permission API; None for strangers.
	Permission(ctx context.Context, r Repo, login string) (Permission, error)
	// Self is the account that the bot acts as.
	Self(ctx context.Context) (Actor, error)
}

// Comments reads and writes the comments of an issue.
type Comments interface {
	// Comments lists all, oldest first.
	Comments(ctx context.Context, ref Ref) ([]Comment, error)
	// AddComment writes one.
	AddComment(ctx context.Context, ref Ref, body string) (Comment, error)
	// EditComment replaces a body. KindNotFound when it was deleted.
	EditComment(ctx context.Context, r Repo, id int64, body string) (Comment, error)
}

// Labels changes labels; never the whole set.
type Labels interface {
	// AddLabel adds one label; one that is there already is success.
	AddLabel(ctx context.Context, ref Ref, name string) error
	// RemoveLabel removes one; one that is not there is success.
	RemoveLabel(ctx context.Context, ref Ref, name string) error
	// RepoLabels lists the repository's labels.
	RepoLabels(ctx context.Context, r Repo) ([]Label, error)
	// PutLabel creates or updates a label of the repository.
	PutLabel(ctx context.Context, r Repo, l Label) error
}

// Pulls works with pull requests.
type Pulls interface {
	// PullsByHead lists open and closed pull requests of a head branch.
	PullsByHead(ctx context.Context, r Repo, branch string) ([]Pull, error)
	// Pull returns one. KindNotFound.
	Pull(ctx context.Context, ref Ref) (Pull, error)
	// OpenPull opens one. KindConflict when one is open for the head.
	OpenPull(ctx context.Context, r Repo, p NewPull) (Pull, error)
	// LinkedPulls lists pull requests that are linked to close the issue or
	// whose events cross-reference it from the same repository.
	LinkedPulls(ctx context.Context, ref Ref) ([]Pull, error)
}

// Reviews works with reviews and CI results.
type Reviews interface {
	// Reviews lists all reviews of a pull request, oldest first.
	Reviews(ctx context.Context, ref Ref) ([]Review, error)
	// AddReview submits one. KindInvalid when a comment sits outside the diff
	// or an author approves their own.
	AddReview(ctx context.Context, ref Ref, n NewReview) (Review, error)
	// Checks lists check runs and statuses of a commit.
	Checks(ctx context.Context, r Repo, sha string) ([]Check, error)
}

// Forge is all of it.
type Forge interface {
	Reader
	Comments
	Labels
	Pulls
	Reviews
}

// Kind is the reason of an Error.
type Kind string

// The kinds.
const (
	KindTransient   Kind = "transient"    // 5xx, network
	KindRateLimited Kind = "rate-limited" // primary or secondary
	KindDenied      Kind = "denied"       // 401, 403
	KindNotFound    Kind = "not-found"    // 404, 410
	KindConflict    Kind = "conflict"     // 409, 422 already exists
	KindInvalid     Kind = "invalid"      // 422
)

// Error is what a driver returns when the forge says no.
type Error struct {
	Kind Kind
	// Op is what was being done, e.g. "adding label".
	Op string
	// Status is the HTTP status, 0 when there was none.
	Status int
	// RetryAfter is how long to wait, 0 when unknown.
	RetryAfter time.Duration
	// Needs names the missing permission when the forge tells it.
	Needs string
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Op, e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Needs != "" {
		s += "; needs permission " + e.Needs
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsKind reports that err's chain holds an Error of kind k.
func IsKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}
