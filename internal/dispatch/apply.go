package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// apply carries out a decision. Every step may be repeated: a crash leaves the
// row pending and it comes again. The returned decision says what became of it.
func (d *Dispatcher) apply(ctx context.Context, rowID string, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	ref, source := in.Event.Issue, sourceKey(rowID, in.Event)
	dec, err := d.act(ctx, source, in, dec)
	switch {
	case errors.Is(err, errCovered):
		return dec, nil
	case errors.Is(err, handoff.ErrUnfit):
		dec = d.unfit(dec, err)
	case err != nil:
		return dec, err
	}
	// Told before the labels change: once a refused label is off, the next try
	// would find nothing left to refuse.
	if dec.Tell {
		may, err := d.within(ctx, ref, refusals, source, d.Comments)
		if err != nil {
			return dec, err
		}
		if may {
			err = d.tell(ctx, ref, source, told(in.Actor.Login, dec.Why))
		} else {
			d.Log.WarnContext(ctx, "not told: the issue had its comments for this hour", "issue", ref.String(), "why", dec.Why)
		}
		if err != nil && !refused(err) {
			return dec, fmt.Errorf("telling why: %w", err)
		}
		if err != nil {
			d.Log.ErrorContext(ctx, "comment cannot be written", "issue", ref.String(), "error", err)
		}
	}
	return d.relabel(ctx, ref, dec)
}

// relabel makes the decision's label changes. One that is refused does not
// undo the decision: it is added to its words.
func (d *Dispatcher) relabel(ctx context.Context, ref forge.Ref, dec labels.Decision) (labels.Decision, error) {
	for _, delta := range dec.Deltas {
		change, what := d.Forge.RemoveLabel, "removing"
		if delta.Add {
			change, what = d.Forge.AddLabel, "adding"
		}
		err := change(ctx, ref, delta.Label)
		if err != nil && !refused(err) {
			return dec, fmt.Errorf("%s label %s: %w", what, delta.Label, err)
		}
		if err != nil {
			d.Log.ErrorContext(ctx, "label cannot be changed", "issue", ref.String(), "label", delta.Label, "error", err)
			dec.Why += "; " + what + " label " + delta.Label + " was refused: " + err.Error()
		}
	}
	return dec, nil
}

// refused reports that the forge said no for good: what was read a moment ago
// may not be written, and asking again every few seconds would not change that.
func refused(err error) bool {
	return forge.IsKind(err, forge.KindDenied) || forge.IsKind(err, forge.KindInvalid) || forge.IsKind(err, forge.KindNotFound)
}

// unfit is the refusal to start a run that cannot be built: the labels that
// asked for it come off, and people are told.
func (d *Dispatcher) unfit(dec labels.Decision, cause error) labels.Decision {
	no := labels.Decision{Action: labels.Refuse, Phase: dec.Phase, Rule: dec.Rule, Tell: true, Why: cause.Error()}
	no.Deltas = append(no.Deltas, labels.Delta{Label: d.Machine.Names.For(dec.Phase), Reason: no.Why})
	for _, delta := range dec.Deltas {
		if !delta.Add {
			no.Deltas = append(no.Deltas, delta)
		}
	}
	return no
}

// errCovered means that an earlier run answers the event: nothing is left to do
// or to say.
var errCovered = errors.New("dispatch: covered")

// sourceKey names what happened, not who told of it, so that a webhook and a
// poll of one event are answered once.
func sourceKey(rowID string, ev forge.Event) string {
	switch {
	case ev.LogID != 0:
		return fmt.Sprintf("label-event/%d", ev.LogID)
	case ev.Comment != nil:
		return fmt.Sprintf("comment/%d", ev.Comment.ID)
	}
	return "row/" + rowID
}

func (d *Dispatcher) act(ctx context.Context, source string, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	ref := in.Event.Issue
	switch dec.Action {
	case labels.Start:
		return d.start(ctx, source, in, dec)
	case labels.Resume:
		return d.resume(ctx, in, dec)
	case labels.Status, labels.Help:
		return dec, d.inform(ctx, source, in, dec)
	case labels.Look:
		return d.look(ctx, source, in, dec)
	case labels.Replace:
		if err := d.cancel(ctx, in.Run.ID, "cancelled", "replaced: "+dec.Why); err != nil {
			return dec, err
		}
		return dec, errLater
	case labels.Cancel:
		result, _ := dec.Data["result"].(string)
		code, ok := dec.Data["code"].(string)
		if !ok {
			code = "cancelled"
		}
		return dec, d.Interrupter.End(ctx, in.Run.ID, checkpoints.Ended{Result: result, Code: code, Reason: dec.Why})
	case labels.StopIssue:
		return d.stop(ctx, source, in, ref.String(), dec)
	case labels.StopRepo:
		return d.stop(ctx, source, in, ref.Repo.String(), dec)
	case labels.LiftIssue:
		return d.lift(ctx, in, ref.String(), dec)
	case labels.LiftRepo:
		return d.lift(ctx, in, ref.Repo.String(), dec)
	case labels.Deliver:
		return d.deliver(ctx, source, in, dec)
	case labels.Later:
		return dec, errLater
	case labels.Ignore, labels.Refuse:
		return dec, nil // nothing to do but to say so
	default:
		return dec, fmt.Errorf("there is no action %q", dec.Action)
	}
}

func (d *Dispatcher) start(ctx context.Context, source string, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	req, err := d.request(ctx, source, in, dec)
	if err != nil {
		return dec, err
	}
	if no, err := d.leadsNowhere(ctx, source, in, dec); err != nil || no != nil {
		if err != nil {
			return dec, err
		}
		return *no, nil
	}
	if no, err := d.addLabels(ctx, in.Event.Issue, dec); err != nil || no != nil {
		if err != nil {
			return dec, err
		}
		return *no, nil
	}
	run, err := d.Store.Start(ctx, req)
	switch {
	case errors.Is(err, checkpoints.ErrConflict) && req.Concurrency != "" && run.Concurrency == req.Concurrency && !labels.Same(run.Key, req.Key):
		return d.rejected(dec, run), nil
	case errors.Is(err, checkpoints.ErrConflict):
		if run.Trigger == source { // this row has started it, before a crash
			if err := errors.Join(d.noteStart(ctx, run, in.Event), d.vouch(ctx, run.ID, in.Actor)); err != nil {
				return dec, err
			}
		}
		dec.Why = "run " + run.ID + " covers this already"
		return dec, errCovered
	case err != nil:
		return dec, fmt.Errorf("starting the run: %w", err)
	}
	if err := errors.Join(d.noteStart(ctx, run, in.Event), d.vouch(ctx, run.ID, in.Actor)); err != nil {
		return dec, err
	}
	if run.Replaces != "" {
		if err := d.Interrupter.End(ctx, run.Replaces, checkpoints.ReplacedBy(run.ID)); err != nil {
			return dec, fmt.Errorf("ending the run that %s replaces: %w", run.ID, err)
		}
		dec.Why += "; it replaces run " + run.Replaces
	}
	if run.Status == checkpoints.Queued {
		dec.Why += "; it waits for an earlier run of " + run.Concurrency
	}
	return dec, nil
}

// rejected is the refusal of a start beside an open run of its concurrency
// key; the labels that asked for it come off.
func (d *Dispatcher) rejected(dec labels.Decision, other checkpoints.Run) labels.Decision {
	return d.unfit(dec, fmt.Errorf("run %s of %s is open and has the same concurrency key, %q: try again when it is over",
		other.ID, other.Key, other.Concurrency))
}

func (d *Dispatcher) wake(ctx context.Context, runID string) error {
	err := d.Store.Wake(ctx, runID)
	if errors.Is(err, checkpoints.ErrConflict) {
		return nil // awake already: this row came twice
	}
	return err
}

// cancel ends a run wherever it is.
func (d *Dispatcher) cancel(ctx context.Context, runID, result, reason string) error {
	return d.Interrupter.End(ctx, runID, checkpoints.Ended{Result: result, Code: "cancelled", Reason: reason})
}

// stop latches a stop, once for each event: a webhook and the poller tell of
// the same label, and the later one must not undo that somebody has lifted the
// stop meanwhile.
func (d *Dispatcher) stop(ctx context.Context, source string, in labels.Input, scope string, dec labels.Decision) (labels.Decision, error) {
	ahead, err := d.latchedAhead(ctx, in.Event)
	if err != nil {
		return dec, err
	}
	if ahead {
		dec.Why = "seen before"
		return dec, nil
	}
	key := "/issue/" + strings.ToLower(in.Event.Issue.String()) + "/stopped/" + source
	done := false
	_, err = checkpoints.Once(ctx, d.Store, key, nil, func(ctx context.Context) (json.RawMessage, error) {
		done = true
		return nil, d.Store.SetStop(ctx, checkpoints.Stop{Scope: scope, By: in.Actor.Login, Reason: dec.Why, At: d.Clock.Now()})
	})
	if err != nil {
		return dec, fmt.Errorf("latching the stop: %w", err)
	}
	if !done {
		dec.Why = "seen before"
		return dec, nil
	}
	d.Interrupter.Halt(scope, dec.Why)
	return dec, nil
}

// lift removes a latch and wakes what it halted, where the phase label still
// asks for the work. A comment that resumes also takes the stop label off.
func (d *Dispatcher) lift(ctx context.Context, in labels.Input, scope string, dec labels.Decision) (labels.Decision, error) {
	if _, err := d.Store.LiftStop(ctx, scope); err != nil {
		return dec, fmt.Errorf("lifting the stop: %w", err)
	}
	ref := in.Event.Issue
	if err := d.Breaker.Lifted(ctx, ref); err != nil {
		return dec, err
	}
	if in.Event.Kind != forge.Unlabeled && labels.Has(in.Issue.Labels, d.Machine.Names.Stop) {
		if err := d.Forge.RemoveLabel(ctx, ref, d.Machine.Names.Stop); err != nil {
			return dec, fmt.Errorf("removing the stop label: %w", err)
		}
	}
	f := checkpoints.Filter{Repo: ref.Repo.String(), Statuses: []checkpoints.Status{checkpoints.Halted}}
	if dec.Action == labels.LiftIssue {
		f.Issue = ref.Number
		_, stopped, err := d.Store.StopFor(ctx, ref.Repo.String(), ref.Number)
		if err != nil {
			return dec, fmt.Errorf("reading the stops: %w", err)
		}
		if stopped {
			dec.Tell = true
			dec.Why += ", but the stop of the whole repository still holds: remove the " + d.Machine.Names.StopAll + " label to lift it"
			return dec, nil
		}
	}
	// Oldest first, as they were halted. One issue that cannot be read does
	// not keep the others halted.
	var errs []error
	for r, err := range d.runs(ctx, f) {
		if err != nil {
			return dec, fmt.Errorf("looking for halted runs: %w", errors.Join(append(errs, err)...))
		}
		errs = append(errs, d.resumeIfWanted(ctx, r, in.Actor))
	}
	return dec, errors.Join(errs...)
}

func (d *Dispatcher) resumeIfWanted(ctx context.Context, r checkpoints.Run, by labels.Actor) error {
	if _, stopped, err := d.Store.StopFor(ctx, r.Repo, r.Issue); err != nil || stopped {
		return err
	}
	if r.Parent != "" || r.Mode == checkpoints.ModeShadow {
		return d.wake(ctx, r.ID) // whether it may still work is seen when it is claimed
	}
	ref, err := forge.IssueRef(r.Repo, r.Issue)
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	issue, err := d.Forge.Issue(ctx, ref)
	if forge.IsKind(err, forge.KindNotFound) {
		return nil // the poller finds out what became of it
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	if !issue.Open || !d.Machine.Names.Holds(issue.Labels, labels.Phase(r.Phase)) {
		return nil
	}
	if err := d.vouch(ctx, r.ID, by); err != nil {
		return err
	}
	return d.wake(ctx, r.ID)
}

// target is the run that an event is for. It is kept, since after a crash
// another run may be the one that waits longest.
func (d *Dispatcher) target(ctx context.Context, source string, in labels.Input, dec labels.Decision) (string, error) {
	if dec.Run == "" {
		return in.Run.ID, nil
	}
	key := "/issue/" + strings.ToLower(in.Event.Issue.String()) + "/target/" + source
	value, err := checkpoints.Once(ctx, d.Store, key, nil, func(context.Context) (json.RawMessage, error) { return json.Marshal(dec.Run) })
	if err != nil {
		return "", err
	}
	var to string
	if err := json.Unmarshal(value, &to); err != nil {
		return "", fmt.Errorf("reading for which run %s is: %w", source, err)
	}
	return to, nil
}

func (d *Dispatcher) deliver(ctx context.Context, source string, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	data, err := json.Marshal(dec.Data)
	if err != nil {
		return dec, fmt.Errorf("encoding the event: %w", err)
	}
	to, err := d.target(ctx, source, in, dec)
	if err != nil {
		return dec, err
	}
	if dec.Deliver == "approval" && in.Approval == nil && dec.Data["outcome"] == nil {
		// What follows from the plan is on the word of whoever approved it.
		if err := d.vouch(ctx, to, in.Actor); err != nil {
			return dec, err
		}
	}
	fresh, err := d.Store.Deliver(ctx, to, checkpoints.Event{
		Key: source, Kind: dec.Deliver, Data: data, At: d.Clock.Now(),
	})
	if err != nil {
		return dec, fmt.Errorf("delivering to run %s: %w", to, err)
	}
	if !fresh {
		dec.Why = "seen before"
	}
	return dec, nil
}
