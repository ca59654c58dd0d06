package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/labels"
)

// finishTime bounds the end of a phase: a handful of calls.
const finishTime = 2 * time.Minute

// finish ends a phase: labels by the run's recorded result, the status
// comment, then the final status together with the next phase's run. It may be
// interrupted anywhere and is begun again from the recorded result.
func (w *Worker) finish(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	t, next, err := w.transition(ctx, log, &run)
	if err != nil {
		return w.retryFinish(ctx, log, run, l, err)
	}
	if err := w.relabel(ctx, run, t); err != nil {
		return w.retryFinish(ctx, log, run, l, err)
	}
	w.post(ctx, log, run, report.Ended)
	final := finalStatus(run.Result)
	if _, err := w.Store.Finish(ctx, l, final, next); err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	log.InfoContext(ctx, "phase ended", "result", run.Result, "code", run.Code, "reason", run.Reason, "next", string(t.Next))
	if w.Ended != nil {
		w.Ended(run, final)
	}
	return nil
}

func finalStatus(result string) checkpoints.Status {
	switch result {
	case "error":
		return checkpoints.Failed
	case "cancelled", "closed":
		return checkpoints.Cancelled
	}
	return checkpoints.Done
}

// transition reads the issue once more and decides where the phase leads. A
// person who took the label away meanwhile wins: nothing follows.
func (w *Worker) transition(ctx context.Context, log *slog.Logger, run *checkpoints.Run) (labels.Transition, *checkpoints.StartReq, error) {
	t := labels.After(labels.Phase(run.Phase), run.Result)
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return t, nil, err
	}
	issue, err := w.Forge.Issue(ctx, ref)
	gone := forge.IsKind(err, forge.KindNotFound)
	if err != nil && !gone {
		return t, nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	if t.Next == "" {
		return t, nil, nil
	}
	held := w.Names.Holds(issue.Labels, labels.Phase(run.Phase)) || w.Names.Holds(issue.Labels, t.Next)
	if gone || !issue.Open || !held {
		run.Result, run.Code, run.Reason = "cancelled", "label-gone", "the label was removed before the phase ended"
		return labels.After(labels.Phase(run.Phase), run.Result), nil, nil
	}
	next, err := w.Next.Next(ctx, *run, t.Next)
	if err != nil {
		log.ErrorContext(ctx, "next phase cannot start", "next", string(t.Next), "error", err)
		run.Result, run.Code, run.Reason = "error", "no-next-phase", err.Error()
		return labels.After(labels.Phase(run.Phase), run.Result), nil, nil
	}
	return t, &next, nil
}

// relabel makes the label changes one by one, each recorded: a crash between
// two of them is finished from the record, and a label that a person removed
// after the bot added it stays removed.
func (w *Worker) relabel(ctx context.Context, run checkpoints.Run, t labels.Transition) error {
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return err
	}
	issue, err := w.Forge.Issue(ctx, ref)
	if forge.IsKind(err, forge.KindNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the labels of %s: %w", ref, err)
	}
	for _, d := range w.deltas(t, run, issue.Labels) {
		change, sign := w.Forge.RemoveLabel, "-"
		if d.Add {
			change, sign = w.Forge.AddLabel, "+"
		}
		key := "run/" + run.ID + "/finish/" + sign + d.Label
		_, err := checkpoints.Once(ctx, w.Store, key, nil, doLabel(change, ref, d.Label))
		if forge.IsKind(err, forge.KindNotFound) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func doLabel(change func(context.Context, forge.Ref, string) error, ref forge.Ref, label string) checkpoints.Do {
	return func(ctx context.Context) (json.RawMessage, error) { return nil, change(ctx, ref, label) }
}

// deltas are the changes still wanted. A cancelled run takes off only what
// belongs to it: the person who cancelled may have set another phase already.
func (w *Worker) deltas(t labels.Transition, run checkpoints.Run, onIssue []string) []labels.Delta {
	all := t.Deltas(w.Names, onIssue)
	if run.Result != "cancelled" {
		return all
	}
	var own []labels.Delta
	for _, d := range all {
		if p, ok := w.Names.Of(d.Label); ok && p == labels.Phase(run.Phase) || labels.Same(d.Label, w.Names.Approved) {
			own = append(own, d)
		}
	}
	return own
}

// retryFinish parks an ending that the forge would not let through; a refusal
// for good ends the run without its labels, and says so in the log.
func (w *Worker) retryFinish(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease, cause error) error {
	var f *forge.Error
	if errors.As(cause, &f) && (f.Kind == forge.KindDenied || f.Kind == forge.KindInvalid) {
		log.ErrorContext(ctx, "labels cannot be changed", "error", cause)
		w.post(ctx, log, run, report.Ended)
		_, err := w.Store.Finish(ctx, l, checkpoints.Failed, nil)
		return err
	}
	// The lease runs out and the sweep brings the run back: that is the delay.
	return fmt.Errorf("finishing run %s: %w", run.ID, cause)
}
