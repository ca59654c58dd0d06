package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// writing is three, with an action with effects as b.
func writing() string {
	return strings.Replace(three, "{id: b, kind: step, uses: t.step", "{id: b, kind: step, uses: t.effect", 1)
}

// Covers: CN28, HF17.
func TestEffectOnce(t *testing.T) {
	t.Parallel()
	done, asked := 0, 0
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	w.hooks.BeforeEffect = func(context.Context, checkpoints.Run) error { asked++; return nil }
	w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		for range 3 {
			v, err := c.Effects.Once(ctx, "comment", nil, func(context.Context) (raw, error) { done++; return raw(`17`), nil })
			if err != nil || string(v) != "17" {
				t.Errorf("once = %s, %v", v, err)
			}
		}
		_, err := c.Effects.Once(ctx, "/issue/acme/widgets#7/status", nil, func(context.Context) (raw, error) { done++; return nil, nil })
		return flows.Result{}, err
	}
	id := w.begin(writing())
	w.want(w.walk(id), "ended ok: a b c done")
	if done != 2 || asked != 2 {
		t.Errorf("done %d times, asked %d times, want 2 and 2", done, asked)
	}
	for _, key := range []string{"run/" + id + "/b/1/comment", "/issue/acme/widgets#7/status"} {
		if _, err := w.memory.Effect(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
}

// An effect that is asked for again, as in a retry, is kept once.
func TestEffectIsKeptOnce(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"pr", "comment"}, engine.Asked("pr", "comment", "pr", "pr", "comment")); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// The label is read again before each outside write; without it nothing is
// written and the run is cancelled, whatever the action makes of the error.
//
// Covers: HF17, NX7.
func TestLabelGone(t *testing.T) {
	t.Parallel()
	for gone, want := range map[error]string{
		flows.ErrLabelGone: "cancelled cancelled label-gone: a",
		flows.ErrHalted:    "halted halted: a",
	} {
		for _, hide := range []bool{false, true} {
			done := false
			w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
				_, err := c.Effects.Once(ctx, "pr",
					func(context.Context) (raw, bool, error) { done = true; return nil, false, nil },
					func(context.Context) (raw, error) { done = true; return nil, nil })
				if hide {
					err = nil
				}
				return flows.Result{}, err
			}})
			w.hooks.BeforeEffect = func(context.Context, checkpoints.Run) error { return gone }
			id := w.begin(writing())
			w.want(w.walk(id), want)
			if done || w.get(id).Seq != 1 || w.called() != "a b t.last" {
				t.Errorf("done %v, called %q", done, w.called())
			}
		}
	}
}

// If whether a write may be done can't be found out, it is not done now.
func TestLabelUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_, err := c.Effects.Once(ctx, "pr", nil, func(context.Context) (raw, error) {
			t.Error("written")
			return nil, nil
		})
		return flows.Result{}, err
	}})
	w.hooks.BeforeEffect = func(context.Context, checkpoints.Run) error { return errors.New("500") }
	w.want(w.walk(w.begin(writing())), "parked: a")
	w2 := newWorld(t, w.script)
	w2.hooks.BeforeEffect = func(context.Context, checkpoints.Run) error { panic("no client") }
	w2.want(w2.walk(w2.begin(writing())), "parked: a")
}

// An action that is not registered with effects has none.
//
// Covers: CN16.
func TestEffectsMustBeDeclared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_, err := c.Effects.Once(ctx, "pr", nil, func(context.Context) (raw, error) {
			t.Error("written")
			return nil, nil
		})
		return flows.Result{}, err
	}})
	w.want(w.walk(w.begin(three)), "ended error failed: a")
}
