package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

const (
	// firstPause is how long a run parks when its issue cannot be read,
	// longestPause the most after many tries or when GitHub names no more.
	firstPause   = 30 * time.Second
	longestPause = 10 * time.Minute
	// goneTries and goneTime are how often, and over how long, a repository
	// must be answered with 404 before it counts as gone for good: a renamed
	// or a private one may come back within minutes.
	goneTries = 10
	goneTime  = time.Hour
)

// codeRepositoryGone is the code of a run that ended for want of its
// repository.
const codeRepositoryGone = "repository-gone"

// absence is what is kept of a repository that cannot be found.
type absence struct {
	Since time.Time `json:"since"`
	Tries int       `json:"tries"`
}

func absenceKey(runID string) string { return "run/" + runID + "/unreachable" }

// missing counts one more 404 of a run's repository; gone means that there
// were so many that nobody need wait any longer.
func (w *Worker) missing(ctx context.Context, runID string) (a absence, gone bool, err error) {
	if a, err = w.absent(ctx, runID); err != nil {
		return a, false, err
	}
	now := w.Clock.Now()
	if a.Tries == 0 {
		a.Since = now
	}
	a.Tries++
	return a, a.Tries >= goneTries && now.Sub(a.Since) >= goneTime, w.keepAbsence(ctx, runID, a)
}

// found forgets an absence: the repository is there again.
func (w *Worker) found(ctx context.Context, runID string) error {
	a, err := w.absent(ctx, runID)
	if err != nil || a.Tries == 0 {
		return err
	}
	return w.keepAbsence(ctx, runID, absence{})
}

func (w *Worker) absent(ctx context.Context, runID string) (a absence, err error) {
	value, err := w.Store.Effect(ctx, absenceKey(runID))
	if errors.Is(err, checkpoints.ErrNotFound) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(value, &a)
	}
	if err != nil {
		return a, fmt.Errorf("looking for how long the repository of run %s is missing: %w", runID, err)
	}
	return a, nil
}

func (w *Worker) keepAbsence(ctx context.Context, runID string, a absence) error {
	value, err := json.Marshal(a)
	if err == nil {
		err = w.Store.RecordEffect(ctx, absenceKey(runID), value)
	}
	if err != nil {
		return fmt.Errorf("recording how long the repository of run %s is missing: %w", runID, err)
	}
	return nil
}

// goneEnd is how a run ends whose repository is gone for good.
func goneEnd(run checkpoints.Run, a absence) checkpoints.Ended {
	return checkpoints.Ended{
		Result: "error", Code: codeRepositoryGone,
		Reason: fmt.Sprintf("the repository %s cannot be found since %s: it was deleted or renamed, or the bot lost its access",
			run.Repo, a.Since.UTC().Format("2006-01-02 15:04 MST")),
	}
}

// pause is how long to leave the forge alone after the given number of
// failures in a row: twice as long each time, and never less than it asked
// for.
func pause(first time.Duration, failures int, err error) time.Duration {
	d := first
	for range failures - 1 {
		if d >= longestPause {
			break
		}
		d = min(2*d, longestPause)
	}
	var f *forge.Error
	if errors.As(err, &f) {
		d = max(d, min(f.RetryAfter, maxRetryAfter))
	}
	return d
}

// maxRetryAfter bounds what the forge may ask for; primary limits are over
// within an hour.
const maxRetryAfter = 2 * time.Hour

// repositoryGone is an error of reading a repository that is not there.
type repositoryGone struct{ error }

func (e repositoryGone) Unwrap() error { return e.error }

// reachable tells an issue that is gone from a repository that the bot cannot
// see any more: GitHub says 404 to both.
func (w *Worker) reachable(ctx context.Context, r forge.Repo) error {
	_, err := w.Forge.Repository(ctx, r)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("reading the repository %s: %w", r, err)
	if forge.IsKind(err, forge.KindNotFound) {
		return repositoryGone{err}
	}
	return err
}
