package issue

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// NeedsHuman is the result of every phase in which a person must decide.
const NeedsHuman = "needs_human"

// Closed is the result of every phase whose issue is no longer open to work.
const Closed = "closed"

// End is a planned early end: the flow's result with a code and a reason in
// words.
func End(result, code, format string, args ...any) flows.Result {
	reason := fmt.Sprintf(format, args...)
	return flows.Result{
		Delta: flows.Delta{"result": result},
		Stop:  &flows.Stop{Code: code, Reason: reason},
		Note:  reason,
	}
}

// Standing says whether the issue is still open to work; the result is an
// early end when stop is true.
func Standing(i forge.Issue) (r flows.Result, stop bool) {
	switch {
	case i.Pull:
		return End(Closed, "is-pull-request", "%s is a pull request, not an issue.", i.Ref), true
	case !i.Open:
		return End(Closed, "issue-closed", "The issue is closed."), true
	case i.Locked:
		return End(Closed, "issue-locked", "The issue is locked."), true
	}
	return flows.Result{}, false
}

// Read reads the issue now and says whether it is still open to work; an
// issue that is gone is an early end too.
func Read(ctx context.Context, r interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
}, ref forge.Ref) (i forge.Issue, end flows.Result, stop bool, err error) {
	i, err = r.Issue(ctx, ref)
	if forge.IsKind(err, forge.KindNotFound) {
		return i, End(Closed, "issue-gone", "The issue was deleted, transferred or converted."), true, nil
	}
	if err != nil {
		return i, end, false, fmt.Errorf("reading %s: %w", ref, err)
	}
	end, stop = Standing(i)
	return i, end, stop, nil
}

// Ref is the issue that the run is about.
func Ref(c flows.Call) (forge.Ref, error) {
	repo, err := forge.ParseRepo(c.Run.Repo)
	if err != nil {
		return forge.Ref{}, err
	}
	return forge.Ref{Repo: repo, Number: c.Run.Issue}, nil
}

// Run is the function of an action.
type Run = func(ctx context.Context, c flows.Call) (flows.Result, error)

// Guard wraps an action's function: what the forge says may pass becomes
// flows.Retry, and a missing permission becomes an early end for a person,
// since no repetition helps. The action must be allowed to write `result`.
func Guard(run Run) Run {
	return func(ctx context.Context, c flows.Call) (flows.Result, error) {
		r, err := run(ctx, c)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		var f *forge.Error
		denied := errors.Is(err, workspace.ErrDenied)
		if errors.As(err, &f) && f.Kind == forge.KindDenied {
			denied = true
		}
		if denied {
			needs := ""
			if f != nil && f.Needs != "" {
				needs = " The missing permission is " + f.Needs + "."
			}
			return End(NeedsHuman, "permission-denied", "The forge refused: %v.%s", err, needs), nil
		}
		return r, Retryable(err)
	}
}

// Retryable turns a passing failure of the forge into a flows.Retry; other
// errors stay as they are.
func Retryable(err error) error {
	var f *forge.Error
	var already *flows.Retry
	if errors.As(err, &already) || !errors.As(err, &f) {
		return err
	}
	switch f.Kind {
	case forge.KindTransient, forge.KindRateLimited:
		return &flows.Retry{Cause: string(f.Kind), After: f.RetryAfter, Err: err}
	default:
		return err
	}
}
