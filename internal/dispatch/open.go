package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// openRun is the run of the issue's phase that is not final, or the one that
// an operator named; nil when there is none.
func (d *Dispatcher) openRun(ctx context.Context, ev forge.Event) (*labels.Run, error) {
	if ev.Order != nil && ev.Order.Run != "" {
		run, err := d.Store.Get(ctx, ev.Order.Run)
		if errors.Is(err, checkpoints.ErrNotFound) || err == nil && run.Status.Final() {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading run %s: %w", ev.Order.Run, err)
		}
		return viewOf(run), nil
	}
	var runs []checkpoints.Run // newest first
	for r, err := range d.runs(ctx, checkpoints.Filter{Repo: ev.Issue.Repo.String(), Issue: ev.Issue.Number, Roots: true, Statuses: []checkpoints.Status{
		checkpoints.Queued, checkpoints.Ready, checkpoints.Running, checkpoints.Waiting, checkpoints.Halted, checkpoints.Ending,
	}}) {
		if err != nil {
			return nil, fmt.Errorf("looking for the open runs of %s: %w", ev.Issue, err)
		}
		if r.Mode != checkpoints.ModeShadow {
			runs = append([]checkpoints.Run{r}, runs...)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	if err := d.replaceLeft(ctx, runs); err != nil {
		return nil, err
	}
	// One that works goes before one that waits for it to end.
	at := slices.IndexFunc(runs, func(r checkpoints.Run) bool { return r.Status != checkpoints.Queued })
	return viewOf(runs[max(at, 0)]), nil
}

// replaceLeft ends what a queued run of the issue replaces: a crash may have
// come between its start and that.
func (d *Dispatcher) replaceLeft(ctx context.Context, runs []checkpoints.Run) error {
	for _, r := range runs {
		if r.Status != checkpoints.Queued || r.Replaces == "" {
			continue
		}
		if err := d.Interrupter.End(ctx, r.Replaces, checkpoints.ReplacedBy(r.ID)); err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
			return fmt.Errorf("ending the run that %s replaces: %w", r.ID, err)
		}
	}
	return nil
}

func viewOf(r checkpoints.Run) *labels.Run {
	view := &labels.Run{ID: r.ID, Phase: labels.Phase(r.Phase), Status: string(r.Status)}
	if r.Wait != nil {
		view.Awaits = r.Wait.Event
	}
	return view
}

// runs are all runs of a filter with statuses, oldest first, one at a time:
// there may be any number of them. One that has another status when its turn
// comes is left out. After an error nothing comes.
func (d *Dispatcher) runs(ctx context.Context, f checkpoints.Filter) iter.Seq2[checkpoints.Run, error] {
	return func(yield func(checkpoints.Run, error) bool) {
		ids, err := d.Store.IDs(ctx, f)
		if err != nil {
			yield(checkpoints.Run{}, err)
			return
		}
		for _, id := range ids {
			r, err := d.Store.Get(ctx, id)
			if errors.Is(err, checkpoints.ErrNotFound) || err == nil && !slices.Contains(f.Statuses, r.Status) {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// waiting is what a comment can be for beside the issue's run itself: the run
// of the issue that has waited longest at an approval node, its children
// included, when it is a command; else the child that has waited longest for
// an answer. A shadow run asks nobody but operators.
func (d *Dispatcher) waiting(ctx context.Context, ev forge.Event) (*labels.Approval, string, error) {
	if ev.Kind != forge.Commented && ev.Kind != forge.IssueEdited {
		return nil, "", nil
	}
	_, command := labels.ParseCommand(commentOf(ev))
	waiting := checkpoints.Filter{Repo: ev.Issue.Repo.String(), Issue: ev.Issue.Number, Statuses: []checkpoints.Status{checkpoints.Waiting}}
	for r, err := range d.runs(ctx, waiting) {
		if err != nil {
			return nil, "", fmt.Errorf("looking for what waits at %s: %w", ev.Issue, err)
		}
		if r.Mode == checkpoints.ModeShadow {
			continue
		}
		if !command && r.Parent != "" && r.Wait.Awaits("answer") {
			return nil, r.ID, nil
		}
		if approvers, ok := d.Flows.Approvers(r); command && ok {
			return &labels.Approval{Run: r.ID, Flow: r.Flow, Approvers: approvers}, "", nil
		}
	}
	return nil, "", nil
}

func commentOf(ev forge.Event) string {
	if ev.Comment == nil {
		return ""
	}
	return ev.Comment.Body
}
