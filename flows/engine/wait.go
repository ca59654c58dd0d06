package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// wait resolves a wait node by an event or by its deadline, or parks the run.
// It has no body, so that nothing runs twice.
func (w *walk) wait(ctx context.Context, node flows.Node, visit int) result {
	park, err := w.deadline(ctx, node, visit)
	if err != nil {
		return result{fatal: err}
	}
	sctx, done := w.storeCtx(ctx)
	defer done()
	ev, err := w.e.Store.Pending(sctx, w.run.ID, node.Event)
	switch {
	case errors.Is(err, checkpoints.ErrNotFound) && park.Over(w.e.Clock.Now()):
		return result{outcome: node.OnExpire, err: fmt.Errorf("%w: no %s came within %s", ErrTimeout, node.Event, node.Expires)}
	case errors.Is(err, checkpoints.ErrNotFound):
		return result{park: &park}
	case err != nil:
		return result{fatal: fmt.Errorf("looking for a %s of run %s: %w", node.Event, w.run.ID, err)}
	case ev.At.After(park.Until):
		return result{outcome: node.OnExpire, eventKey: ev.Key, err: fmt.Errorf("%w: the %s came after %s", ErrTimeout, node.Event, node.Expires)}
	}
	return w.take(node, ev, park)
}

// deadline is the park of this visit. The deadline is kept apart from the
// run's wait, which other pauses of the run replace.
func (w *walk) deadline(ctx context.Context, node flows.Node, visit int) (checkpoints.Wait, error) {
	now := w.e.Clock.Now()
	park := checkpoints.Wait{
		Node: node.ID, Event: node.Event, Since: now, Until: now.Add(node.Expires), Why: "waiting for " + node.Event,
	}
	v, err := w.loadVisit(ctx, node.ID, visit)
	if err != nil {
		return park, err
	}
	if !v.Until.IsZero() {
		park.Until, park.Since = v.Until, v.Until.Add(-node.Expires)
		return park, nil
	}
	v.Until = park.Until
	return park, w.keepVisit(ctx, node.ID, visit, v)
}

// take copies an event's fields into the state.
func (w *walk) take(node flows.Node, ev checkpoints.Event, park checkpoints.Wait) result {
	res := result{outcome: flows.OK, eventKey: ev.Key, note: "resolved by " + ev.Key}
	bad := func(err error) result {
		return result{outcome: flows.Failed, code: "bad-event", eventKey: ev.Key, err: fmt.Errorf("event %s: %w", ev.Key, err)}
	}
	data, err := flows.DecodeState(ev.Data)
	if err != nil {
		return bad(err)
	}
	matches, err := node.Match.Eval(flows.GuardEnv{State: w.state.Public(), Event: data, Visits: w.run.Visits})
	switch {
	case err != nil:
		return bad(err)
	case !matches:
		res.outcome, res.again, res.park = flows.Skipped, true, &park
		res.note = "does not match: " + ev.Key
		return res
	}
	switch got := flows.Outcome(data.Str("outcome")); got {
	case "", flows.OK:
	case flows.Denied:
		res.outcome = flows.Denied
	default:
		return bad(fmt.Errorf("its outcome %q is neither ok nor denied", got))
	}
	res.delta = map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(node.Take)) {
		field := node.Take[key]
		if data.Has(field) {
			res.delta[key] = data.Raw(field)
		} else if res.outcome == flows.OK {
			return bad(fmt.Errorf("it has no %s", field))
		}
	}
	return res
}
