package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

const asking = header + `
nodes:
  - {id: a, kind: step, uses: t.step, in: [n], writes: [n]}
  - {id: human, kind: approval, message: "Publish {{state.n}} of #{{run.issue}}?", approvers: [role:maintain, "user:ann"], expires: 72h, on_expire: exhausted, take: {s: by}}
  - {id: c, kind: gate, uses: t.gate, in: [s], writes: [result]}
  - {id: done, kind: sink}
edges:
  - {from: a, to: human}
  - {from: human, to: c}
  - {from: human, to: done, on: [denied], set: {result: needs_human, note: denied}}
  - {from: human, to: done, on: [exhausted], set: {result: needs_human, note: expired}}
  - {from: c, to: done}
`

// Only its approvers, or the operator, say yes or no; everything else is
// consumed, recorded and waited over, and approves nothing.
//
// Covers: VK5, AR29, NX11, BL27.
func TestApproval(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data map[string]any
		want string // "" waits on
	}{
		"user":                {map[string]any{"by": "Ann", "role": "read", "outcome": "ok"}, "ended ok: human c done"},
		"role":                {map[string]any{"by": "bob", "role": "maintain", "outcome": "ok"}, "ended ok: human c done"},
		"higher role":         {map[string]any{"by": "bob", "role": "admin", "outcome": "ok"}, "ended ok: human c done"},
		"operator":            {map[string]any{"by": "root", "role": "operator", "outcome": "ok"}, "ended ok: human c done"},
		"denied":              {map[string]any{"by": "ann", "role": "none", "outcome": "denied", "note": "no"}, "ended needs_human: human done"},
		"lower role":          {map[string]any{"by": "bob", "role": "write", "outcome": "ok"}, ""},
		"no role":             {map[string]any{"by": "bob", "outcome": "ok"}, ""},
		"unknown role":        {map[string]any{"by": "bob", "role": "owner", "outcome": "ok"}, ""},
		"stranger denies":     {map[string]any{"by": "bob", "role": "triage", "outcome": "denied"}, ""},
		"nobody":              {map[string]any{"role": "admin", "outcome": "ok"}, ""},
		"no outcome":          {map[string]any{"by": "ann", "role": "admin"}, ""},
		"other outcome":       {map[string]any{"by": "ann", "role": "admin", "outcome": "yes"}, ""},
		"failed is no denial": {map[string]any{"by": "ann", "role": "admin", "outcome": "failed"}, ""},
		"wrong types":         {map[string]any{"by": []string{"ann"}, "role": true, "outcome": 1}, ""},
		"nothing to take":     {map[string]any{"role": "operator", "outcome": "ok"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
			id := w.begin(asking)
			w.want(w.walk(id), "parked: a")
			run := w.get(id)
			if run.Wait.Why != "Publish 1 of #7?" || run.Wait.Event != flows.ApprovalEvent || run.Owner != "" {
				t.Errorf("wait = %+v", run.Wait)
			}
			w.approve(id, "comment/1", tc.data)
			out := w.walk(id)
			if tc.want != "" {
				w.want(out, tc.want)
				return
			}
			w.want(out, "parked: human")
			rec := w.history(id)[1]
			if rec.Outcome != "skipped" || rec.Next != "human" || rec.EventKey != "comment/1" || rec.Note == "" {
				t.Errorf("record = %+v", rec)
			}
			if run := w.get(id); run.Status != checkpoints.Waiting || run.Visits["human"] != 0 || !run.Wait.Until.Equal(start().Add(72*time.Hour)) {
				t.Errorf("run = %+v, wait %+v", run.Visits, run.Wait)
			}
			// The one who may still can.
			w.approve(id, "comment/2", map[string]any{"by": "ann", "role": "none", "outcome": "ok"})
			w.want(w.walk(id), "ended ok: human c done")
		})
	}
}

// Whoever is asked sees all of a long question, and of a list that is too long
// how much is left out.
//
// Covers: VK5.
func TestApprovalAsksInFull(t *testing.T) {
	t.Parallel()
	items := make([]string, 600)
	for i := range items {
		items[i] = fmt.Sprintf("docs/p%03d.md", i)
	}
	for n, want := range map[int]string{0: "Write (none)?", 50: "docs/p048.md, docs/p049.md?", 600: "docs/p283.md … and 316 more?"} {
		w := newWorld(t, map[string]action{"a": sets("files", items[:n])})
		id := w.begin(strings.NewReplacer(
			"state:\n", "state:\n  files: {type: list, of: string, max_items: 600, default: []}\n",
			"Publish {{state.n}} of #{{run.issue}}?", "Write {{state.files}}?", "writes: [n]", "writes: [files]",
		).Replace(asking))
		w.want(w.walk(id), "parked: a")
		got := w.get(id).Wait.Why
		if !strings.HasSuffix(got, want) || len([]rune(got)) > 4000 {
			t.Errorf("%d items: %d letters, …%s", n, len(got), got[max(0, len(got)-80):])
		}
	}
}

// What is taken is what the visit has brought: a denial says who denied, and a
// deadline that passed leaves nothing of an earlier answer.
//
// Covers: VK5, AR29.
func TestApprovalTakesAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("s", "from before")})
	id := w.begin(strings.NewReplacer("writes: [n]", "writes: [s]", "{{state.n}}", "{{state.s}}").Replace(asking))
	w.want(w.walk(id), "parked: a")
	w.approve(id, "comment/1", map[string]any{"by": "ann", "role": "none", "outcome": "denied"})
	w.want(w.walk(id), "ended needs_human: human done")
	if got := string(w.history(id)[1].Delta); !strings.Contains(got, `"s":"ann"`) {
		t.Errorf("denied: delta = %s", got)
	}
	w = newWorld(t, map[string]action{"a": sets("s", "from before")})
	id = w.begin(strings.NewReplacer("writes: [n]", "writes: [s]", "{{state.n}}", "{{state.s}}").Replace(asking))
	w.want(w.walk(id), "parked: a")
	w.clock.Advance(73 * time.Hour)
	w.want(w.walk(id), "ended needs_human: human done")
	if got := string(w.history(id)[1].Delta); !strings.Contains(got, `"s":""`) {
		t.Errorf("expired: delta = %s", got)
	}
}

// Nobody answers: the flow goes on by its outcome for that, at the deadline,
// also when the process was started anew and strangers spoke meanwhile.
//
// Covers: NX11, AR29, VK5.
func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts})
	id := w.begin(asking)
	w.want(w.walk(id), "parked: a")
	w.clock.Advance(71 * time.Hour)
	w.approve(id, "comment/1", map[string]any{"by": "bob", "role": "read", "outcome": "ok"})
	w.want(w.walk(id), "parked: human")
	w.clock.Advance(time.Hour - time.Microsecond)
	if _, _, err := w.memory.Claim(t.Context(), id, w.get(id).Epoch, "early", time.Hour); err == nil {
		t.Error("claimed before the deadline")
	}
	w.clock.Advance(time.Microsecond)
	w.want(w.walk(id), "ended needs_human: human done")
	if got := string(w.get(id).State); !strings.Contains(got, `"note":"expired"`) {
		t.Errorf("state = %s", got)
	}
	// Too late is too late.
	w = newWorld(t, map[string]action{"a": counts})
	id = w.begin(asking)
	w.want(w.walk(id), "parked: a")
	w.clock.Advance(72*time.Hour + time.Second)
	w.approve(id, "comment/1", map[string]any{"by": "ann", "role": "admin", "outcome": "ok"})
	w.want(w.walk(id), "ended needs_human: human done")
}

// A stop or a shutdown while a person is asked loses neither the question nor
// an answer that has come.
//
// Covers: NX9, BL23.
func TestApprovalOverStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts, "c": sets("result", "ok")})
	id := w.begin(asking)
	w.want(w.walk(id), "parked: a")
	w.approve(id, "comment/1", map[string]any{"by": "ann", "role": "admin", "outcome": "ok"})
	w.approve(id, "comment/1", map[string]any{"by": "eve", "role": "admin", "outcome": "denied"})
	stop := true
	w.hooks.KillSwitch = func(context.Context, checkpoints.Run) (bool, string, error) { return stop, "stop", nil }
	w.want(w.walk(id), "halted halted:")
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	stop = false
	w.want(w.walk(id), "ended ok: human c done")
	if got := w.history(id)[1]; got.Note != "approved by ann" || string(got.Delta) != `{"s":"ann"}` {
		t.Errorf("record = %+v", got)
	}
}
