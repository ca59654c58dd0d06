package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
)

// command runs a command by the registered action for it.
func (w *walk) command(ctx context.Context, node *planned, en entry) result {
	in := flows.CommandWith{Argv: node.Argv, Accept: node.Accept}
	for name, template := range node.Env {
		value, err := flows.ExpandText(template, w.state.view(), w.about)
		if err != nil {
			return result{outcome: flows.Failed, code: "template", err: fmt.Errorf("%s in the environment of node %s: %w", name, node.ID, err)}
		}
		if in.Env == nil {
			in.Env = map[string]string{}
		}
		in.Env[name] = value
	}
	with, err := json.Marshal(in)
	if err != nil {
		return result{outcome: flows.Failed, code: "template", err: fmt.Errorf("the command of node %s: %w", node.ID, err)}
	}
	res := w.perform(ctx, node, en, with)
	if res.fatal != nil || res.cut || res.park != nil {
		return res
	}
	delta, err := commandDelta(node, res.delta)
	if err != nil {
		return result{outcome: flows.Failed, code: "invalid-state", err: err, attempt: res.attempt, spends: true}
	}
	res.delta = delta
	return res
}

// commandDelta puts what a command has left where the node takes it.
func commandDelta(node *planned, left map[string]any) (map[string]any, error) {
	for key := range left {
		if key != flows.OutputKey && key != flows.CodeKey {
			return nil, fmt.Errorf("%w: node %s: a command leaves %s and %s, not %s", flows.ErrInvalidState, node.ID, flows.OutputKey, flows.CodeKey, key)
		}
	}
	delta := map[string]any{}
	for to, from := range node.Take {
		if v, ok := left[from]; ok {
			delta[to] = v
		}
	}
	return delta, nil
}
