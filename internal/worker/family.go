package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/labels"
)

// maxFamily is the most levels that are climbed from a child to its root;
// flows nest less deep.
const maxFamily = 10

// root is the run of the phase in which a child works, the run itself when it
// is no child. orphan means that a run on the way up is over: its children go
// on by themselves.
func (w *Worker) root(ctx context.Context, run checkpoints.Run) (root checkpoints.Run, orphan bool, err error) {
	root = run
	for range maxFamily {
		if root.Parent == "" {
			return root, orphan, nil
		}
		parent, err := w.Store.Get(ctx, root.Parent)
		if errors.Is(err, checkpoints.ErrNotFound) {
			return root, true, nil // deleted since
		}
		if err != nil {
			return root, orphan, fmt.Errorf("reading the parent of run %s: %w", root.ID, err)
		}
		root, orphan = parent, orphan || parent.Status.Final()
	}
	return root, orphan, fmt.Errorf("run %s is more than %d levels deep", run.ID, maxFamily)
}

// rules say by which phase's label a run may work: its root's. A child that
// outlives the run that started it is free of it.
func (w *Worker) rules(ctx context.Context, run checkpoints.Run) (p labels.Phase, free bool, err error) {
	root, orphan, err := w.root(ctx, run)
	return labels.Phase(root.Phase), orphan, err
}

// postRoot brings the comment of a child's root up to date.
func (w *Worker) postRoot(ctx context.Context, log *slog.Logger, child checkpoints.Run) {
	root, orphan, err := w.root(ctx, child)
	if err != nil {
		log.WarnContext(ctx, "status comment not written", "error", err)
		return
	}
	state, ok := map[checkpoints.Status]report.State{
		checkpoints.Ready: report.Working, checkpoints.Running: report.Working,
		checkpoints.Waiting: report.Waiting, checkpoints.Halted: report.Halted,
	}[root.Status]
	if ok && !orphan {
		w.post(ctx, log, root, state)
	}
}

// closeChildren cancels the open children that end with the run. Their own
// work is then finished by whoever has them.
func (w *Worker) closeChildren(ctx context.Context, run checkpoints.Run) error {
	open, err := w.Store.IDs(ctx, checkpoints.Filter{Parent: run.ID, Statuses: []checkpoints.Status{
		checkpoints.Queued, checkpoints.Ready, checkpoints.Running, checkpoints.Waiting, checkpoints.Halted,
	}})
	if err != nil {
		return fmt.Errorf("looking for the children of run %s: %w", run.ID, err)
	}
	for _, id := range open { // one at a time: there may be any number of them
		child, err := w.Store.Get(ctx, id)
		if errors.Is(err, checkpoints.ErrNotFound) || err == nil && child.Close == checkpoints.CloseAbandon {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading child %s of run %s: %w", id, run.ID, err)
		}
		why := fmt.Sprintf("run %s, which started it, is over (%s)", run.ID, run.Result)
		if err := w.End(ctx, id, checkpoints.Ended{Result: "cancelled", Code: "parent-ended", Reason: why}); err != nil {
			return err
		}
	}
	return nil
}

// finishChild ends a child: its own children first, then its parent is told,
// before the row is final. A child has no label and no phase after it.
func (w *Worker) finishChild(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease) error {
	if err := w.Walker.ChildEnded(ctx, run); err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	return w.finishPlain(ctx, log, run, l)
}

// finishPlain ends a run that no label follows: a child, or a shadow run.
func (w *Worker) finishPlain(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease) error {
	final := engine.StatusOf(run.Result)
	if _, err := w.Store.Finish(ctx, l, final, nil); err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	log.InfoContext(ctx, "run ended", "flow", run.Flow, "parent", run.Parent, "mode", run.Mode,
		"result", run.Result, "code", run.Code, "reason", run.Reason)
	if w.Ended != nil {
		w.Ended(run, final)
	}
	return nil
}
