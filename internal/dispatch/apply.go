package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// apply carries out a decision. Every step may be repeated: a crash leaves the
// row pending and it comes again. The returned words say what became of it.
func (d *Dispatcher) apply(ctx context.Context, rowID string, in labels.Input, dec labels.Decision) (string, error) {
	ref := in.Event.Issue
	why, err := d.act(ctx, in, dec)
	if errors.Is(err, errCovered) {
		return why, nil
	}
	if err != nil {
		return why, err
	}
	for _, delta := range dec.Deltas {
		if delta.Add {
			err = d.Forge.AddLabel(ctx, ref, delta.Label)
		} else {
			err = d.Forge.RemoveLabel(ctx, ref, delta.Label)
		}
		if err != nil {
			return why, fmt.Errorf("changing label %s: %w", delta.Label, err)
		}
	}
	if dec.Tell {
		if err := d.tell(ctx, ref, sourceKey(rowID, in.Event), why); err != nil {
			return why, err
		}
	}
	return why, nil
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

func (d *Dispatcher) act(ctx context.Context, in labels.Input, dec labels.Decision) (string, error) {
	ref := in.Event.Issue
	switch dec.Action {
	case labels.Start:
		return d.start(ctx, in, dec)
	case labels.Resume:
		return dec.Why, d.wake(ctx, in.Run.ID)
	case labels.Replace:
		_, err := d.cancel(ctx, in.Run.ID, "cancelled", "replaced: "+dec.Why)
		return dec.Why, errors.Join(err, errLater)
	case labels.Cancel:
		result, _ := dec.Data["result"].(string)
		return d.cancel(ctx, in.Run.ID, result, dec.Why)
	case labels.StopIssue:
		return dec.Why, d.stop(ctx, in, ref.String(), dec.Why)
	case labels.StopRepo:
		return dec.Why, d.stop(ctx, in, ref.Repo.String(), dec.Why)
	case labels.LiftIssue:
		return d.lift(ctx, in, ref.String(), dec.Why)
	case labels.LiftRepo:
		return d.lift(ctx, in, ref.Repo.String(), dec.Why)
	case labels.Deliver:
		return d.deliver(ctx, in, dec)
	case labels.Later:
		return dec.Why, errLater
	}
	return dec.Why, nil
}

func (d *Dispatcher) start(ctx context.Context, in labels.Input, dec labels.Decision) (string, error) {
	trigger := ""
	if in.Event.LogID != 0 {
		trigger = fmt.Sprintf("label-event/%d", in.Event.LogID)
	}
	for _, delta := range dec.Deltas {
		if delta.Add { // the run's label must be there before the run looks
			if err := d.Forge.AddLabel(ctx, in.Event.Issue, delta.Label); err != nil {
				return dec.Why, fmt.Errorf("adding label %s: %w", delta.Label, err)
			}
		}
	}
	req, err := d.Starts.First(ctx, in.Event.Issue, dec.Phase, trigger)
	if err != nil {
		return dec.Why, err
	}
	run, err := d.Store.Start(ctx, req)
	if errors.Is(err, checkpoints.ErrConflict) {
		return "run " + run.ID + " covers this already", errCovered
	}
	if err != nil {
		return dec.Why, fmt.Errorf("starting the run: %w", err)
	}
	return dec.Why, nil
}

func (d *Dispatcher) wake(ctx context.Context, runID string) error {
	err := d.Store.Wake(ctx, runID)
	if errors.Is(err, checkpoints.ErrConflict) {
		return nil // awake already: this row came twice
	}
	return err
}

// cancel ends a run wherever it is: parked in the store or in flight here.
func (d *Dispatcher) cancel(ctx context.Context, runID, result, reason string) (string, error) {
	err := d.Store.Cancel(ctx, runID, checkpoints.Ended{Result: result, Code: "cancelled", Reason: reason})
	switch {
	case err == nil, errors.Is(err, checkpoints.ErrConflict):
		return reason, nil
	case errors.Is(err, checkpoints.ErrBusy):
		if d.Interrupter.Cancel(runID, result, reason) {
			return reason, nil
		}
		return reason, errLater // between two hands; look again
	}
	return reason, fmt.Errorf("cancelling run %s: %w", runID, err)
}

func (d *Dispatcher) stop(ctx context.Context, in labels.Input, scope, why string) error {
	err := d.Store.SetStop(ctx, checkpoints.Stop{Scope: scope, By: in.Actor.Login, Reason: why, At: d.Clock.Now()})
	if err != nil {
		return fmt.Errorf("latching the stop: %w", err)
	}
	d.Interrupter.Halt(scope, why)
	return nil
}

// lift removes a latch and wakes what it halted, where the phase label still
// asks for the work. A comment that resumes also takes the stop label off.
func (d *Dispatcher) lift(ctx context.Context, in labels.Input, scope, why string) (string, error) {
	if _, err := d.Store.LiftStop(ctx, scope); err != nil {
		return why, fmt.Errorf("lifting the stop: %w", err)
	}
	ref := in.Event.Issue
	if in.Event.Kind != forge.Unlabeled && labels.Has(in.Issue.Labels, d.Machine.Names.Stop) {
		if err := d.Forge.RemoveLabel(ctx, ref, d.Machine.Names.Stop); err != nil {
			return why, fmt.Errorf("removing the stop label: %w", err)
		}
	}
	f := checkpoints.Filter{Repo: ref.Repo.String(), Statuses: []checkpoints.Status{checkpoints.Halted}, Limit: 10_000}
	if strings.Contains(scope, "#") {
		f.Issue = ref.Number
	}
	halted, err := d.Store.List(ctx, f)
	if err != nil {
		return why, fmt.Errorf("listing halted runs: %w", err)
	}
	// Oldest first, as they were halted.
	slices.Reverse(halted)
	for _, r := range halted {
		if err := d.resumeIfWanted(ctx, r); err != nil {
			return why, err
		}
	}
	return why, nil
}

func (d *Dispatcher) resumeIfWanted(ctx context.Context, r checkpoints.Run) error {
	if _, stopped, err := d.Store.StopFor(ctx, r.Repo, r.Issue); err != nil || stopped {
		return err
	}
	ref, err := forge.ParseRef(r.Key)
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	issue, err := d.Forge.Issue(ctx, ref)
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	if !issue.Open || !d.Machine.Names.Holds(issue.Labels, labels.Phase(r.Phase)) {
		return nil
	}
	return d.wake(ctx, r.ID)
}

func (d *Dispatcher) deliver(ctx context.Context, in labels.Input, dec labels.Decision) (string, error) {
	data, err := json.Marshal(dec.Data)
	if err != nil {
		return dec.Why, fmt.Errorf("encoding the event: %w", err)
	}
	fresh, err := d.Store.Deliver(ctx, in.Run.ID, checkpoints.Event{
		Key: sourceKey("", in.Event), Kind: dec.Deliver, Data: data, At: d.Clock.Now(),
	})
	if err != nil {
		return dec.Why, fmt.Errorf("delivering to run %s: %w", in.Run.ID, err)
	}
	if !fresh {
		return "seen before", nil
	}
	return dec.Why, nil
}

// tell writes one comment that explains a decision, once for each event.
func (d *Dispatcher) tell(ctx context.Context, ref forge.Ref, source, why string) error {
	marker := "<!-- pipelinebot:" + source + " -->"
	find := func(ctx context.Context) (json.RawMessage, bool, error) {
		comments, err := d.Forge.Comments(ctx, ref)
		if err != nil {
			return nil, false, err
		}
		for _, c := range comments {
			if strings.Contains(c.Body, marker) {
				return json.RawMessage("true"), true, nil
			}
		}
		return nil, false, nil
	}
	do := func(ctx context.Context) (json.RawMessage, error) {
		_, err := d.Forge.AddComment(ctx, ref, marker+"\n"+upperFirst(why)+".")
		return json.RawMessage("true"), err
	}
	_, err := checkpoints.Once(ctx, d.Store, "/issue/"+ref.String()+"/tell/"+source, find, do)
	return err
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
