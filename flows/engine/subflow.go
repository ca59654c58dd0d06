package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// subflow starts a child run, once for each key, and perhaps waits for its
// end. The child has its own row, lease and events; the parent holds no
// worker while it waits.
func (w *walk) subflow(ctx context.Context, node *planned, en entry) result {
	child, res, ok := w.spawn(node)
	switch {
	case !ok:
		return res
	case !node.Await:
		return result{outcome: flows.OK, note: "run " + child.ID + " goes on by itself"}
	}
	a, res, over := w.await(ctx, node, en, childEvent(child.ID), "waiting for "+node.Child+", run "+child.ID)
	switch {
	case over && (res.park == nil || !hasEnded(child)):
		res.spends = true
		return res
	case over:
		// It has ended, and its event was consumed by an earlier visit or is
		// on its way.
		res = childResult(node, endOf(child))
	default:
		var end childEnd
		if err := json.Unmarshal(a.event.Data, &end); err != nil {
			return badEvent(a.event, err)
		}
		res = childResult(node, end)
		res.eventKey = a.event.Key
	}
	res.spends = true
	return res
}

// spawn finds or starts the child; its key makes a second start impossible.
func (w *walk) spawn(node *planned) (child checkpoints.Run, res result, ok bool) {
	failed := func(code string, err error) (checkpoints.Run, result, bool) {
		return child, result{outcome: flows.Failed, code: code, err: fmt.Errorf("node %s: %w", node.ID, err)}, false
	}
	f, there := w.flow.Child(node.Child)
	if !there {
		return failed("corrupt", fmt.Errorf("%w: the flow holds no flow %s", flows.ErrCorrupt, node.Child))
	}
	key, err := flows.ExpandText(node.ChildKey, w.state.view(), w.about)
	if err != nil {
		return failed("template", err)
	}
	req := checkpoints.StartReq{
		Key: w.run.ID + ":" + node.Child + ":" + key, Lineage: w.run.Lineage, Repo: w.run.Repo, Issue: w.run.Issue, Round: w.run.Round,
		Parent: w.run.ID, ParentNode: node.ID, Close: node.Close, Counted: node.Await, Mode: w.run.Mode,
	}
	input := map[string]json.RawMessage{}
	for to, from := range node.Give {
		if w.state.view().Has(from) {
			input[to] = w.state.raw(from)
		}
	}
	if req, err = w.e.Freeze(f, req, flows.NewState(input)); err != nil {
		return failed("invalid-state", err)
	}
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	child, err = w.e.Store.Start(sctx, req)
	switch {
	case errors.Is(err, checkpoints.ErrConflict) && child.Parent == w.run.ID && child.Key == req.Key:
	case errors.Is(err, checkpoints.ErrConflict):
		return failed("child-conflict", err)
	case err != nil:
		return child, result{fatal: fmt.Errorf("starting flow %s for run %s: %w", node.Child, w.run.ID, err)}, false
	}
	return child, result{}, true
}

// childEnd is the data of the event with which a child's end reaches its
// parent.
type childEnd struct {
	Status checkpoints.Status `json:"status"`
	Result string             `json:"result"`
	Code   string             `json:"code"`
	Reason string             `json:"reason"`
	State  json.RawMessage    `json:"state"`
}

// childEvent is the kind of that event, and its key: a child ends once.
func childEvent(id string) string { return "child/" + id }

func hasEnded(child checkpoints.Run) bool {
	return child.Status.Final() || child.Status == checkpoints.Ending
}

func endOf(child checkpoints.Run) childEnd {
	end := childEnd{Status: child.Status, Result: child.Result, Code: child.Code, Reason: child.Reason, State: child.State}
	if !child.Status.Final() {
		end.Status = StatusOf(child.Result)
	}
	return end
}

// childResult is ok when the child has ended by itself, with a result of its
// own; only then the parent takes something from it.
func childResult(node *planned, end childEnd) result {
	if end.Status != checkpoints.Done || StatusOf(end.Result) != checkpoints.Done {
		return result{outcome: flows.Failed, code: "child-failed", err: fmt.Errorf("flow %s: %s (%s): %s", node.Child, end.Result, orNone(end.Code), orNone(end.Reason))}
	}
	state, err := flows.DecodeState(end.State)
	if err != nil {
		return result{outcome: flows.Failed, code: "bad-event", err: fmt.Errorf("the last state of flow %s: %w", node.Child, err)}
	}
	res := result{outcome: flows.OK, delta: map[string]any{}, note: node.Child + " ended with " + end.Result}
	for _, key := range slices.Sorted(maps.Keys(node.Take)) {
		if from := node.Take[key]; state.Has(from) {
			res.delta[key] = state.Raw(from)
		}
	}
	return res
}

// ChildEnded tells a parent that its child has ended; for runs without a
// parent it does nothing. It is called while the child is Ending, before
// Finish: the child's lock is taken first, then the parent's. Calling it
// again does nothing.
func (e *Engine) ChildEnded(ctx context.Context, child checkpoints.Run) error {
	if child.Parent == "" {
		return nil
	}
	data, err := json.Marshal(endOf(child))
	if err != nil {
		return fmt.Errorf("telling run %s of the end of its child %s: %w", child.Parent, child.ID, err)
	}
	kind := childEvent(child.ID)
	_, err = e.Store.Deliver(ctx, child.Parent, checkpoints.Event{Key: kind, Kind: kind, Data: data, At: e.Clock.Now()})
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return fmt.Errorf("telling run %s of the end of its child %s: %w", child.Parent, child.ID, err)
	}
	return nil
}
