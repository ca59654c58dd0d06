package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Trace is all that a run has done, for comparison.
type Trace struct {
	Run     checkpoints.Run
	History []checkpoints.NodeRecord
	// Effects are what it did outside, or would have done as a shadow, in the
	// order of the visits.
	Effects []TracedEffect
}

// TracedEffect is one outside write.
type TracedEffect struct {
	// Where is "<node>/<visit>" or "finally/<action>", Name the effect's in
	// its action.
	Where, Name string
	// Value is what was recorded; null for a shadow's that found nothing.
	Value json.RawMessage
}

// Trace reads what a run has done. Nodes at work are not part of it.
func (e *Engine) Trace(ctx context.Context, run checkpoints.Run) (Trace, error) {
	t := Trace{Run: run}
	history, err := e.Store.History(ctx, run.ID)
	if err != nil {
		return t, fmt.Errorf("tracing run %s: %w", run.ID, err)
	}
	t.History = history
	for i := range history {
		rec := &history[i]
		where := fmt.Sprintf("%s/%d", rec.Node, rec.Visit)
		if err := e.traceEffects(ctx, &t, where, visitKey(run.ID, rec.Node, rec.Visit)); err != nil {
			return t, err
		}
	}
	if f, problems := flows.Load("definition", run.Definition, e.Registry); problems.Err() == nil {
		for _, name := range f.Finally() {
			if err := e.traceEffects(ctx, &t, "finally/"+name, finallyKey(run.ID, name)); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (e *Engine) traceEffects(ctx context.Context, t *Trace, where, visit string) error {
	raw, err := e.Store.Effect(ctx, visit+keptEffects)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return nil
	}
	var names []string
	if err == nil {
		err = json.Unmarshal(raw, &names)
	}
	if err != nil {
		return fmt.Errorf("tracing the effects of %s: %w", visit, err)
	}
	for _, name := range names {
		key := effectKey(visit, name)
		if t.Run.Mode == checkpoints.ModeShadow {
			key = shadowKey(key)
		}
		value, err := e.Store.Effect(ctx, key)
		if errors.Is(err, checkpoints.ErrNotFound) {
			continue // asked for, and failed
		} else if err != nil {
			return fmt.Errorf("tracing effect %s: %w", key, err)
		}
		t.Effects = append(t.Effects, TracedEffect{where, name, value})
	}
	return nil
}

// Difference is one way in which two runs differ.
type Difference struct {
	// Where is "flow", "path", "<node>/<visit>", "finally/<action>", "result"
	// or "state".
	Where string
	// What differs: definition, node, outcome, delta, effect, value, or a
	// state key.
	What string
	// Shadow and Real are the two sides, "" for nothing.
	Shadow, Real string
}

// String says it in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: shadow %s, real %s", d.Where, d.What, orNone(d.Shadow), orNone(d.Real))
}

// Parity compares what a shadow run intended with what a real run did: the
// path, what each node decided and changed, the effects, the result. What a
// shadow's effect found nothing for has no value to compare. None is parity.
func Parity(shadow, real Trace) []Difference {
	var out []Difference
	differ := func(where, what, a, b string) {
		if a != b {
			out = append(out, Difference{where, what, a, b})
		}
	}
	differ("flow", "definition", shadow.Run.Flow+" "+short(shadow.Run.DefinitionHash), real.Run.Flow+" "+short(real.Run.DefinitionHash))
	for i := range max(len(shadow.History), len(real.History)) {
		a, b := recordAt(shadow.History, i), recordAt(real.History, i)
		if a.Node != b.Node || a.Visit != b.Visit {
			differ("path", fmt.Sprintf("node %d", i+1), nodeOf(a), nodeOf(b))
			break // what follows from it says nothing new
		}
		differ(nodeOf(a), "outcome", a.Outcome, b.Outcome)
		if !same(a.Delta, b.Delta) {
			differ(nodeOf(a), "delta", string(a.Delta), string(b.Delta))
		}
	}
	out = append(out, effectParity(shadow.Effects, real.Effects)...)
	differ("result", "result", shadow.Run.Result, real.Run.Result)
	differ("result", "code", shadow.Run.Code, real.Run.Code)
	return out
}

func recordAt(history []checkpoints.NodeRecord, i int) checkpoints.NodeRecord {
	if i < len(history) {
		return history[i]
	}
	return checkpoints.NodeRecord{}
}

func nodeOf(rec checkpoints.NodeRecord) string {
	if rec.Node == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", rec.Node, rec.Visit)
}

func effectParity(shadow, real []TracedEffect) []Difference {
	var out []Difference
	find := func(in []TracedEffect, e TracedEffect) (TracedEffect, bool) {
		i := slices.IndexFunc(in, func(o TracedEffect) bool { return o.Where == e.Where && o.Name == e.Name })
		if i < 0 {
			return TracedEffect{}, false
		}
		return in[i], true
	}
	for _, e := range shadow {
		did, ok := find(real, e)
		switch {
		case !ok:
			out = append(out, Difference{e.Where, "effect " + strings.TrimSpace(e.Name), "intended", ""})
		case string(e.Value) != "null" && !same(e.Value, did.Value):
			out = append(out, Difference{e.Where, "value of effect " + e.Name, string(e.Value), string(did.Value)})
		}
	}
	for _, e := range real {
		if _, ok := find(shadow, e); !ok {
			out = append(out, Difference{e.Where, "effect " + e.Name, "", "done"})
		}
	}
	return out
}
