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
func (w *walk) act(ctx context.Context, node *planned, en entry) result {
	with, err := flows.Expand(node.With, w.state.view(), w.about)
	if err != nil {
		return result{outcome: flows.Failed, code: "template", err: err}
	}
	return w.perform(ctx, node, en, with)
}

// perform runs the action of a node of any kind.
func (w *walk) perform(ctx context.Context, node *planned, en entry, with []byte) result {
	if res, over := w.overspent(ctx, node); over {
		return res
	}
	a := &w.tries
	*a = attempts{w: w, by: w.watch, node: node, visit: en.visit, with: with, in: w.state.only(node.In), began: en.began}
	if node.Cache != "" {
		res, hit, err := a.cached()
		switch {
		case err != nil:
			return result{fatal: err}
		case hit:
			return res
		}
	}
	var err error
	if a.kept, err = w.loadVisit(node.ID, en.visit); err != nil {
		return result{fatal: err}
	}
	res := a.run(ctx)
	res.spends = node.Kind != flows.Gate
	return res
}

// attempts is one visit of a node, through its retries.
type attempts struct {
	w     *walk
	by    caller
	node  *planned
	visit int
	with  []byte
	in    flows.State
	kept  visitRecord
	kept0 time.Duration // time of this walk that is kept already
	began time.Time
	// branch says that used is what the visit has used so far; else it is
	// what the run has spent beyond its completed nodes.
	branch bool
	used   checkpoints.Usage
	// hash is of the action's input, where results are used again.
	hash string
	// names are the effects asked for.
	names []string
	key   string // of the visit
}

// worked is how long the visit took so far, over resumes.
func (a *attempts) worked(now time.Time) time.Duration { return a.kept.Worked + now.Sub(a.began) }

func (a *attempts) keep(ctx context.Context) error {
	v := a.kept
	v.Worked = a.worked(a.w.e.Clock.Now())
	return a.w.keepVisit(ctx, a.node.ID, a.visit, v)
}

// bound is how long the visit may still take and what it is then.
func (a *attempts) bound(now time.Time) (time.Duration, flows.Outcome) {
	limit, outcome := a.node.Timeout, flows.Timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	limit -= now.Sub(a.began)
	if most := a.node.Budget.Wall; most > 0 && most-a.worked(now) < limit {
		limit, outcome = most-a.worked(now), flows.Budget
	}
	if most := a.w.plan.limits.Wall; most > 0 && most-a.w.worked-a.worked(now) < limit {
		limit, outcome = most-a.w.worked-a.worked(now), flows.Budget
	}
	return max(limit, 0), outcome
}

func (a *attempts) run(ctx context.Context) result {
	now := a.began
	for {
		a.kept.Attempts++
		if a.kept.Attempts > 1 {
			if err := a.keep(ctx); err != nil {
				return result{fatal: err}
			}
			now = a.w.e.Clock.Now()
		}
		got, err := a.call(ctx, now)
		if err != nil {
			return result{fatal: err}
		}
		if got.cut {
			return a.cut(ctx)
		}
		retry := a.retry(&got)
		if retry == nil {
			return a.ended(ctx, got)
		}
		if res, over := a.again(ctx, retry); over {
			return res
		}
	}
}

// retry is the typed error for which the action may be called again, or nil.
func (a *attempts) retry(got *returned) *flows.Retry {
	if got.outcome != "" || got.err == nil || errors.Is(got.err, flows.ErrBudget) || a.w.stuck() {
		return nil
	}
	var retry *flows.Retry
	if !errors.As(got.err, &retry) {
		return nil
	}
	return retry
}

func (a *attempts) call(ctx context.Context, now time.Time) (returned, error) {
	c := &call{}
	limit, outcome := a.bound(now)
	c.w, c.node, c.owner, c.visit, c.attempt = a.w, a.node, a, a.visit, a.kept.Attempts
	c.now, c.limit, c.wall = now, limit, outcome == flows.Budget
	c.in, c.with = a.in, a.with
	if a.key == "" {
		a.key = a.w.visitKey(a.node.ID, a.visit)
	}
	c.key = a.key
	if !a.branch {
		var err error
		if a.used, err = a.w.uncharged(ctx); err != nil {
			return returned{}, err
		}
	}
	got := c.run(ctx, a.by, a.used)
	if a.branch {
		a.used = c.meter.total()
	}
	a.names = c.asked(a.names)
	return got, nil
}

// passing keeps the time worked now and then, where it is limited, so that a
// crash gives back little of it; and what a branch has used.
func (a *attempts) passing(ctx context.Context, used checkpoints.Usage) {
	worked := a.worked(a.w.e.Clock.Now())
	timed := a.node.Budget.Wall > 0 || a.w.plan.limits.Wall > 0
	if !a.branch && (!timed || worked-a.kept.Worked-a.kept0 < keepEvery) {
		return
	}
	v := a.kept
	v.Worked = worked
	if a.branch {
		v.Used = &used
	}
	if err := a.w.keepVisit(ctx, a.node.ID, a.visit, v); err != nil {
		a.w.broken(err)
		return
	}
	a.kept0 = worked - a.kept.Worked
}

// cut keeps what the visit has used, for the resume.
func (a *attempts) cut(ctx context.Context) result {
	if lost(ctx) {
		return result{cut: true}
	}
	if a.branch {
		a.kept.Used = &a.used
	}
	if err := a.keep(ctx); err != nil {
		return result{fatal: err}
	}
	return result{cut: true}
}

// ended turns what an action returned into an outcome, and keeps what belongs
// to the visit.
func (a *attempts) ended(ctx context.Context, got returned) result {
	res := a.result(got)
	if res.fatal != nil {
		return res
	}
	if err := a.keepEffects(ctx); err != nil {
		return result{fatal: err}
	}
	if res.inputHash = a.hash; a.hash != "" && got.err == nil && got.outcome == "" && res.reusable() {
		if err := a.keepResult(ctx, res); err != nil {
			return result{fatal: err}
		}
	}
	return res
}

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
	if !ordinary(res.outcome) && !slices.Contains(a.node.action.Outcomes, res.outcome) {
		res.err = fmt.Errorf("the action %s returned the outcome %q, which it does not declare", a.node.action.Name, res.outcome)
		res.outcome, res.delta, res.stop, res.code = flows.Failed, nil, nil, "outcome-unknown"
	}
	if res.outcome != flows.OK && res.err == nil && res.note != "" {
		res.err = errors.New(res.note)
	}
	return res
}

// ordinary outcomes need no declaration by an action.
func ordinary(o flows.Outcome) bool {
	return o == flows.OK || o == flows.Failed || o == flows.Timeout || o == flows.Budget
}

// again waits for the next attempt, or says that the visit is over for now.
func (a *attempts) again(ctx context.Context, retry *flows.Retry) (result, bool) {
	p := a.node.Retry
	used := a.kept.Attempts - 1
	delay := max(backoff(p, used), retry.After)
	now := a.w.e.Clock.Now()
	if used < p.Max && slices.Contains(p.On, retry.Cause) && delay <= longest {
		a.tell(ctx, retry, delay)
		return a.sleep(ctx, now, delay)
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
	until := now.Add(delay)
	if a.branch {
		a.kept.Again, a.kept.Used = until, &a.used
	}
	if err := a.keep(ctx); err != nil {
		return result{fatal: err}, true
	}
	return result{park: &checkpoints.Wait{
		Node: a.node.ID, Since: now, Until: until, Looks: retry.Looks,
		Why: fmt.Sprintf("%s: %s, next attempt in %s", a.node.ID, retry.Cause, delay.Round(time.Second)),
	}}, true
}

func (a *attempts) tell(ctx context.Context, retry *flows.Retry, delay time.Duration) {
	if a.w.e.Hooks.OnNode == nil {
		return
	}
	a.w.onNode(ctx, NodeEvent{
		Node: a.node.ID, Kind: a.node.Kind, Visit: a.visit, Attempt: a.kept.Attempts, Stage: Retry,
		Note: fmt.Sprintf("%s, again in %s", retry.Cause, delay.Round(time.Millisecond)), Err: retry,
	})
}

// sleep waits within the process; the node's time runs on.
func (a *attempts) sleep(ctx context.Context, now time.Time, delay time.Duration) (result, bool) {
	limit, outcome := a.bound(now)
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
