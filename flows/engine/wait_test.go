package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

const waiting = header + `
nodes:
  - {id: a, kind: step, uses: t.step, writes: [n]}
  - {id: w, kind: wait, event: approval, match: "event.issue == 7", expires: 72h, on_expire: timeout, take: {s: by, note: hash}}
  - {id: again, kind: loop, back_to: a, max: 2}
  - {id: c, kind: gate, uses: t.gate, in: [s], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: w}
  - {from: w, to: again, when: "state.s == 'again'"}
  - {from: w, to: c}
  - {from: w, to: done, on: [timeout, denied], set: {result: needs_human}}
  - {from: again, to: a}
  - {from: again, to: done, on: [exhausted], set: {result: needs_human}}
  - {from: c, to: done}
`

// A wait parks the run without a worker; an event resolves it once.
//
// Covers: CN29, BL5, BL8, BL22, BL28, NX11.
func TestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	id := w.begin(waiting)
	w.want(w.walk(id), "parked: a")
	run := w.get(id)
	want := checkpoints.Wait{Node: "w", Event: "approval", Since: start(), Until: start().Add(72 * time.Hour), Why: "waiting for approval"}
	if run.Status != checkpoints.Waiting || run.Owner != "" || *run.Wait != want || run.Visits["w"] != 0 {
		t.Errorf("run = %+v, wait %+v", run, run.Wait)
	}
	w.approve(id, "comment/1", map[string]any{"issue": 7, "by": "ann", "hash": "abc"})
	w.approve(id, "comment/1", map[string]any{"issue": 7, "by": "eve", "hash": "abc"})
	w.want(w.walk(id), "ended ok: w c done")
	h := w.history(id)
	if h[1].EventKey != "comment/1" || string(h[1].Delta) != `{"note":"abc","s":"ann"}` {
		t.Errorf("record = %+v", h[1])
	}
}

// However many events are not for it, the run keeps the steps that it has.
func TestPassedOverEventsAreNoSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	id := w.begin(strings.Replace(waiting, "\nnodes:", "\nlimits: {max_steps: 3}\nnodes:", 1))
	w.want(w.walk(id), "parked: a")
	for i := range 5 {
		w.approve(id, fmt.Sprint("comment/", i), map[string]any{"issue": 8, "by": "eve", "hash": "abc"})
		w.want(w.walk(id), "parked: w")
	}
	w.approve(id, "comment/ann", map[string]any{"issue": 7, "by": "ann", "hash": "abc"})
	w.want(w.walk(id), "ended ok: w c done")
}

// What strangers can make a run keep and read again is bounded: a run that has
// waited over too much ends and says so.
func TestTooManyOtherEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.begin(waiting)
	w.want(w.walk(id), "parked: a")
	for i := range engine.MaxPassedOver {
		w.approve(id, fmt.Sprint("comment/", i), map[string]any{"issue": 8})
		if out := w.walk(id); out.How != engine.Parked {
			t.Fatalf("event %d: %s, %s", i, out.How, out.Reason)
		}
	}
	w.approve(id, "comment/last", map[string]any{"issue": 8})
	out := w.walk(id)
	w.want(out, "ended error max-events:")
	if !errors.Is(out.Err, engine.ErrMaxEvents) || !strings.Contains(out.Reason, "comment/last") {
		t.Errorf("error = %v", out.Err)
	}
}

// unasked is a store of which the history and the spend must not be read.
type unasked struct {
	engine.Store
	t *testing.T
}

func (u unasked) History(context.Context, string) ([]checkpoints.NodeRecord, error) {
	u.t.Error("the history was read")
	return nil, nil
}

func (u unasked) Spent(context.Context, string, string, int, time.Time) (run, issue, day checkpoints.Usage, err error) {
	u.t.Error("the spend was read")
	return run, issue, day, nil
}

// A run that has completed nothing has no history to read, and its claim has
// told what it has spent.
func TestFirstWalkReadsNoHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	w.store = unasked{w.memory, t}
	w.want(w.walk(w.begin(three)), "ended ok: a b c done")
}

// Covers: NX11, AR29.
func TestWaitExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.begin(waiting)
	w.want(w.walk(id), "parked: a")
	w.clock.Advance(72 * time.Hour)
	w.want(w.walk(id), "ended needs_human: w done")
	if h := w.history(id); h[1].Outcome != "timeout" {
		t.Errorf("record = %+v", h[1])
	}
}

// Another pause of the run does not move the deadline, and an answer that
// comes after it is too late.
//
// Covers: NX11.
func TestWaitDeadlineHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.begin(waiting)
	w.want(w.walk(id), "parked: a")
	// Woken by an event that is not for it, it waits on.
	w.clock.Advance(70 * time.Hour)
	w.approve(id, "comment/1", map[string]any{"issue": 8, "by": "ann", "hash": "abc"})
	w.want(w.walk(id), "parked: w")
	if h := w.history(id); h[1].Outcome != "skipped" || h[1].Next != "w" || h[1].EventKey != "comment/1" {
		t.Errorf("record = %+v", h[1])
	}
	w.clock.Advance(time.Hour)
	w.approve(id, "comment/2", map[string]any{"issue": 8, "by": "ann", "hash": "abc"})
	run, lease := w.claim(id)
	pause := checkpoints.Wait{Node: "w", Since: w.clock.Now(), Until: w.clock.Now().Add(2 * time.Hour), Why: "GitHub can't be read"}
	if err := w.memory.Park(t.Context(), lease, pause); err != nil {
		t.Fatal(run, err)
	}
	w.clock.Advance(2 * time.Hour)
	w.approve(id, "comment/3", map[string]any{"issue": 7, "by": "ann", "hash": "abc"})
	w.want(w.walk(id), "parked: w") // consumes comment/2
	w.want(w.walk(id), "ended needs_human: w done")
	if h := w.history(id); h[3].Outcome != "timeout" || h[3].EventKey != "comment/3" {
		t.Errorf("record = %+v", h[3])
	}
}

// Covers: VK5, AR29.
func TestWaitDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.begin(waiting)
	w.approve(id, "comment/1", map[string]any{"issue": 7, "by": "ann", "outcome": "denied"})
	w.want(w.walk(id), "ended needs_human: a w done")
}

// A loop back to a wait needs a new event.
//
// Covers: BL8, BL10, AR13.
func TestWaitAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	id := w.begin(waiting)
	w.approve(id, "comment/1", map[string]any{"issue": 7, "by": "again", "hash": "abc"})
	w.want(w.walk(id), "parked: a w again a")
	w.clock.Advance(71 * time.Hour)
	w.approve(id, "comment/2", map[string]any{"issue": 7, "by": "ann", "hash": "abc"})
	w.want(w.walk(id), "ended ok: w c done")
	if w.get(id).Visits["w"] != 2 {
		t.Errorf("visits = %v", w.get(id).Visits)
	}
}

// An event that does not fit is an error, never an approval.
//
// Covers: CN3, AR7, VK5.
func TestWaitBadEvent(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string]any{
		"lacks what match reads": {"by": "ann", "hash": "abc"},
		"lacks what is taken":    {"issue": 7, "by": "ann"},
		"wrong type":             {"issue": 7, "by": 1, "hash": "abc"},
		"unknown outcome":        {"issue": 7, "by": "ann", "hash": "abc", "outcome": "yes"},
		"too long":               {"issue": 7, "by": strings.Repeat("x", 101), "hash": "abc"},
	} {
		w := newWorld(t, nil)
		id := w.begin(waiting)
		w.approve(id, "comment/1", data)
		out := w.walk(id)
		if out.How != "ended" || out.Result != "error" || out.Err == nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// Covers: HF13, NX9.
func TestHaltAtWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"c": sets("result", "ok")})
	id := w.begin(waiting)
	w.want(w.walk(id), "parked: a")
	w.approve(id, "comment/1", map[string]any{"issue": 7, "by": "ann", "hash": "abc"})
	w.hooks.KillSwitch = func(context.Context, checkpoints.Run) (bool, string, error) {
		return false, "", errors.New("unreadable")
	}
	w.want(w.walk(id), "halted halted:")
	w.hooks.KillSwitch = nil
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.want(w.walk(id), "ended ok: w c done")
}

// Covers: CN2.
func TestFreezeChecksInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	src := strings.Replace(three, "state:\n", "state:\n  issue: {type: int, required: true}\n  size: {type: enum, values: [s, m], input: true}\n", 1)
	f := w.load(src)
	for name, tc := range map[string]struct {
		input map[string]any
		good  bool
	}{
		"fits":       {map[string]any{"size": "s"}, true},
		"wrong type": {map[string]any{"size": "xl"}, false},
		"not input":  {map[string]any{"n": 1}, false},
		"unknown":    {map[string]any{"ghost": 1}, false},
	} {
		in, err := flows.StateOf(tc.input)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.engine().Freeze(f, checkpoints.StartReq{Key: "k", Issue: 7}, in)
		if (err == nil) != tc.good || err != nil && !errors.Is(err, flows.ErrInvalidState) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && !strings.Contains(string(r.State), `"issue":7`) {
			t.Errorf("%s: state = %s", name, r.State)
		}
	}
}
