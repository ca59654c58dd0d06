package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// TracedEffect is one outside write.
type TracedEffect struct {
	// Where is "<node>/<visit>" or "finally/<action>", Name the effect's in
	// its action.
	Where, Name string
	// Value is what was recorded; null for a shadow's that found nothing.
	Value json.RawMessage
}

// TraceEffects reads what a run did outside, or would have done as a shadow,
// in the order of the visits. Nodes at work are not part of it.
func (e *Engine) TraceEffects(ctx context.Context, run checkpoints.Run) ([]TracedEffect, error) {
	history, err := e.Store.History(ctx, run.ID)
	if err != nil {
		return nil, fmt.Errorf("tracing run %s: %w", run.ID, err)
	}
	var all []TracedEffect
	for i := range history {
		rec := &history[i]
		where := fmt.Sprintf("%s/%d", rec.Node, rec.Visit)
		if all, err = e.traceVisit(ctx, all, &run, where, visitKey(run.ID, rec.Node, rec.Visit)); err != nil {
			return nil, err
		}
	}
	if f, err := flows.ThawToday(run.Definition, run.DefinitionHash, e.Registry); err == nil {
		for _, name := range f.Finally() {
			if all, err = e.traceVisit(ctx, all, &run, "finally/"+name, finallyKey(run.ID, name)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// traceVisit adds the effects that one visit asked for.
func (e *Engine) traceVisit(ctx context.Context, all []TracedEffect, run *checkpoints.Run, where, visit string) ([]TracedEffect, error) {
	raw, err := e.Store.Effect(ctx, visit+keptEffects)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return all, nil
	}
	var names []string
	if err == nil {
		err = json.Unmarshal(raw, &names)
	}
	if err != nil {
		return nil, fmt.Errorf("tracing the effects of %s: %w", visit, err)
	}
	for _, name := range names {
		key := effectKey(visit, name)
		if run.Mode == checkpoints.ModeShadow {
			key = checkpoints.ShadowKey(key)
		}
		value, err := e.Store.Effect(ctx, key)
		if errors.Is(err, checkpoints.ErrNotFound) {
			continue // asked for, and failed
		} else if err != nil {
			return nil, fmt.Errorf("tracing effect %s: %w", key, err)
		}
		all = append(all, TracedEffect{where, name, value})
	}
	return all, nil
}

// Difference is one outside write in which two runs differ.
type Difference struct {
	// Where is "<node>/<visit>" or "finally/<action>", What "effect <name>" or
	// "value of effect <name>".
	Where, What string
	// Shadow and Real are the two sides, "" for nothing.
	Shadow, Real string
}

// String says it in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: shadow %s, real %s", d.Where, d.What, orNone(d.Shadow), orNone(d.Real))
}

// EffectParity compares what a shadow run meant to do outside with what a real
// run did. What a shadow found nothing for has no value to compare. None is
// parity.
func EffectParity(shadow, actual []TracedEffect) []Difference {
	var out []Difference
	find := func(in []TracedEffect, e TracedEffect) (TracedEffect, bool) {
		i := slices.IndexFunc(in, func(o TracedEffect) bool { return o.Where == e.Where && o.Name == e.Name })
		if i < 0 {
			return TracedEffect{}, false
		}
		return in[i], true
	}
	for _, e := range shadow {
		did, ok := find(actual, e)
		switch {
		case !ok:
			out = append(out, Difference{e.Where, "effect " + e.Name, "intended", ""})
		case string(e.Value) != "null" && !same(e.Value, did.Value):
			out = append(out, Difference{e.Where, "value of effect " + e.Name, string(e.Value), string(did.Value)})
		}
	}
	for _, e := range actual {
		if _, ok := find(shadow, e); !ok {
			out = append(out, Difference{e.Where, "effect " + e.Name, "", "done"})
		}
	}
	return out
}
