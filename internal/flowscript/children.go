package flowscript

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// endChildren ends the open children of a run that ends, as they ask for.
func (p *player) endChildren(ctx context.Context, run checkpoints.Run) error {
	children, err := p.store.List(ctx, checkpoints.Filter{Parent: run.ID, Limit: maxTurns})
	if err != nil {
		return fmt.Errorf("looking for the children of run %s: %w", run.Key, err)
	}
	for _, c := range children {
		if c.Status.Final() || c.Status == checkpoints.Ending || c.Close == checkpoints.CloseAbandon {
			continue
		}
		err := p.store.Cancel(ctx, c.ID, checkpoints.Ended{Result: "cancelled", Code: "parent-ended", Reason: "its parent ended"})
		if err != nil && !errors.Is(err, checkpoints.ErrConflict) {
			return fmt.Errorf("cancelling run %s: %w", c.Key, err)
		}
	}
	return nil
}

// tellParent tells a parent that waits that its child has ended.
func (p *player) tellParent(ctx context.Context, run checkpoints.Run) error {
	if run.Parent == "" {
		return nil
	}
	return p.engine.ChildEnded(ctx, run)
}
