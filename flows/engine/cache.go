package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
)

// keptOf is a result that an equal visit of the same run may use again.
type keptOf struct {
	Visit   int                        `json:"visit"`
	Outcome flows.Outcome              `json:"outcome"`
	Delta   map[string]json.RawMessage `json:"delta,omitempty"`
	Note    string                     `json:"note,omitempty"`
}

// reusable results are what an action decided; that it failed, ran out of
// time or money, or stopped the flow says nothing of the next time.
func (r *result) reusable() bool {
	return r.stop == nil && r.code == "" && (r.outcome == flows.OK || !ordinary(r.outcome))
}

func (a *attempts) resultKey() string {
	return "run/" + a.w.run.ID + "/" + a.node.ID + keptResult + a.hash
}

// cached finds the result of an equal visit. What the visit may have cost
// before a crash is charged all the same.
func (a *attempts) cached() (result, bool, error) {
	var err error
	if a.hash, err = inputHash(a.node.action, a.with, a.in); err != nil {
		return result{outcome: flows.Failed, code: "invalid-state", err: err}, true, nil //nolint:nilerr // the node's failure, not the store's
	}
	var was keptOf
	hit, err := a.w.kept(a.resultKey(), &was)
	if err != nil || !hit {
		return result{}, false, err
	}
	res := result{
		outcome: was.Outcome, inputHash: a.hash, attempt: 1, spends: true,
		note: fmt.Sprintf("cached: as in visit %d", was.Visit), delta: make(map[string]any, len(was.Delta)),
	}
	if was.Note != "" {
		res.note += ": " + was.Note
	}
	for key, raw := range was.Delta {
		res.delta[key] = raw
	}
	return res, true, nil
}

// keepResult keeps a result for equal visits. One that does not fit the state
// is not kept: it fails.
func (a *attempts) keepResult(ctx context.Context, res result) error {
	delta, err := a.w.checkedDelta(a.node, res.delta)
	if err != nil {
		return nil //nolint:nilerr // the node fails for it, which is told there
	}
	return a.w.keep(ctx, a.resultKey(), keptOf{Visit: a.visit, Outcome: res.outcome, Delta: delta, Note: a.w.note(&res)})
}

// inputHash identifies all that an action is given: what it is, its `with`,
// expanded, and the part of the state that it sees.
func inputHash(action *flows.Action, with []byte, in flows.State) (string, error) {
	state, err := in.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("hashing the input of %s: %w", action.Name, err)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(action.Name), []byte(action.Version), with, state} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
