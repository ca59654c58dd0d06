package gitws

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// Git tells network failures in words only. The words are those of git 2.36 to
// 2.50 and curl with LC_ALL=C, and of GitHub's servers; what is not recognised
// stays a plain error and is not retried.
var (
	unauthorised = regexp.MustCompile(`(?i)Authentication failed|could not read (?:Username|Password)|returned error: 401|Invalid username or (?:password|token)`)
	denied       = regexp.MustCompile(`(?i)returned error: 403|Permission to \S+ denied|Write access to repository not granted|` +
		`refusing to allow|protected branch|pre-receive hook declined|fsck error|GH006|GH013|not allowed to push|permission denied`)
	absent   = regexp.MustCompile(`(?i)returned error: 404|[Rr]epository .*not found|does not appear to be a git repository|does not exist`)
	limited  = regexp.MustCompile(`(?i)returned error: 429|rate limit`)
	unstable = regexp.MustCompile(`(?i)Could not resolve host|Failed to connect|Couldn't connect|Connection (?:refused|reset|timed out|was reset)|` +
		`returned error: 5\d\d|RPC failed|unexpected disconnect|early EOF|hung up unexpectedly|Operation too slow|` +
		`timed? ?out|Empty reply from server|Recv failure|Send failure|SSL_(?:read|connect|ERROR_SYSCALL)|transfer closed|server closed|TLS connection was non-properly terminated|fetch-pack: invalid`)
)

func (f *failure) refused() bool { return unauthorised.MatchString(f.message) }

// classify turns the failure of a call to the remote into what callers decide
// by: workspace.ErrDenied, workspace.ErrNotFound, or a *flows.Retry with cause
// "transient" or "rate-limited". A deadline of ours is transient; the caller's
// own context is not.
func classify(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		if errors.Is(err, context.DeadlineExceeded) {
			return &flows.Retry{Cause: "transient", Err: err}
		}
		return err
	}
	text := f.message + "\n" + string(f.output)
	switch {
	case limited.MatchString(text):
		return &flows.Retry{Cause: "rate-limited", Err: err}
	case unauthorised.MatchString(text), denied.MatchString(text):
		return fmt.Errorf("%w: %w", workspace.ErrDenied, err)
	case absent.MatchString(text):
		return fmt.Errorf("%w: %w", workspace.ErrNotFound, err)
	case unstable.MatchString(text):
		return &flows.Retry{Cause: "transient", Err: err}
	}
	return err
}
