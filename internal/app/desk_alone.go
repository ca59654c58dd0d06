package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Served reports whether a daemon, or a `pipelinebot run`, works on the store
// now, and thus decides on what an operator asks for.
func (d *Desk) Served() (bool, error) {
	_, held, err := sqlite.Held(d.path)
	return held, err
}

// Cancel records that the operator wants a run to end, and sees to it: a
// daemon is asked by an inbox row; without one, a run that nobody has claimed
// ends at once, which the next daemon finishes. Its work is saved then, its
// labels put right, its children ended. row is "" when nobody had to be asked.
func (d *Desk) Cancel(ctx context.Context, run checkpoints.Run, why string) (row string, err error) {
	served, err := d.Served()
	if err != nil {
		return "", err
	}
	if served {
		return d.Order(ctx, run, forge.ManualCancel, forge.Order{}, "cancel", why)
	}
	if err := d.note(ctx, run.ID, "cancel", why); err != nil {
		return "", err
	}
	reason := "an operator cancelled the run"
	if why != "" {
		reason += ": " + why
	}
	err = d.store.Cancel(ctx, run.ID, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: reason})
	if errors.Is(err, checkpoints.ErrBusy) || errors.Is(err, checkpoints.ErrConflict) {
		// Claimed by a daemon that died, or about to end.
		return d.send(ctx, run, forge.ManualCancel, forge.Order{})
	}
	if err != nil {
		return "", fmt.Errorf("cancelling run %s: %w", run.ID, err)
	}
	return "", nil
}
