package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/labels"
)

// finishTime bounds the end of a phase: a handful of calls.
const finishTime = 2 * time.Minute

// finish ends a phase: labels by the run's recorded result, the status
// comment, then the final status together with the next phase's run. It may be
// interrupted anywhere and is begun again from the recorded result: after an
// error the lease runs out, and the sweep brings the run back.
func (w *Worker) finish(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := w.closeChildren(ctx, run); err != nil {
		return err
	}
	switch {
	case run.Parent != "":
		return w.finishChild(ctx, log, run, l)
	case run.Mode == checkpoints.ModeShadow:
		w.post(ctx, log, run, report.Ended) // of a look; others are told of nowhere
		return w.finishPlain(ctx, log, run, l)
	}
	was := endOf(run)
	next, err := w.settle(ctx, log, &run)
	if err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	if now := endOf(run); now != was {
		if err := w.Store.End(ctx, l, now); err != nil {
			return fmt.Errorf("finishing run %s as %s: %w", run.ID, now.Result, err)
		}
	}
	w.post(ctx, log, run, report.Ended)
	final := engine.StatusOf(run.Result)
	started, err := w.Store.Finish(ctx, l, final, next)
	if errors.Is(err, checkpoints.ErrConflict) && started != nil {
		if next.Concurrency != "" && started.Concurrency == next.Concurrency && !labels.Same(started.Key, next.Key) {
			return w.rejected(ctx, log, run, l, *started)
		}
		log.WarnContext(ctx, "the next phase is open already", "next", started.ID)
		next = nil
		_, err = w.Store.Finish(ctx, l, final, nil)
	}
	if err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	if next != nil && started != nil && started.Replaces != "" {
		if err := w.End(ctx, started.Replaces, checkpoints.ReplacedBy(started.ID)); err != nil {
			return err
		}
	}
	log.InfoContext(ctx, "phase ended", "result", run.Result, "code", run.Code, "reason", run.Reason, "next", phaseOf(next))
	if w.Ended != nil {
		w.Ended(run, final)
	}
	return nil
}

// rejected ends a run whose next phase may not start beside another run of its
// concurrency key: a person has to decide.
func (w *Worker) rejected(ctx context.Context, log *slog.Logger, run checkpoints.Run, l checkpoints.Lease, other checkpoints.Run) error {
	end := checkpoints.Ended{
		Result: "error", Code: "concurrency",
		Reason: fmt.Sprintf("the next phase cannot start while run %s of %s is open: both have the concurrency key %q", other.ID, other.Key, other.Concurrency),
	}
	if err := w.Store.End(ctx, l, end); err != nil {
		return fmt.Errorf("finishing run %s: %w", run.ID, err)
	}
	run.Result, run.Code, run.Reason = end.Result, end.Code, end.Reason
	return w.finish(ctx, log, run, l)
}

func endOf(run checkpoints.Run) checkpoints.Ended {
	return checkpoints.Ended{Result: run.Result, Code: run.Code, Reason: run.Reason}
}

func phaseOf(next *checkpoints.StartReq) string {
	if next == nil {
		return ""
	}
	return next.Phase
}

// settle reads the issue once more, decides where the phase leads, and changes
// the labels. run's result is changed where the phase does not end as its flow
// said.
func (w *Worker) settle(ctx context.Context, log *slog.Logger, run *checkpoints.Run) (next *checkpoints.StartReq, err error) {
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return nil, err
	}
	issue, err := w.Forge.Issue(ctx, ref)
	gone := forge.IsKind(err, forge.KindNotFound)
	if err != nil && !gone {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	if gone && engine.StatusOf(run.Result) != checkpoints.Cancelled && run.Code != codeRepositoryGone {
		if err := w.findRepository(ctx, log, ref.Repo, run); err != nil {
			return nil, err
		}
	}
	t, next, err := w.transition(ctx, log, run, issue, gone)
	if err != nil || gone {
		return next, err
	}
	if run.Code == checkpoints.Replaced {
		taken, err := w.takenOver(ctx, *run)
		if err != nil || taken {
			return nil, err // the labels are the newer run's
		}
	}
	err = w.relabel(ctx, ref, *run, t, issue.Labels)
	var f *forge.Error
	switch {
	case forge.IsKind(err, forge.KindNotFound):
		return next, nil // gone meanwhile
	case errors.As(err, &f) && (f.Kind == forge.KindDenied || f.Kind == forge.KindInvalid):
		// It would be refused again: the run ends here, and a person is told
		// in the comment, since the labels cannot tell.
		log.ErrorContext(ctx, "labels cannot be changed", "error", err)
		run.Result, run.Code, run.Reason = "error", "labels-refused", "the labels cannot be changed: "+err.Error()
		if f.Kind == forge.KindDenied {
			run.Code = "permission-denied"
		}
		return nil, nil
	}
	return next, err
}

// findRepository fails while the repository cannot be read. One that is gone
// for good is how the run ends.
func (w *Worker) findRepository(ctx context.Context, log *slog.Logger, r forge.Repo, run *checkpoints.Run) error {
	err := w.reachable(ctx, r)
	if err == nil || !errors.As(err, new(repositoryGone)) {
		return err
	}
	a, gone, keepErr := w.missing(ctx, run.ID)
	if keepErr != nil {
		return keepErr
	}
	if !gone {
		return err
	}
	log.ErrorContext(ctx, "repository is gone", "error", err)
	end := goneEnd(*run, a)
	run.Result, run.Code, run.Reason = end.Result, end.Code, end.Reason
	return nil
}

// transition decides where the phase leads. A person who took the label away
// meanwhile wins: nothing follows.
func (w *Worker) transition(ctx context.Context, log *slog.Logger, run *checkpoints.Run, issue forge.Issue, gone bool) (labels.Transition, *checkpoints.StartReq, error) {
	phase := labels.Phase(run.Phase)
	t := labels.After(phase, run.Result)
	if t.Next == "" {
		return t, nil, nil
	}
	why := ""
	switch {
	case gone:
		why = "the issue is gone"
	case !issue.Open:
		why = "the issue was closed before the phase ended"
	case !w.Names.Holds(issue.Labels, phase) && !w.Names.Holds(issue.Labels, t.Next):
		why = "the label was removed before the phase ended"
	}
	if why != "" {
		run.Result, run.Code, run.Reason = "cancelled", "label-gone", why
		return labels.After(phase, run.Result), nil, nil
	}
	if nowhere, err := w.leadsNowhere(ctx, run, t.Next); err != nil || nowhere {
		return labels.After(phase, run.Result), nil, err
	}
	next, err := w.Next.Next(ctx, *run, t.Next)
	if errors.Is(err, handoff.ErrUnfit) {
		log.ErrorContext(ctx, "next phase cannot start", "next", string(t.Next), "error", err)
		run.Result, run.Code, run.Reason = "error", "no-next-phase", err.Error()
		return labels.After(phase, run.Result), nil, nil
	}
	if err != nil {
		return t, nil, fmt.Errorf("building the %s phase: %w", t.Next, err)
	}
	return t, &next, nil
}

// takenOver reports that another open run of the issue has the phase: what the
// replaced one leaves behind is that run's.
func (w *Worker) takenOver(ctx context.Context, run checkpoints.Run) (bool, error) {
	runs, err := w.Store.List(ctx, checkpoints.Filter{Repo: run.Repo, Issue: run.Issue, Phase: run.Phase, Statuses: []checkpoints.Status{
		checkpoints.Queued, checkpoints.Ready, checkpoints.Running, checkpoints.Waiting, checkpoints.Halted,
	}})
	if err != nil {
		return false, fmt.Errorf("looking for the run that replaces %s: %w", run.ID, err)
	}
	return slices.ContainsFunc(runs, func(r checkpoints.Run) bool { return r.Key == run.Key && r.ID != run.ID }), nil
}

// relabel makes the label changes one by one, each recorded: a crash between
// two of them is finished from the record, and a label that a person removed
// after the bot added it stays removed.
func (w *Worker) relabel(ctx context.Context, ref forge.Ref, run checkpoints.Run, t labels.Transition, onIssue []string) error {
	for _, d := range w.deltas(t, run, onIssue) {
		change, sign := w.Forge.RemoveLabel, "-"
		if d.Add {
			change, sign = w.Forge.AddLabel, "+"
		}
		key := "run/" + run.ID + "/finish/" + sign + d.Label
		if _, err := checkpoints.Once(ctx, w.Store, key, nil, doLabel(change, ref, d.Label)); err != nil {
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
