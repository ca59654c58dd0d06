package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// What is bounded on an issue in an hour.
const (
	refusals = "refusals"
	answers  = "answers"
	// maxAnswers is how often status and help are answered.
	maxAnswers = 4
)

// done is one thing of those that are bounded.
type done struct {
	Source string    `json:"source"`
	At     time.Time `json:"at"`
}

// within reports that an issue may have one more of what, at most most in an
// hour; the same source counts once. It is kept, so that a restart forgets
// nothing.
func (d *Dispatcher) within(ctx context.Context, ref forge.Ref, what, source string, most int) (bool, error) {
	return d.bounded(ctx, "issue/"+strings.ToLower(ref.String())+"/"+what, source, most, time.Hour)
}

func (d *Dispatcher) bounded(ctx context.Context, key, source string, most int, window time.Duration) (bool, error) {
	var all []done
	value, err := d.Store.Effect(ctx, key)
	if err == nil {
		err = json.Unmarshal(value, &all)
	}
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return false, fmt.Errorf("counting %s: %w", key, err)
	}
	if slices.ContainsFunc(all, func(o done) bool { return o.Source == source }) {
		return true, nil
	}
	now := d.Clock.Now()
	all = slices.DeleteFunc(all, func(o done) bool { return now.Sub(o.At) >= window })
	if len(all) >= most {
		return false, nil
	}
	if value, err = json.Marshal(append(all, done{source, now})); err == nil {
		err = d.Store.RecordEffect(ctx, key, value)
	}
	if err != nil {
		return false, fmt.Errorf("counting %s: %w", key, err)
	}
	return true, nil
}

// leadsNowhere stops the issue instead of starting what came to nothing again
// and again. An operator knows what he does.
func (d *Dispatcher) leadsNowhere(ctx context.Context, source string, in labels.Input, dec labels.Decision) (*labels.Decision, error) {
	if in.Actor.Operator {
		return nil, nil
	}
	ref := in.Event.Issue
	why, err := d.Breaker.Check(ctx, ref, dec.Phase)
	if err != nil || why == "" {
		return nil, err
	}
	if err := d.Breaker.Trip(ctx, ref, source, why); err != nil {
		return nil, err
	}
	no := labels.Decision{Action: labels.Refuse, Phase: dec.Phase, Rule: "breaker", Why: why}
	for _, l := range in.Issue.Labels {
		if p, ok := d.Machine.Names.Of(l); ok && p == dec.Phase {
			no.Deltas = append(no.Deltas, labels.Delta{Label: l, Reason: why})
		}
	}
	return &no, nil
}

// addLabels adds the labels of a start before it: the run's label must be
// there before the run looks. A refusal is the answer.
func (d *Dispatcher) addLabels(ctx context.Context, ref forge.Ref, dec labels.Decision) (*labels.Decision, error) {
	for _, delta := range dec.Deltas {
		if !delta.Add {
			continue
		}
		err := d.Forge.AddLabel(ctx, ref, delta.Label)
		if refused(err) {
			why := "label " + delta.Label + " cannot be added: " + err.Error()
			return &labels.Decision{Action: labels.Refuse, Rule: dec.Rule, Why: why}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("adding label %s: %w", delta.Label, err)
		}
	}
	return nil, nil
}

// resume wakes a halted run on the word of whoever asked for it.
func (d *Dispatcher) resume(ctx context.Context, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	if no, err := d.addLabels(ctx, in.Event.Issue, dec); err != nil || no != nil {
		if err != nil {
			return dec, err
		}
		return *no, nil
	}
	if err := d.vouch(ctx, in.Run.ID, in.Actor); err != nil {
		return dec, err
	}
	return dec, d.wake(ctx, in.Run.ID)
}

func (d *Dispatcher) vouch(ctx context.Context, runID string, a labels.Actor) error {
	return handoff.Vouch(ctx, d.Store, runID, handoff.Voucher{ID: a.ID, Login: a.Login, Operator: a.Operator})
}

// inform answers a question about the pipeline, which costs nobody anything
// but the comment; more often than a few times an hour nothing is said.
func (d *Dispatcher) inform(ctx context.Context, source string, in labels.Input, dec labels.Decision) error {
	ref := in.Event.Issue
	may, err := d.within(ctx, ref, answers, source, maxAnswers)
	if err != nil || !may {
		return err
	}
	text := dec.Text
	if dec.Action == labels.Status {
		if text, err = d.Status.Say(ctx, ref); err != nil {
			return fmt.Errorf("saying where %s stands: %w", ref, err)
		}
		if text == "" {
			text = "Nothing was started on this issue yet. Adding the label `" + d.Machine.Names.Triage + "` begins.\n"
		}
	}
	if err := d.tell(ctx, ref, source, text); err != nil && !refused(err) {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

// look starts a run that changes nothing, within the day's bound.
func (d *Dispatcher) look(ctx context.Context, source string, in labels.Input, dec labels.Decision) (labels.Decision, error) {
	ref := in.Event.Issue
	may, err := d.bounded(ctx, "repo/"+strings.ToLower(ref.Repo.String())+"/looks", source, d.LooksADay, 24*time.Hour)
	if err != nil {
		return dec, err
	}
	if !may {
		dec.Action, dec.Why = labels.Ignore, "the day's looks at issues of outsiders are used up"
		return dec, nil
	}
	req, err := d.Starts.First(ctx, handoff.Ask{Ref: ref, Phase: dec.Phase, Trigger: handoff.LookTrigger(source), Shadow: true})
	if err != nil {
		return dec, err
	}
	_, err = d.Store.Start(ctx, req)
	if err != nil && !errors.Is(err, checkpoints.ErrConflict) {
		return dec, fmt.Errorf("starting the look: %w", err)
	}
	return dec, nil
}
