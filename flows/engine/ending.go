package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// finallyTime bounds each `finally` action.
const finallyTime = 60 * time.Second

const (
	// maxReason is the most letters of a stored reason.
	maxReason = 2000
	// maxWhy is the most letters of why a run waits. What an approval asks has
	// more: whoever answers has to see all of it, and a comment holds it.
	maxWhy   = 500
	maxAsked = 4000
)

func mostWhy(wait checkpoints.Wait) int {
	if wait.Event == flows.ApprovalEvent {
		return maxAsked
	}
	return maxWhy
}

// lost reports that the walk was told that somebody else has the run.
func lost(ctx context.Context) bool { return errors.Is(context.Cause(ctx), checkpoints.ErrLost) }

// interrupted ends the walk by the cause of its context's end.
func (w *walk) interrupted(ctx context.Context) (Outcome, error) {
	cause := context.Cause(ctx)
	var h Halt
	var hp *Halt
	var c Cancel
	var cp *Cancel
	switch {
	case errors.Is(cause, checkpoints.ErrLost):
		return w.over(Outcome{How: Lost, Err: cause}), nil
	case errors.As(cause, &cp):
		return w.cancel(ctx, *cp)
	case errors.As(cause, &c):
		return w.cancel(ctx, c)
	case errors.As(cause, &hp):
		return w.halt(ctx, "halted", hp.Reason)
	case errors.As(cause, &h):
		return w.halt(ctx, "halted", h.Reason)
	}
	return w.release(ctx)
}

// over completes an outcome with what every ending tells.
func (w *walk) over(o Outcome) Outcome {
	w.mu.Lock()
	if !w.stale {
		w.run.Spent = w.spent
	}
	w.mu.Unlock()
	o.Path, o.Run = w.path, w.run
	return o
}

// storeFailed ends the walk at once: what can't be recorded must not happen.
func (w *walk) storeFailed(err error) (Outcome, error) {
	if errors.Is(err, checkpoints.ErrLost) {
		return w.over(Outcome{How: Lost, Err: err}), nil
	}
	return w.over(Outcome{}), err
}

// fail ends the run with result "error".
func (w *walk) fail(ctx context.Context, code string, err error) (Outcome, error) {
	reason := clip(w.e.Scrub(err.Error()), maxReason)
	return w.end(ctx, Outcome{How: Ended, Result: "error", Code: code, Reason: reason, Err: err}, "error")
}

// cancel ends the run from outside.
func (w *walk) cancel(ctx context.Context, c Cancel) (Outcome, error) {
	if c.Result == "" {
		c.Result = "cancelled"
	}
	if c.Code == "" {
		c.Code = "cancelled"
	}
	c.Reason = clip(w.e.Scrub(c.Reason), maxReason)
	return w.end(ctx, Outcome{How: Cancelled, Result: c.Result, Code: c.Code, Reason: c.Reason}, "cancelled")
}

// end makes the run Ending without completing a node.
func (w *walk) end(ctx context.Context, o Outcome, how string) (Outcome, error) {
	o.Reason, o.Finally = w.finally(ctx, flows.Ended{How: how, Reason: o.Reason})
	if lost(ctx) {
		return w.interrupted(ctx)
	}
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.End(sctx, w.lease, checkpoints.Ended{Result: o.Result, Code: o.Code, Reason: o.Reason}); err != nil {
		return w.storeFailed(fmt.Errorf("ending run %s (%s): %w", w.run.ID, o.Code, err))
	}
	w.ending(o)
	return w.over(o), nil
}

func (w *walk) ending(o Outcome) {
	w.run.Status, w.run.Wait = checkpoints.Ending, nil
	w.run.Result, w.run.Code, w.run.Reason = o.Result, o.Code, o.Reason
}

// halt stops before or within a node; the run keeps its position.
func (w *walk) halt(ctx context.Context, code, reason string) (Outcome, error) {
	o := Outcome{How: Halted, Code: code, Reason: clip(w.e.Scrub(reason), maxReason)}
	o.Reason, o.Finally = w.finally(ctx, flows.Ended{How: "halted", Reason: o.Reason})
	if lost(ctx) {
		return w.interrupted(ctx)
	}
	return w.halted(o)
}

// drifted halts a run that this program would walk in another way than the
// one that began it: whether it may is for a person to say. Nothing of the
// flow runs, not even its last actions.
func (w *walk) drifted(ctx context.Context, err error) (Outcome, error) {
	if lost(ctx) {
		return w.interrupted(ctx)
	}
	return w.halted(Outcome{How: Halted, Code: "drift", Reason: clip(w.e.Scrub(err.Error()), maxReason), Err: err})
}

func (w *walk) halted(o Outcome) (Outcome, error) {
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.Halt(sctx, w.lease, o.Code, o.Reason); err != nil {
		return w.storeFailed(fmt.Errorf("halting run %s: %w", w.run.ID, err))
	}
	w.run.Status, w.run.Code, w.run.Reason = checkpoints.Halted, o.Code, o.Reason
	return w.over(o), nil
}

// release gives the run back as it stands.
func (w *walk) release(ctx context.Context) (Outcome, error) {
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.Release(sctx, w.lease); err != nil {
		return w.storeFailed(fmt.Errorf("releasing run %s: %w", w.run.ID, err))
	}
	w.run.Status = checkpoints.Ready
	return w.over(Outcome{How: Released, Reason: "shutting down"}), nil
}

// park leaves the node uncompleted until an event or an instant.
func (w *walk) park(ctx context.Context, wait checkpoints.Wait) (Outcome, error) {
	wait.Why = clip(w.e.Scrub(wait.Why), mostWhy(wait))
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if lost(ctx) {
		return w.interrupted(ctx)
	}
	if err := w.e.Store.Park(sctx, w.lease, wait); err != nil {
		return w.storeFailed(fmt.Errorf("parking run %s at %s: %w", w.run.ID, wait.Node, err))
	}
	w.run.Status, w.run.Wait = checkpoints.Waiting, &wait
	return w.over(Outcome{How: Parked, Reason: wait.Why}), nil
}

// cameFrom names the edge that was taken last, as far as it is known.
func (w *walk) cameFrom(ctx context.Context) string {
	history, err := w.e.Store.History(ctx, w.run.ID)
	if err != nil || len(history) == 0 {
		return ""
	}
	last := history[len(history)-1]
	return fmt.Sprintf(" by the edge {from: %s, to: %s, on: [%s]}", last.Node, last.Next, last.Outcome)
}

// sink completes the run, if it has a result.
func (w *walk) sink(ctx context.Context, node *planned, en entry) (Outcome, error) {
	o := Outcome{How: Ended, Result: w.state.view().Str("result")}
	if !w.hasResult() {
		return w.fail(ctx, "no-result", fmt.Errorf("%w: the sink %s was reached%s with result none; let that edge set it, or an action write it",
			ErrNoResult, node.ID, w.cameFrom(ctx)))
	}
	st, stopped := w.state.view().Stop()
	if stopped {
		o.Code, o.Reason = st.Code, st.Reason
	}
	o.Reason, o.Finally = w.finally(ctx, flows.Ended{How: "sink", Result: o.Result, Reason: o.Reason})
	if ctx.Err() != nil {
		// Whatever ended the context meanwhile counts; the sink is entered
		// again, and finally with it.
		return w.interrupted(ctx)
	}
	raw := w.state.json(true)
	w.run.Visits[node.ID] = en.visit
	took := w.e.Clock.Now().Sub(en.began)
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	err := w.e.Store.Commit(sctx, w.lease, checkpoints.Commit{
		Record: checkpoints.NodeRecord{
			Seq: w.run.Seq + 1, Node: node.ID, Kind: string(node.Kind), Visit: en.visit, Attempt: 1,
			Outcome: string(flows.OK), Note: o.Reason, Began: en.began, Took: took,
		},
		Seq: w.run.Seq + 1, State: raw, Visits: w.run.Visits,
		Ending: &checkpoints.Ended{Result: o.Result, Code: o.Code, Reason: o.Reason},
	})
	if err != nil {
		return w.storeFailed(fmt.Errorf("completing run %s: %w", w.run.ID, err))
	}
	w.run.Seq, w.run.Node, w.run.Next, w.run.State, w.run.Starts = w.run.Seq+1, node.ID, "", raw, 0
	w.ending(o)
	w.path = append(w.path, node.ID)
	if w.e.Hooks.OnNode != nil {
		w.onNode(ctx, NodeEvent{Node: node.ID, Kind: node.Kind, Visit: en.visit, Attempt: 1, Stage: End, Outcome: flows.OK, Note: o.Reason, Took: took})
	}
	return w.over(o), nil
}

// finallyKey begins the keys of the effects of a `finally` action.
func finallyKey(run, name string) string { return "run/" + run + "/finally/" + name }

// finally runs the flow's last actions, whatever ended it. They can't change
// the run any more, and what goes wrong in them never replaces the cause. What
// they did is added to the reason: where the work was saved is part of how it
// ended.
func (w *walk) finally(ctx context.Context, ended flows.Ended) (reason string, err error) {
	reason = ended.Reason
	if w.state == nil {
		return reason, nil
	}
	var errs []error
	for _, name := range w.flow.Finally() {
		action, ok := w.e.Registry.Get(name)
		if !ok {
			errs = append(errs, fmt.Errorf("finally %s: %w: no such action", name, flows.ErrDrift))
			continue
		}
		c := &call{
			w: w, node: &planned{Node: &flows.Node{ID: name}, action: &action}, visit: 1, attempt: 1, key: finallyKey(w.run.ID, name),
			now: w.e.Clock.Now(), limit: finallyTime, free: true, in: w.state.copy(), last: &ended,
		}
		got := c.run(context.WithoutCancel(ctx), &w.hands, checkpoints.Usage{})
		if names := c.asked(nil); len(names) > 0 {
			if err := w.keep(ctx, c.key+keptEffects, names); err != nil {
				errs = append(errs, err)
			}
		}
		if got.err != nil {
			w.log.ErrorContext(ctx, "finally action failed", "action", name, "error", got.err)
			errs = append(errs, fmt.Errorf("finally %s: %w", name, got.err))
		}
		if note := w.e.Scrub(got.res.Note); note != "" && reason == "" {
			reason = note
		} else if note != "" {
			reason = strings.TrimRight(reason, ".") + "; " + note
		}
	}
	return clip(reason, maxReason), errors.Join(errs...)
}
