package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/labels"
)

// ordered decides on what only an operator can ask for, and no label means:
// a shadow run, or a fork.
func (d *Dispatcher) ordered(ctx context.Context, in labels.Input) (labels.Decision, labels.Input, error) {
	order := in.Event.Order
	no := func(format string, args ...any) (labels.Decision, labels.Input, error) {
		return labels.Decision{Action: labels.Refuse, Rule: "order", Why: fmt.Sprintf(format, args...)}, in, nil
	}
	switch {
	case !in.Issue.Open:
		return no("the issue is closed")
	case in.Issue.Pull:
		return no("the pipeline starts from an issue, and this is a pull request")
	case in.Stopped:
		return no("a stop is in force: remove the %s or %s label first", d.Machine.Names.Stop, d.Machine.Names.StopAll)
	}
	dec := labels.Decision{Action: labels.Start, Rule: "order", Why: order.By + " started it at the command line"}
	if in.Event.Kind != forge.ManualFork {
		dec.Phase, _ = d.Machine.Names.Of(in.Event.Label)
		return dec, in, nil
	}
	source, err := d.Store.Get(ctx, order.Run)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return no("there is no run %s any more", order.Run)
	}
	if err != nil {
		return dec, in, fmt.Errorf("reading run %s: %w", order.Run, err)
	}
	if !source.Status.Final() {
		return no("run %s is open (%s): cancel it first", source.ID, source.Status)
	}
	if open, err := d.pipelineRun(ctx, in.Event.Issue); err != nil || open != nil && source.Mode == "" {
		if err != nil {
			return dec, in, err
		}
		return no("run %s is open for the issue: let it end or cancel it first", open.ID)
	}
	dec.Phase = labels.Phase(source.Phase)
	if label := d.Machine.Names.For(dec.Phase); source.Mode == "" && label != "" && !labels.Has(in.Issue.Labels, label) {
		dec.Deltas = append(dec.Deltas, labels.Delta{Add: true, Label: label, Reason: dec.Why})
	}
	return dec, in, nil
}

// pipelineRun is the open run of the issue's phase.
func (d *Dispatcher) pipelineRun(ctx context.Context, ref forge.Ref) (*labels.Run, error) {
	return d.openRun(ctx, forge.Event{Issue: ref})
}

// request builds the start that a decision asks for.
func (d *Dispatcher) request(ctx context.Context, source string, in labels.Input, dec labels.Decision) (checkpoints.StartReq, error) {
	ask := handoff.Ask{Ref: in.Event.Issue, Phase: dec.Phase, Trigger: source}
	order := in.Event.Order
	if order == nil {
		return d.Starts.First(ctx, ask)
	}
	if in.Event.Kind != forge.ManualFork {
		ask.Flow, ask.Shadow = order.Flow, order.Shadow
		return d.Starts.First(ctx, ask)
	}
	run, err := d.Store.Get(ctx, order.Run)
	if err != nil {
		return checkpoints.StartReq{}, fmt.Errorf("reading run %s: %w", order.Run, err)
	}
	req, err := d.Flows.Fork(ctx, run, order.Node, order.Set)
	for _, forGood := range []error{engine.ErrFork, flows.ErrInvalidState, flows.ErrDrift, flows.ErrCorrupt} {
		if errors.Is(err, forGood) {
			return req, fmt.Errorf("forking run %s %w: %w", run.ID, handoff.ErrUnfit, err)
		}
	}
	req.Trigger = source
	return req, err
}
