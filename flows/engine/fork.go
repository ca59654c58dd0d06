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

// ErrFork means that a run can't be forked from a node; the text says why.
var ErrFork = errors.New("can't fork")

// Fork is a request for a new run of a run's frozen flow that begins at a
// node, with the state as it was when the node was last entered, edited. The
// source is not touched; nodes before it do not run. Actions are those of this
// program: forking is how a run goes on whose actions have changed.
//
// edits maps state keys to JSON, null takes a value away. Errors are ErrFork,
// flows.ErrInvalidState when an edit does not fit, flows.ErrCorrupt when the
// source can't be trusted.
func (e *Engine) Fork(ctx context.Context, source checkpoints.Run, node string, edits map[string]json.RawMessage) (checkpoints.StartReq, error) {
	req, err := e.fork(ctx, source, node, edits)
	if err != nil {
		return req, fmt.Errorf("forking run %s from %s: %w", source.ID, node, err)
	}
	return req, nil
}

func (e *Engine) fork(ctx context.Context, source checkpoints.Run, node string, edits map[string]json.RawMessage) (checkpoints.StartReq, error) {
	var none checkpoints.StartReq
	f, err := flows.ThawToday(source.Definition, source.DefinitionHash, e.Registry)
	if err != nil {
		return none, err
	}
	if err := forkable(f, node); err != nil {
		return none, err
	}
	history, err := e.Store.History(ctx, source.ID)
	if err != nil {
		return none, err
	}
	state, err := stateAt(&source, f, history, node)
	if err != nil {
		return none, err
	}
	if state, err = edited(f, state, edits); err != nil {
		return none, err
	}
	raw, err := state.MarshalJSON()
	if err != nil {
		return none, err
	}
	return checkpoints.StartReq{
		Key: source.Key, Lineage: source.Lineage, Repo: source.Repo, Issue: source.Issue, Phase: source.Phase,
		Flow: source.Flow, Round: source.Round, Forked: source.ID, ForkedAt: node, Mode: source.Mode,
		Concurrency: source.Concurrency, OnConflict: source.OnConflict,
		Entry: node, State: raw, Definition: source.Definition, DefinitionHash: source.DefinitionHash, Actions: f.Actions(),
	}, nil
}

// forkable refuses nodes that can't be the first: branches and merges have
// nothing without their fanout, and a sink nothing to do.
func forkable(f *flows.Flow, node string) error {
	n, ok := f.Node(node)
	if !ok {
		return fmt.Errorf("%w: flow %s has no node %s", ErrFork, f.Name(), node)
	}
	for _, fan := range f.Nodes() {
		if fan.Kind == flows.Fanout && (fan.Join == node || slices.Contains(fan.Branches, node)) {
			return fmt.Errorf("%w: %s belongs to the fanout %s, begin there", ErrFork, node, fan.ID)
		}
	}
	if n.Kind == flows.Sink {
		return fmt.Errorf("%w: %s is the sink, nothing runs from there", ErrFork, node)
	}
	return nil
}

// stateAt is the state when a node was last entered: now, when the run stands
// there.
func stateAt(run *checkpoints.Run, f *flows.Flow, history []checkpoints.NodeRecord, node string) (flows.State, error) {
	if len(run.Initial) == 0 {
		return flows.State{}, fmt.Errorf("%w: the state at its start was not recorded", ErrFork)
	}
	if err := consistent(run, f, history); err != nil {
		return flows.State{}, err
	}
	at := len(history)
	if run.Next != node {
		at = -1
		for i := range history {
			if history[i].Node == node {
				at = i
			}
		}
	}
	if at < 0 {
		return flows.State{}, fmt.Errorf("%w: the run never came to %s", ErrFork, node)
	}
	values, err := fold(run, history[:at])
	if err != nil {
		return flows.State{}, err
	}
	maps.DeleteFunc(values, func(_ string, raw json.RawMessage) bool { return raw == nil })
	return flows.NewState(values).Public(), nil
}

// edited is a state with a person's changes.
func edited(f *flows.Flow, state flows.State, edits map[string]json.RawMessage) (flows.State, error) {
	keys := slices.Sorted(maps.Keys(edits))
	return f.Apply(state, keys, edits)
}
