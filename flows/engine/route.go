package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// route is where a run goes after a node.
type route struct {
	to     string
	state  flows.State
	guards []checkpoints.Guard
}

// stopGuard is how the shared stop edge reads in a run's record.
const stopGuard = "has(state._stop)"

// apply puts a result's delta into the state. What does not fit is a failure
// and leaves the state as it was.
func (w *walk) apply(node flows.Node, res result) (flows.State, result) {
	if len(res.delta) == 0 {
		return w.state, res
	}
	delta, err := flows.Delta(res.delta).Encode()
	if err == nil {
		w.scrub(delta)
		var next flows.State
		if next, err = w.flow.Apply(w.state, node.Writes, delta); err == nil {
			return next, res
		}
	}
	res.outcome, res.stop, res.note = flows.Failed, nil, ""
	res.code, res.err = "invalid-state", fmt.Errorf("node %s: %w", node.ID, err)
	return w.state, res
}

// scrub takes secrets out of the texts of a delta, never out of values that
// must stay what they are.
func (w *walk) scrub(delta map[string]json.RawMessage) {
	for key, raw := range delta {
		f, ok := w.flow.Field(key)
		if !ok || f.Type != flows.StringField && f.Type != flows.ListField && f.Type != flows.ObjectField {
			continue
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&v) != nil {
			continue // refused by the type check
		}
		if clean, err := json.Marshal(w.scrubbed(v)); err == nil {
			delta[key] = clean
		}
	}
}

func (w *walk) scrubbed(v any) any {
	switch v := v.(type) {
	case string:
		return w.e.Scrub(v)
	case []any:
		for i := range v {
			v[i] = w.scrubbed(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = w.scrubbed(v[key])
		}
	}
	return v
}

// route finds the way on: the stop edge first, then the first edge that takes
// the outcome and whose guard holds. An error ends the run; code is its word.
func (w *walk) route(node flows.Node, res result, state flows.State, visit int) (route, string, error) {
	switch {
	case res.again:
		return route{to: node.ID, state: state}, "", nil
	case res.stop != nil:
		return w.stopRoute(node, *res.stop, state)
	}
	r := route{state: state}
	visits := maps.Clone(w.run.Visits)
	if visits == nil {
		visits = map[string]int{}
	}
	visits[node.ID] = visit
	env := flows.GuardEnv{State: state.Public(), Outcome: res.outcome, Visits: visits}
	asked := false
	for _, e := range w.flow.From(node.ID) {
		if !e.Takes(res.outcome) {
			continue
		}
		asked = true
		holds, err := e.When.Eval(env)
		if err != nil {
			return r, "guard", fmt.Errorf("%w: from %s to %s: %w", flows.ErrNoRoute, node.ID, e.To, errors.Join(err, res.err))
		}
		r.guards = append(r.guards, checkpoints.Guard{To: e.To, When: e.When.String(), Taken: holds})
		if !holds {
			continue
		}
		r.to = e.To
		if len(e.Set) > 0 {
			if r.state, err = w.flow.Apply(state, slices.Collect(maps.Keys(e.Set)), e.Set); err != nil {
				return r, "invalid-state", fmt.Errorf("edge from %s to %s: %w", node.ID, e.To, err)
			}
		}
		return r, "", nil
	}
	return w.noEdge(node, res, r, asked)
}

func (w *walk) noEdge(node flows.Node, res result, r route, asked bool) (route, string, error) {
	code := res.code
	switch {
	case asked:
		return r, "no-route", fmt.Errorf("%w: no guard of node %s holds after %s%w", flows.ErrNoRoute, node.ID, res.outcome, because(res.err))
	case res.outcome == flows.Budget && w.needsHuman():
		state, err := w.flow.Apply(r.state, []string{"result"}, map[string]json.RawMessage{"result": json.RawMessage(`"needs_human"`)})
		if err != nil {
			return r, "invalid-state", err
		}
		return w.stopRoute(node, flows.Stop{Code: "budget", Reason: w.note(res)}, state)
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
	f, ok := w.flow.Field("result")
	return ok && w.flow.Stops() && slices.Contains(f.Values, "needs_human")
}

func (w *walk) stopRoute(node flows.Node, st flows.Stop, state flows.State) (route, string, error) {
	if !w.flow.Stops() {
		return route{}, "no-route", fmt.Errorf("%w: node %s stops (%s), but the flow has no stop edge", flows.ErrNoRoute, node.ID, st.Code)
	}
	if state.Str("result") == "none" {
		return route{}, "no-result", fmt.Errorf("%w: node %s stops (%s) without setting result", ErrNoResult, node.ID, st.Code)
	}
	st.Code, st.Reason = clip(st.Code, 64), clip(w.e.Scrub(st.Reason), 2000)
	state, err := state.WithStop(st)
	if err != nil {
		return route{}, "invalid-state", err
	}
	to := w.flow.Sink()
	return route{to: to, state: state, guards: []checkpoints.Guard{{To: to, When: stopGuard, Taken: true}}}, "", nil
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

// changed is the keys in which two states differ, as JSON; null for those
// that are gone.
func changed(before, after flows.State) (json.RawMessage, error) {
	diff := map[string]json.RawMessage{}
	for _, key := range after.Keys() {
		if !bytes.Equal(before.Raw(key), after.Raw(key)) {
			diff[key] = after.Raw(key)
		}
	}
	for _, key := range before.Keys() {
		if after.Raw(key) == nil {
			diff[key] = json.RawMessage("null")
		}
	}
	if len(diff) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(diff)
	if err != nil {
		return nil, fmt.Errorf("encoding what changed: %w", err)
	}
	return raw, nil
}
