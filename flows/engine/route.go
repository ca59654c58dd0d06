package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// route is where a run goes after a node.
type route struct {
	to     string
	guards []checkpoints.Guard
}

// noResult is the result that a flow begins with.
const noResult = "none"

// apply puts a result's delta into the state. What does not fit is a failure
// and leaves the state as it was, and so does a merge that fails.
func (w *walk) apply(node *planned, res *result) {
	if node.Kind == flows.Merge && res.outcome != flows.OK {
		w.state.rollback()
		return
	}
	err := error(nil)
	if len(res.delta) > 0 {
		err = w.state.apply(node.writes, res.delta, w.scrubber())
	}
	if err == nil && res.report != nil {
		err = w.state.apply([]string{node.Report}, map[string]any{node.Report: res.report}, w.scrubber())
	}
	if err != nil {
		w.state.rollback()
		res.outcome, res.stop, res.note, res.delta = flows.Failed, nil, "", nil
		res.code, res.err = "invalid-state", fmt.Errorf("node %s: %w", node.ID, err)
	}
	if !res.again {
		w.forget(node, res.delta)
	}
}

// forget sets back the fields of a node's take that this visit has not brought:
// what an earlier one has left there must not pass for this one's. A field that
// has to be given can't be set back, and stays.
func (w *walk) forget(node *planned, brought map[string]any) {
	for key := range node.Take {
		f := w.flow.FieldRef(key)
		if _, has := brought[key]; has || f == nil || f.Required {
			continue
		}
		if w.state.raw(key) != nil || f.Default != nil {
			w.state.set(key, f.Default)
		}
	}
}

// checkedDelta is a delta as JSON, without secrets, if it fits the state.
func (w *walk) checkedDelta(node *planned, delta map[string]any) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(delta))
	for key, value := range delta {
		f := w.flow.FieldRef(key)
		switch {
		case f == nil:
			return nil, invalid(key, "is no field of flow %s", w.flow.Name())
		case !slices.Contains(node.writes, key):
			return nil, invalid(key, "is not among the keys that the node writes")
		}
		if scrub := w.scrubber(); scrub != nil {
			value = scrub(f, value)
		}
		raw, err := encodeSlowly(key, value)
		if err != nil {
			return nil, err
		}
		if string(raw) != "null" {
			if err := f.Check(raw); err != nil {
				return nil, invalid(key, "%w", err)
			}
		} else if f.Default != nil || f.Required {
			return nil, invalid(key, "can't be taken away")
		}
		out[key] = raw
	}
	return out, nil
}

// route finds the way on: the stop edge first, then the first edge that takes
// the outcome and whose guard holds. An error ends the run; code is its word.
func (w *walk) route(node *planned, res *result, visit int) (route, string, error) {
	switch {
	case res.again:
		return route{to: node.ID}, "", nil
	case res.stop != nil:
		return w.stopRoute(node, *res.stop)
	case res.to != "":
		return route{to: res.to, guards: []checkpoints.Guard{{To: res.to, Taken: true}}}, "", nil
	}
	var r route
	if node.counts {
		w.run.Visits[node.ID] = visit
		defer w.unvisit(node.ID, visit)
	}
	env := flows.GuardEnv{State: w.state.view(), Outcome: res.outcome, Visits: w.run.Visits}
	for i, e := range node.out {
		if !e.Takes(res.outcome) {
			continue
		}
		holds, err := e.When.Eval(env)
		if err != nil {
			return r, "guard", fmt.Errorf("%w: from %s to %s: %w", flows.ErrNoRoute, node.ID, e.To, errors.Join(err, res.err))
		}
		if r.guards == nil && holds {
			r.guards = node.taken[i]
		} else {
			r.guards = append(r.guards, checkpoints.Guard{To: e.To, When: e.When.String(), Taken: holds})
		}
		if !holds {
			continue
		}
		r.to = e.To
		if len(e.Set) > 0 {
			if err := w.state.literals(e.Set); err != nil {
				return r, "invalid-state", fmt.Errorf("edge from %s to %s: %w", node.ID, e.To, err)
			}
		}
		return r, "", nil
	}
	return w.noEdge(node, res, r)
}

// unvisit takes a visit back that is not committed.
func (w *walk) unvisit(node string, visit int) {
	if visit > 1 {
		w.run.Visits[node] = visit - 1
		return
	}
	delete(w.run.Visits, node)
}

func (w *walk) noEdge(node *planned, res *result, r route) (route, string, error) {
	code := res.code
	switch {
	case r.guards != nil:
		return r, "no-route", fmt.Errorf("%w: no guard of node %s holds after %s%w", flows.ErrNoRoute, node.ID, res.outcome, because(res.err))
	case res.outcome == flows.Budget && w.flow.Stops() && w.hasResult():
		return w.stopRoute(node, flows.Stop{Code: "budget", Reason: w.note(res)})
	case res.outcome == flows.Budget && w.needsHuman():
		if err := w.state.literals(map[string]json.RawMessage{"result": json.RawMessage(`"needs_human"`)}); err != nil {
			return r, "invalid-state", err
		}
		return w.stopRoute(node, flows.Stop{Code: "budget", Reason: w.note(res)})
	case res.outcome == flows.Budget:
		code = "budget"
	case code == "":
		code = string(res.outcome)
	}
	switch res.outcome {
	case flows.Failed, flows.Timeout, flows.Denied, flows.Budget:
		return r, code, fmt.Errorf("node %s: %s%w", node.ID, res.outcome, because(res.err))
	case flows.OK, flows.Exhausted, flows.Skipped, flows.Stopped:
	}
	return r, "no-route", fmt.Errorf("%w: node %s ended with %s", flows.ErrNoRoute, node.ID, res.outcome)
}

// needsHuman reports that a spent budget can end as a planned stop.
func (w *walk) needsHuman() bool {
	f := w.flow.FieldRef("result")
	return f != nil && w.flow.Stops() && slices.Contains(f.Values, "needs_human")
}

// hasResult reports that the flow has said what became of the run.
func (w *walk) hasResult() bool {
	result := w.state.view().Str("result")
	return result != "" && result != noResult
}

func (w *walk) stopRoute(node *planned, st flows.Stop) (route, string, error) {
	if !w.flow.Stops() {
		return route{}, "no-route", fmt.Errorf("%w: node %s stops (%s), but the flow has no stop edge", flows.ErrNoRoute, node.ID, st.Code)
	}
	if !w.hasResult() {
		return route{}, "no-result", fmt.Errorf("%w: node %s stops (%s) without setting result", ErrNoResult, node.ID, st.Code)
	}
	st.Code, st.Reason = clip(st.Code, 64), clip(w.e.Scrub(st.Reason), 2000)
	if w.state.raw(flows.StopKey) == nil {
		raw, err := json.Marshal(st)
		if err != nil {
			return route{}, "invalid-state", fmt.Errorf("keeping stop %s: %w", st.Code, err)
		}
		w.state.set(flows.StopKey, raw)
	}
	to := w.flow.Sink()
	return route{to: to, guards: []checkpoints.Guard{{To: to, When: flows.StopGuard, Taken: true}}}, "", nil
}

// because adds a cause where there is one; it formats as nothing otherwise.
func because(err error) error {
	if err == nil {
		return none{}
	}
	return cause{err}
}

type none struct{}

func (none) Error() string { return "" }

type cause struct{ err error }

func (c cause) Error() string { return ": " + c.err.Error() }
func (c cause) Unwrap() error { return c.err }
