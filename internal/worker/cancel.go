package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// Cancel asks for the end of a run that somebody has claimed. The request is
// kept in the store, so that it outlives this process and reaches the run
// between two claims; work in flight here ends at once, with its work saved.
func (w *Worker) Cancel(ctx context.Context, runID string, e checkpoints.Ended) error {
	value, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding the cancel of run %s: %w", runID, err)
	}
	if err := w.Store.RecordEffect(ctx, cancelKey(runID), value); err != nil {
		return fmt.Errorf("recording the cancel of run %s: %w", runID, err)
	}
	w.flights.end(runID, engine.Cancel(e))
	return nil
}

// End ends a run wherever it is: at rest in the store, or claimed. The holder
// of a claimed one is asked, and the store once more: the run may have been
// given up just before the request could be seen. A run that is over already,
// or about to be, is left as it is.
func (w *Worker) End(ctx context.Context, runID string, e checkpoints.Ended) error {
	err := w.Store.Cancel(ctx, runID, e)
	if errors.Is(err, checkpoints.ErrBusy) {
		if err := w.Cancel(ctx, runID, e); err != nil {
			return err
		}
		err = w.Store.Cancel(ctx, runID, e)
	}
	if err == nil || errors.Is(err, checkpoints.ErrConflict) || errors.Is(err, checkpoints.ErrBusy) {
		return nil
	}
	return fmt.Errorf("cancelling run %s: %w", runID, err)
}

func cancelKey(runID string) string { return "run/" + runID + "/cancel" }

// asked returns the request to cancel a run, if there is one.
func (w *Worker) asked(ctx context.Context, runID string) (e checkpoints.Ended, ok bool, err error) {
	value, err := w.Store.Effect(ctx, cancelKey(runID))
	if errors.Is(err, checkpoints.ErrNotFound) {
		return e, false, nil
	}
	if err == nil {
		err = json.Unmarshal(value, &e)
	}
	if err != nil {
		return e, false, fmt.Errorf("looking for a cancel of run %s: %w", runID, err)
	}
	return e, true, nil
}

// obey ends a run that was given up although its cancel had been asked for:
// the request came too late for the walk. Whoever has claimed the run since
// sees the request by itself.
func (w *Worker) obey(ctx context.Context, runID string) (cancelled bool, err error) {
	e, ok, err := w.asked(ctx, runID)
	if err != nil || !ok {
		return false, err
	}
	err = w.Store.Cancel(ctx, runID, e)
	if err != nil && !errors.Is(err, checkpoints.ErrBusy) && !errors.Is(err, checkpoints.ErrConflict) {
		return false, fmt.Errorf("cancelling run %s: %w", runID, err)
	}
	return true, nil
}
