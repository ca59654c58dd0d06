package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Bounds of the visits of nodes that run actions.
const (
	// defaultTimeout is for nodes that name none.
	defaultTimeout = time.Hour
	// longest is the longest delay that is waited for in the process; longer
	// ones park the run.
	longest = 30 * time.Second
	// maxParks is how often a visit parks before it fails; the delays grow
	// to maxPark.
	maxParks = 24
	maxPark  = 15 * time.Minute
	// keepEvery is how much working time a crash may give back.
	keepEvery = 30 * time.Second
)

// act runs the action of a step or a gate, with its retries.
func (w *walk) act(ctx context.Context, node flows.Node, visit int) result {
	action, ok := w.e.Registry.Get(node.Uses)
	if !ok {
		return result{outcome: flows.Failed, code: "drift", err: fmt.Errorf("%w: no action is called %s", flows.ErrDrift, node.Uses)}
	}
	if res, over := w.overspent(ctx, node); over {
		return res
	}
	v, err := w.loadVisit(ctx, node.ID, visit)
	if err != nil {
		return result{fatal: err}
	}
	with, err := flows.Expand(node.With, w.state, w.info())
	if err != nil {
		return result{outcome: flows.Failed, code: "template", err: err}
	}
	a := &attempts{w: w, node: node, action: action, visit: visit, with: with, kept: v, began: w.e.Clock.Now()}
	res := a.run(ctx)
	res.spends = node.Kind == flows.Step
	return res
}

// attempts is one visit of a node, through its retries.
type attempts struct {
	w      *walk
	node   flows.Node
	action flows.Action
	visit  int
	with   []byte
	kept   visitRecord
	kept0  time.Duration // time of this walk that is kept already
	began  time.Time
}

// worked is how long the visit took so far, over resumes.
func (a *attempts) worked() time.Duration { return a.kept.Worked + a.w.e.Clock.Now().Sub(a.began) }

func (a *attempts) keep(ctx context.Context) error {
	v := a.kept
	v.Worked = a.worked()
	return a.w.keepVisit(ctx, a.node.ID, a.visit, v)
}

// bound is how long the visit may still take and what it is then.
func (a *attempts) bound() (time.Duration, flows.Outcome) {
	limit, outcome := a.node.Timeout, flows.Timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	limit -= a.w.e.Clock.Now().Sub(a.began)
	for _, wall := range []struct{ most, used time.Duration }{
		{a.node.Budget.Wall, a.worked()},
		{a.w.flow.Limits().Wall, a.w.worked + a.worked()},
	} {
		if wall.most > 0 && wall.most-wall.used < limit {
			limit, outcome = wall.most-wall.used, flows.Budget
		}
	}
	return max(limit, 0), outcome
}

func (a *attempts) run(ctx context.Context) result {
	for {
		a.kept.Attempts++
		if a.kept.Attempts > 1 {
			if err := a.keep(ctx); err != nil {
				return result{fatal: err}
			}
		}
		got := a.call(ctx)
		if got.cut {
			return a.cut(ctx)
		}
		var retry *flows.Retry
		if got.outcome != "" || got.err == nil || !errors.As(got.err, &retry) || errors.Is(got.err, flows.ErrBudget) || a.w.stuck() {
			return a.result(got)
		}
		if res, over := a.again(ctx, retry); over {
			return res
		}
	}
}

func (a *attempts) call(ctx context.Context) returned {
	limit, outcome := a.bound()
	c := &call{
		w: a.w, action: a.action, limit: limit, outcome: outcome, idle: a.node.Idle, budget: a.node.Budget,
		c: flows.Call{
			Run: a.w.info(), Node: a.node.ID, Visit: a.visit, Attempt: a.kept.Attempts, Key: a.w.visitKey(a.node.ID, a.visit),
			In: a.w.state.Only(a.node.In), With: a.with, Artifacts: a.w.e.Artifacts,
		},
		kind: a.node.Kind, settled: a.passing,
	}
	return c.run(ctx)
}

// passing keeps the time worked now and then, where it is limited, so that a
// crash gives back little of it.
func (a *attempts) passing(ctx context.Context) {
	if a.node.Budget.Wall == 0 && a.w.flow.Limits().Wall == 0 || a.worked()-a.kept.Worked-a.kept0 < keepEvery {
		return
	}
	if err := a.keep(ctx); err != nil {
		a.w.broken(err)
		return
	}
	a.kept0 = a.worked() - a.kept.Worked
}

// cut keeps what the visit has used, for the resume.
func (a *attempts) cut(ctx context.Context) result {
	if lost(ctx) {
		return result{cut: true}
	}
	if err := a.keep(ctx); err != nil {
		return result{fatal: err}
	}
	return result{cut: true}
}

// result turns what an action returned into an outcome.
func (a *attempts) result(got returned) result {
	res := result{attempt: a.kept.Attempts, err: got.err, outcome: got.outcome, note: got.res.Note}
	switch {
	case res.outcome != "":
		return res
	case errors.Is(got.err, checkpoints.ErrLost):
		res.fatal = got.err
		return res
	case errors.Is(got.err, flows.ErrBudget):
		res.outcome = flows.Budget
		return res
	case got.err != nil:
		res.outcome = flows.Failed
		var p *PanicError
		if errors.As(got.err, &p) {
			res.code = "panic"
		}
		return res
	}
	res.outcome, res.delta, res.stop = got.res.Outcome, got.res.Delta, got.res.Stop
	if res.outcome == "" {
		res.outcome = flows.OK
	}
	if !slices.Contains([]flows.Outcome{flows.OK, flows.Failed, flows.Timeout, flows.Budget}, res.outcome) &&
		!slices.Contains(a.action.Outcomes, res.outcome) {
		res.err = fmt.Errorf("the action %s returned the outcome %q, which it does not declare", a.action.Name, res.outcome)
		res.outcome, res.delta, res.stop, res.code = flows.Failed, nil, nil, "outcome-unknown"
	}
	if res.outcome != flows.OK && res.err == nil && res.note != "" {
		res.err = errors.New(res.note)
	}
	return res
}

// again waits for the next attempt, or says that the visit is over for now.
func (a *attempts) again(ctx context.Context, retry *flows.Retry) (result, bool) {
	p := a.node.Retry
	used := a.kept.Attempts - 1
	delay := max(backoff(p, used), retry.After)
	now := a.w.e.Clock.Now()
	if used < p.Max && slices.Contains(p.On, retry.Cause) && delay <= longest {
		a.tell(ctx, retry, delay)
		return a.sleep(ctx, delay)
	}
	if a.kept.Parks >= maxParks {
		return result{
			outcome: flows.Failed, code: retry.Cause, attempt: a.kept.Attempts,
			err: fmt.Errorf("given up after %d attempts and %d pauses: %w", a.kept.Attempts, a.kept.Parks, retry),
		}, true
	}
	delay = max(retry.After, min(longest<<a.kept.Parks, maxPark))
	a.kept.Parks++
	a.tell(ctx, retry, delay)
	if err := a.keep(ctx); err != nil {
		return result{fatal: err}, true
	}
	return result{park: &checkpoints.Wait{
		Node: a.node.ID, Since: now, Until: now.Add(delay),
		Why: fmt.Sprintf("%s: %s, next attempt in %s", a.node.ID, retry.Cause, delay.Round(time.Second)),
	}}, true
}

func (a *attempts) tell(ctx context.Context, retry *flows.Retry, delay time.Duration) {
	a.w.onNode(ctx, NodeEvent{
		Node: a.node.ID, Kind: a.node.Kind, Visit: a.visit, Attempt: a.kept.Attempts, Stage: Retry,
		Note: fmt.Sprintf("%s, again in %s", retry.Cause, delay.Round(time.Millisecond)), Err: retry,
	})
}

// sleep waits within the process; the node's time runs on.
func (a *attempts) sleep(ctx context.Context, delay time.Duration) (result, bool) {
	limit, outcome := a.bound()
	if limit < delay {
		err := fmt.Errorf("%w: the next attempt would come too late", ErrTimeout)
		if outcome == flows.Budget {
			err = fmt.Errorf("%w: the next attempt would pass the wall time", flows.ErrBudget)
		}
		return result{outcome: outcome, err: err, attempt: a.kept.Attempts}, true
	}
	if err := clock.Sleep(ctx, a.w.e.Clock, delay); err != nil {
		return a.cut(ctx), true
	}
	return result{}, false
}

// backoff is the delay before retry n, counted from 0.
func backoff(p flows.RetryPolicy, n int) time.Duration {
	if p.Backoff == 0 {
		return 0
	}
	d := float64(p.Backoff) * math.Pow(p.Factor, float64(n))
	d = min(d, float64(p.MaxBackoff))
	if p.Jitter == "full" {
		d *= rand.Float64() //nolint:gosec // spreads load, keeps no secret
	}
	return time.Duration(d)
}
