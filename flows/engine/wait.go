package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// awaited is what a visit that waits for an event has found.
type awaited struct {
	event checkpoints.Event
	came  bool
	park  checkpoints.Wait
}

// wait resolves a wait node by an event or by its deadline, or parks the run.
// It has no body, so that nothing runs twice.
func (w *walk) wait(ctx context.Context, node *planned, en entry) result {
	a, res, over := w.await(ctx, node, en, node.Event, "waiting for "+node.Event)
	if over {
		return res
	}
	data, err := flows.DecodeState(a.event.Data)
	if err != nil {
		return badEvent(a.event, err)
	}
	matches, err := node.Match.Eval(flows.GuardEnv{State: w.state.view(), Event: data, Visits: w.run.Visits})
	switch {
	case err != nil:
		return badEvent(a.event, err)
	case !matches:
		return a.passOver("does not match: " + a.event.Key)
	}
	res = result{outcome: flows.OK, eventKey: a.event.Key, note: "resolved by " + a.event.Key}
	switch got := flows.Outcome(data.Str("outcome")); got {
	case "", flows.OK:
	case flows.Denied:
		res.outcome = flows.Denied
	default:
		return badEvent(a.event, fmt.Errorf("its outcome %q is neither ok nor denied", got))
	}
	var missing string
	if res.delta, missing = taken(node, data); missing != "" && res.outcome == flows.OK {
		return badEvent(a.event, fmt.Errorf("it has no %s", missing))
	}
	return res
}

// passOver consumes an event that is not the one awaited, and waits on.
func (a *awaited) passOver(note string) result {
	return result{outcome: flows.Skipped, again: true, park: &a.park, eventKey: a.event.Key, note: note}
}

func badEvent(ev checkpoints.Event, err error) result {
	return result{outcome: flows.Failed, code: "bad-event", eventKey: ev.Key, err: fmt.Errorf("event %s: %w", ev.Key, err)}
}

// taken is what a node takes from an event, and the first field that is not
// there.
func taken(node *planned, data flows.State) (delta map[string]any, missing string) {
	delta = map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(node.Take)) {
		field := node.Take[key]
		if data.Has(field) {
			delta[key] = data.Raw(field)
		} else if missing == "" {
			missing = field
		}
	}
	return delta, missing
}

// await looks for an event of a kind. over says that the visit is over for
// now: the deadline is past, the event came too late, or none has come.
func (w *walk) await(ctx context.Context, node *planned, en entry, kind, why string) (a awaited, res result, over bool) {
	park, err := w.deadline(ctx, node, en, kind)
	if err != nil {
		return a, result{fatal: err}, true
	}
	park.Why = clip(w.e.Scrub(why), mostWhy(park))
	a.park = park
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	a.event, err = w.e.Store.Pending(sctx, w.run.ID, kind)
	switch {
	case errors.Is(err, checkpoints.ErrNotFound) && park.Over(en.began):
		return a, result{outcome: node.OnExpire, err: fmt.Errorf("%w: no %s came within %s", ErrTimeout, kind, node.Expires)}, true
	case errors.Is(err, checkpoints.ErrNotFound):
		return a, result{park: &a.park}, true
	case err != nil:
		return a, result{fatal: fmt.Errorf("looking for a %s of run %s: %w", kind, w.run.ID, err)}, true
	case !park.Until.IsZero() && a.event.At.After(park.Until):
		return a, result{outcome: node.OnExpire, eventKey: a.event.Key, err: fmt.Errorf("%w: the %s came after %s", ErrTimeout, kind, node.Expires)}, true
	}
	a.came = true
	return a, result{}, false
}

// deadline is the park of this visit. The deadline is kept apart from the
// run's wait, which other pauses of the run replace.
func (w *walk) deadline(ctx context.Context, node *planned, en entry, kind string) (checkpoints.Wait, error) {
	park := checkpoints.Wait{Node: node.ID, Event: kind, Since: en.began}
	if node.Expires == 0 {
		// Nothing to keep; since when it waits stands in the run's wait.
		if was := w.run.Wait; was != nil && was.Node == node.ID && was.Event == kind {
			park.Since = was.Since
		}
		return park, nil
	}
	park.Until = en.began.Add(node.Expires)
	v, err := w.loadVisit(node.ID, en.visit)
	if err != nil {
		return park, err
	}
	if !v.Until.IsZero() {
		park.Until, park.Since = v.Until, v.Until.Add(-node.Expires)
		return park, nil
	}
	// The store's grain, so that a resumed visit knows the same instant.
	park.Until, park.Since = park.Until.Truncate(time.Microsecond), park.Since.Truncate(time.Microsecond)
	v.Until = park.Until
	return park, w.keepVisit(ctx, node.ID, en.visit, v)
}
