package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// A planned end always fits: a state that is full up to its limit still ends
// as planned, also when the run was halted in between.
func TestStopFitsAFullState(t *testing.T) {
	t.Parallel()
	src := strings.Replace(three, "  ref: {type: artifact}\n", "  ref: {type: artifact}\n  big: {type: object, default: {}, max_bytes: 65536}\n", 1)
	src = strings.Replace(src, "tags, ref, result]}", "tags, ref, result, big]}", 1)
	full := 0
	for size := 65_350; size < 65_500; size++ {
		stop := func(context.Context, flows.Call) (flows.Result, error) {
			big := json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)
			return flows.Result{Delta: flows.Delta{"big": big, "result": "ok"}, Stop: &flows.Stop{Code: "enough", Reason: "<because>"}}, nil
		}
		w := newWorld(t, map[string]action{"a": stop})
		w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) {
			return r.Next == "done", "not yet", nil
		}
		id := w.begin(src)
		if out := w.walk(id); out.How != engine.Halted {
			break // larger than a state may be
		}
		full++
		w.hooks.KillSwitch = nil
		if err := w.memory.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.want(w.walk(id), "ended ok enough: done")
	}
	if full == 0 || full == 150 {
		t.Errorf("%d sizes fitted; the test must reach the limit", full)
	}
}

// The state at the start is the one that was checked, whatever letters it has.
func TestStartKeepsLettersAsTheyAre(t *testing.T) {
	t.Parallel()
	src := strings.Replace(three, "  ref: {type: artifact}\n",
		"  ref: {type: artifact}\n  o: {type: object, default: {a: \""+strings.Repeat("<", 4000)+"\"}}\n", 1)
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	w.want(w.walk(w.begin(src)), "ended ok: a b c done")
}

// What can be walked can be forked, however large its definition has become.
func TestForkOfALargeDefinition(t *testing.T) {
	t.Parallel()
	w, id := stoppedRun(t)
	run := w.get(id)
	run.Definition = bytes.Replace(run.Definition, []byte("{"), []byte("{"+strings.Repeat(" ", 300<<10)), 1)
	sum := sha256.Sum256(run.Definition)
	run.DefinitionHash = hex.EncodeToString(sum[:])
	if _, err := w.engine().Fork(t.Context(), run, "b", nil); err != nil {
		t.Error(err)
	}
}

// leaves ends the goroutine that encodes it, spoils panics in it.
type (
	leaves struct{}
	spoils struct{}
)

func (leaves) MarshalJSON() ([]byte, error) { runtime.Goexit(); return nil, nil }
func (spoils) MarshalJSON() ([]byte, error) { panic("no JSON") }

// What an action returns can fail its node, and never the walk.
func TestWhatAnActionReturnsCannotPanicTheWalk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		res  flows.Result
		err  error
		want string
	}{
		"no retry":    {err: (*flows.Retry)(nil), want: "ended error panic: a"},
		"empty retry": {err: &flows.Retry{Cause: "transient"}, want: "parked: a"},
		"bad encoder": {res: flows.Result{Delta: flows.Delta{"n": spoils{}}}, want: "ended error invalid-state: a"},
	} {
		w := newWorld(t, map[string]action{"b": func(context.Context, flows.Call) (flows.Result, error) { return tc.res, tc.err }})
		t.Log(name)
		w.want(w.walk(w.begin(three)), tc.want)
	}
}

// A walk whose goroutine is ended, by a hook or a value, is over with an error;
// the run stays as it is stored.
func TestEndedGoroutineEndsTheWalk(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world){
		"hook": func(w *world) {
			w.hooks.OnRoute = func(context.Context, engine.RouteEvent) { runtime.Goexit() }
		},
		"value": func(w *world) {
			w.script["a"] = func(context.Context, flows.Call) (flows.Result, error) {
				return flows.Result{Delta: flows.Delta{"n": leaves{}}}, nil
			}
		},
	} {
		w := newWorld(t, map[string]action{})
		spoil(w)
		id := w.begin(three)
		if _, err := w.walkCtx(t.Context(), id); err == nil || !strings.Contains(err.Error(), "ended the goroutine") {
			t.Errorf("%s: error = %v", name, err)
		}
		if run := w.get(id); run.Seq != 0 || run.Status != checkpoints.Running {
			t.Errorf("%s: run = %+v", name, run)
		}
	}
}
