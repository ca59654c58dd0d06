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

// outside is the world that effects write to.
type outside map[string]string

// once writes a value under the effect's name, unless it is there.
func (o outside) once(ctx context.Context, c flows.Call, name, value string) (string, error) {
	v, err := c.Effects.Once(ctx, name,
		func(context.Context) (raw, bool, error) { v, ok := o[name]; return raw(v), ok, nil },
		func(context.Context) (raw, error) { o[name] = value; return raw(value), nil })
	return string(v), err
}

// shadowWorld opens a pull request in b, and comments in its last action.
func shadowWorld(t *testing.T, o outside) *world {
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_, err := o.once(ctx, c, "pr", `17`)
		if err == nil {
			_, err = o.once(ctx, c, "/issue/7/status", `"said"`)
		}
		return flows.Result{}, err
	}
	w.script["t.last"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_, err := o.once(ctx, c, "save", `"ref"`)
		return flows.Result{}, err
	}
	return w
}

func (w *world) beginAs(src, key, mode string) string {
	w.t.Helper()
	req, err := w.engine().Freeze(w.load(src), checkpoints.StartReq{Key: key, Repo: "acme/widgets", Issue: 7, Mode: mode}, flows.State{})
	if err != nil {
		w.t.Fatal(err)
	}
	run, err := w.memory.Start(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return run.ID
}

func (w *world) trace(id string) []engine.TracedEffect {
	w.t.Helper()
	tr, err := w.engine().TraceEffects(w.t.Context(), w.get(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return tr
}

// A shadow walks the same way, looks at the world and writes nothing into it;
// what it meant to do is on record, and is what the real run then does.
//
// Covers: BL18.
func TestShadow(t *testing.T) {
	t.Parallel()
	world := outside{}
	w := shadowWorld(t, world)
	w.hooks.BeforeEffect = func(_ context.Context, r checkpoints.Run) error {
		if r.Mode != "" {
			t.Error("a shadow was asked about a write")
		}
		return nil
	}
	shadow := w.beginAs(writing(), "shadow", checkpoints.ModeShadow)
	w.want(w.walk(shadow), "ended ok: a b c done")
	if len(world) != 0 {
		t.Errorf("the shadow has written %v", world)
	}
	v, err := w.memory.Effect(t.Context(), "shadow/run/"+shadow+"/b/1/pr")
	if err != nil || string(v) != "null" {
		t.Errorf("intended %s, %v", v, err)
	}
	if _, err := w.memory.Effect(t.Context(), "run/"+shadow+"/b/1/pr"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("the shadow has recorded a write: %v", err)
	}
	real := w.beginAs(writing(), "real", "")
	w.want(w.walk(real), "ended ok: a b c done")
	if diff := cmp.Diff(outside{"pr": "17", "/issue/7/status": `"said"`, "save": `"ref"`}, world); diff != "" {
		t.Errorf("the world (-want +got):\n%s", diff)
	}
	if diff := engine.EffectParity(w.trace(shadow), w.trace(real)); len(diff) != 0 {
		t.Errorf("differences: %v", diff)
	}
	// A shadow finds what is there.
	second := w.beginAs(writing(), "second", checkpoints.ModeShadow)
	w.want(w.walk(second), "ended ok: a b c done")
	if v, err := w.memory.Effect(t.Context(), "shadow/run/"+second+"/b/1/pr"); err != nil || string(v) != "17" {
		t.Errorf("found %s, %v", v, err)
	}
	if diff := engine.EffectParity(w.trace(second), w.trace(real)); len(diff) != 0 {
		t.Errorf("differences: %v", diff)
	}
}

// Every way in which the outside writes of a shadow may differ is told. That
// paths and states differ is told by whoever compares the histories.
//
// Covers: BL18.
func TestEffectParity(t *testing.T) {
	t.Parallel()
	play := func(change func(*world), mode string) []engine.TracedEffect {
		w := shadowWorld(t, outside{})
		if change != nil {
			change(w)
		}
		id := w.beginAs(writing(), "k", mode)
		w.walk(id)
		return w.trace(id)
	}
	for name, tc := range map[string]struct {
		shadow, real func(*world)
		want         []string
	}{
		"same": {nil, nil, nil},
		"path": {func(w *world) {
			w.script["b"] = func(context.Context, flows.Call) (flows.Result, error) {
				return flows.Result{Delta: flows.Delta{"result": "needs_human"}, Stop: &flows.Stop{Code: "gap"}}, nil
			}
		}, nil, []string{
			`b/1: effect pr: shadow none, real done`,
			`b/1: effect /issue/7/status: shadow none, real done`,
		}},
		"effect": {nil, func(w *world) {
			w.script["b"] = func(ctx context.Context, c flows.Call) (flows.Result, error) {
				_, err := outside{}.once(ctx, c, "pr", `18`)
				return flows.Result{}, err
			}
		}, []string{`b/1: effect /issue/7/status: shadow intended, real none`}},
	} {
		var got []string
		for _, d := range engine.EffectParity(play(tc.shadow, checkpoints.ModeShadow), play(tc.real, "")) {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Children of a shadow are shadows.
//
// Covers: BL18.
func TestShadowChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 2)})
	id := w.beginAs(parentFlow(waits), "k", checkpoints.ModeShadow)
	w.want(w.walk(id), "parked: a")
	if child := w.get(w.children(id)["ticket:ticket:2"]); child.Mode != checkpoints.ModeShadow {
		t.Errorf("child = %+v", child)
	}
}

// A failing look at the world is the action's error in a shadow, too.
func TestShadowLookFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"b": func(ctx context.Context, c flows.Call) (flows.Result, error) {
		_, err := c.Effects.Once(ctx, "pr",
			func(context.Context) (raw, bool, error) { return nil, false, errors.New("502") },
			func(context.Context) (raw, error) { t.Error("written"); return nil, nil })
		return flows.Result{}, err
	}})
	out := w.walk(w.beginAs(writing(), "k", checkpoints.ModeShadow))
	w.want(out, "ended error failed: a")
	if !strings.Contains(out.Reason, "502") {
		t.Errorf("reason = %q", out.Reason)
	}
}
