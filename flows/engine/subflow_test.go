package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// parent has a child a ticket, which asks a person; KEYS are the node's own.
const parent = `
apiVersion: flows/v1
name: parent
phase: test
entry: a
sink: done
state:
  n: {type: int, default: 0}
  s: {type: string, default: ""}
  verdict: {type: string, default: ""}
  result: {type: enum, values: [none, ok, needs_human], default: none}
nodes:
  - {id: a, kind: step, uses: t.step, in: [n], writes: [n]}
  - {id: sub, kind: subflow, flow: ticket, key: "ticket:{{state.n}}", give: {n: n}, KEYS}
  - {id: more, kind: gate, uses: t.gate, in: [n]}
  - {id: again, kind: loop, back_to: a, max: 3}
  - {id: done, kind: sink}
edges:
  - {from: a, to: sub}
  - {from: sub, to: more}
  - {from: sub, to: done, on: [failed, timeout], set: {result: needs_human}}
  - {from: more, to: again, when: "state.n < 2"}
  - {from: more, to: done, set: {result: ok}}
  - {from: again, to: a}
  - {from: again, to: done, on: [exhausted], set: {result: needs_human}}
flows:
  ticket:
    apiVersion: flows/v1
    name: ticket
    phase: test
    entry: work
    sink: done
    state:
      n: {type: int, input: true, default: 0}
      by: {type: string, default: ""}
      result: {type: enum, values: [none, merged, blocked], default: none}
    nodes:
      - {id: work, kind: step, uses: t.step, in: [n], writes: [by], budget: {tokens: 5000}}
      - {id: w, kind: wait, event: review, expires: 240h, take: {by: by}}
      - {id: done, kind: sink}
    edges:
      - {from: work, to: w}
      - {from: w, to: done, set: {result: merged}}
      - {from: w, to: done, on: [denied, timeout], set: {result: blocked}}
`

func parentFlow(keys string) string {
	src := strings.Replace(parent, "KEYS", keys, 1)
	if keys == goesOn {
		src = strings.Replace(src, "{from: sub, to: done, on: [failed, timeout]", "{from: sub, to: done, on: [failed]", 1)
	}
	return src
}

const (
	waits   = "take: {verdict: result, s: by}, expires: 100h"
	goesOn  = "wait: false, close: abandon"
	oneTurn = "ended ok: sub more done"
)

// children are the ids of a run's children by key, without the parent's id.
func (w *world) children(id string) map[string]string {
	w.t.Helper()
	runs, err := w.memory.List(w.t.Context(), checkpoints.Filter{Parent: id})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, run := range runs {
		out[strings.TrimPrefix(run.Key, id+":")] = run.ID
	}
	return out
}

func (w *world) review(id, key, by, outcome string) {
	w.t.Helper()
	data := fmt.Sprintf(`{"by":%q,"outcome":%q}`, by, outcome)
	if _, err := w.memory.Deliver(w.t.Context(), id, checkpoints.Event{Key: key, Kind: "review", Data: raw(data)}); err != nil {
		w.t.Fatal(err)
	}
}

// finish does what a worker does with a child that has ended: it tells the
// parent, then finishes the child.
func (w *world) finish(id string) {
	w.t.Helper()
	if err := w.engine().ChildEnded(w.t.Context(), w.get(id)); err != nil {
		w.t.Fatal(err)
	}
	w.final(id)
}

// final finishes a run that has ended.
func (w *world) final(id string) {
	w.t.Helper()
	if w.get(id).Owner != "" {
		w.clock.Advance(2 * time.Hour)
	}
	run, lease := w.claim(id)
	if _, err := w.memory.Finish(w.t.Context(), lease, engine.StatusOf(run.Result), nil); err != nil {
		w.t.Fatal(err)
	}
}

// A child is a run of its own, with the parent's id in its key; the parent is
// parked without a worker and takes what the child ended with.
//
// Covers: BL2, BL5, BL22, BL26, VK16.
func TestSubflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 7), "work": spends(3)})
	id := w.begin(parentFlow(waits))
	w.want(w.walk(id), "parked: a")
	child := w.get(w.children(id)["ticket:ticket:7"])
	if child.Parent != id || child.ParentNode != "sub" || !child.Counted || child.Close != "cancel" || child.Lineage != w.get(id).Lineage || child.Repo != "acme/widgets" || child.Issue != 7 {
		t.Errorf("child = %+v", child)
	}
	if !strings.Contains(string(child.State), `"n":7`) {
		t.Errorf("child's state = %s", child.State)
	}
	run := w.get(id)
	if run.Status != checkpoints.Waiting || run.Owner != "" || run.Wait.Event != "child/"+child.ID || !strings.Contains(run.Wait.Why, "waiting for ticket") {
		t.Errorf("parent = %s %q, wait %+v", run.Status, run.Owner, run.Wait)
	}
	w.want(w.walk(child.ID), "parked: work")
	w.review(child.ID, "review/1", "ann", "ok")
	w.want(w.walk(child.ID), "ended merged: w done")
	w.finish(child.ID)
	w.want(w.walk(id), oneTurn)
	rec := w.history(id)[1]
	if string(rec.Delta) != `{"s":"ann","verdict":"merged"}` || rec.EventKey != "child/"+child.ID || rec.Usage.Tokens() != 300 {
		t.Errorf("record = %+v", rec)
	}
	if got := w.get(id).Spent.Tokens(); got != 300 {
		t.Errorf("the parent has spent %d tokens, want the child's 300", got)
	}
}

// The ways in which a child's end is no success.
//
// Covers: BL15, VK23, NX11.
func TestSubflowFails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, string){
		"error": func(w *world, child string) {
			w.script["work"] = func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, errors.New("boom") }
			w.walk(child)
			w.finish(child)
		},
		"cancelled": func(w *world, child string) {
			if err := w.memory.Cancel(w.t.Context(), child, checkpoints.Ended{Result: "cancelled", Code: "cancelled", Reason: "by ann"}); err != nil {
				w.t.Fatal(err)
			}
			w.finish(child)
		},
		"timeout": func(w *world, _ string) { w.clock.Advance(100 * time.Hour) },
	} {
		w := newWorld(t, map[string]action{"a": sets("n", 7)})
		id := w.begin(parentFlow(waits))
		w.want(w.walk(id), "parked: a")
		end(w, w.children(id)["ticket:ticket:7"])
		w.want(w.walk(id), "ended needs_human: sub done")
		want := "failed"
		if name == "timeout" {
			want = name
		}
		if rec := w.history(id)[1]; rec.Outcome != want || name != "timeout" && !strings.Contains(rec.Note, name) {
			t.Errorf("%s: record = %+v", name, rec)
		}
	}
}

// A child that was closed is no success, whether the parent hears of its end
// from the event or reads it in the child's row, final or about to be.
func TestSubflowClosed(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]func(*world, string){
		"event":      func(w *world, child string) { w.finish(child) },
		"row":        func(w *world, child string) { w.final(child) },
		"ending row": func(*world, string) {},
	} {
		w := newWorld(t, map[string]action{"a": sets("n", 7)})
		id := w.begin(parentFlow(waits))
		child, err := w.memory.Start(t.Context(), checkpoints.StartReq{Key: id + ":ticket:ticket:7", Parent: id, ParentNode: "sub", Entry: "work"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.memory.Cancel(t.Context(), child.ID, checkpoints.Ended{Result: "closed", Code: "issue-closed", Reason: "by ann"}); err != nil {
			t.Fatal(err)
		}
		tells(w, child.ID)
		w.want(w.walk(id), "ended needs_human: a sub done")
		if rec := w.history(id)[1]; rec.Outcome != "failed" || !strings.Contains(rec.Note, "closed (issue-closed)") {
			t.Errorf("%s: record = %+v", name, rec)
		}
		if got := w.get(child.ID).Status; got != checkpoints.Cancelled && name != "ending row" {
			t.Errorf("%s: child is %s", name, got)
		}
	}
}

// unread can't read one run.
type unread struct {
	engine.Store
	id string
}

func (u unread) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	if id == u.id {
		return checkpoints.Run{}, storetest.ErrInjected
	}
	return u.Store.Get(ctx, id)
}

// A child whose parent can't be read spends nothing: what the parent has left
// is not known. It goes on when the store does.
func TestChildWaitsForItsParentsLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 7), "work": spends(3)})
	id := w.begin(parentFlow(waits))
	w.want(w.walk(id), "parked: a")
	child := w.children(id)["ticket:ticket:7"]
	w.store = unread{w.memory, id}
	if _, err := w.walkCtx(t.Context(), child); !errors.Is(err, storetest.ErrInjected) || w.called() != "a" {
		t.Errorf("error = %v, called %q", err, w.called())
	}
	w.store = w.memory
	w.clock.Advance(2 * time.Hour)
	w.want(w.walk(child), "parked: work")
}

// Spawning again finds the same child, whatever became of it: a loop back to
// the node and a crash before the commit start no second.
//
// Covers: BL2, BL10, AR13.
func TestSubflowIsSpawnedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 1)})
	id := w.begin(parentFlow(waits))
	w.want(w.walk(id), "parked: a")
	child := w.children(id)["ticket:ticket:1"]
	w.review(child, "review/1", "ann", "denied")
	w.want(w.walk(child), "ended blocked: work w done")
	w.finish(child)
	// n stays 1, so the key does, and each later visit has the same answer.
	w.want(w.walk(id), "ended needs_human: sub more again a sub more again a sub more again a sub more again done")
	if got := w.children(id); len(got) != 1 {
		t.Errorf("children = %v", got)
	}
}

// One node has many children; each waits for its own events, and what happens
// to one touches neither the other nor the parent.
//
// Covers: BL4, BL5, BL6, BL9, BL15, BL16, BL29.
func TestSiblings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": counts})
	id := w.begin(parentFlow(goesOn))
	w.want(w.walk(id), "ended ok: a sub more again a sub more done")
	kids := w.children(id)
	a, b := kids["ticket:ticket:1"], kids["ticket:ticket:2"]
	if len(kids) != 2 || w.get(a).Close != "abandon" || w.get(a).Counted {
		t.Fatalf("children = %v", kids)
	}
	w.want(w.walk(a), "parked: work")
	w.want(w.walk(b), "parked: work")
	before := []checkpoints.Run{w.get(b), w.get(id)}
	w.review(a, "review/1", "ann", "denied")
	w.review(a, "review/1", "ann", "ok") // delivered twice
	w.want(w.walk(a), "ended blocked: w done")
	if diff := cmp.Diff(before, []checkpoints.Run{w.get(b), w.get(id)}); diff != "" {
		t.Errorf("the sibling or the parent has changed (-before +after):\n%s", diff)
	}
	// The parent is over; the sibling goes on.
	w.review(b, "review/1", "bob", "ok")
	w.want(w.walk(b), "ended merged: w done")
	w.finish(a)
	w.finish(b)
}

// A child's end reaches its parent once, however often it is told, and runs
// without a parent tell nobody.
//
// Covers: BL8, BL10, BL23.
func TestChildEndedIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 2)})
	id := w.begin(parentFlow(waits))
	w.want(w.walk(id), "parked: a")
	child := w.children(id)["ticket:ticket:2"]
	w.review(child, "review/1", "ann", "ok")
	w.want(w.walk(child), "ended merged: work w done")
	for range 3 {
		if err := w.engine().ChildEnded(t.Context(), w.get(child)); err != nil {
			t.Fatal(err)
		}
	}
	w.want(w.walk(id), oneTurn) // the child is not final yet
	w.finish(child)
	if got := len(w.history(id)); got != 4 {
		t.Errorf("%d records", got)
	}
	if err := w.engine().ChildEnded(t.Context(), w.get(id)); err != nil {
		t.Error(err)
	}
	orphan := w.get(child)
	orphan.Parent = "gone"
	if err := w.engine().ChildEnded(t.Context(), orphan); err != nil {
		t.Errorf("a parent that was pruned: %v", err)
	}
}

// Whatever write the process dies at, there is one child, it runs once, and
// the parent takes its end once.
//
// Covers: BL2, BL7, BL10, BL23, CN28, NX4.
func TestSubflowCrash(t *testing.T) {
	t.Parallel()
	play := func(plan func(*storetest.Faulty)) (path []string, writes int) {
		w := newWorld(t, map[string]action{"a": sets("n", 2)})
		id := w.begin(parentFlow(waits))
		f := storetest.NewFaulty(w.memory)
		plan(f)
		w.store = f
		for range 30 {
			for _, run := range append([]string{id}, values(w.children(id))...) {
				w.play(run)
			}
			if w.get(id).Status == checkpoints.Ending && len(w.children(id)) == 1 {
				break
			}
		}
		kids := w.children(id)
		for _, run := range []string{id, kids["ticket:ticket:2"]} {
			for _, rec := range w.history(run) {
				path = append(path, fmt.Sprintf("%s/%d %s %s", rec.Node, rec.Visit, rec.Outcome, rec.Delta))
			}
		}
		if len(kids) != 1 {
			t.Errorf("children = %v", kids)
		}
		return path, f.Writes()
	}
	path, writes := play(func(*storetest.Faulty) {})
	if len(path) != 7 || writes < 10 {
		t.Fatalf("%d writes, path %v", writes, path)
	}
	for n := 1; n <= writes; n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			got, _ := play(func(f *storetest.Faulty) { f.CrashAt(n, when) })
			if diff := cmp.Diff(path, got); diff != "" {
				t.Errorf("crash at write %d, %v (-want +got):\n%s", n, when, diff)
			}
		}
	}
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// play does what the workers do for a run now, over a store that may crash.
func (w *world) play(id string) {
	run := w.get(id)
	if run.Owner != "" {
		w.clock.Advance(2 * time.Hour)
	}
	switch {
	case run.Status.Final():
	case run.Status == checkpoints.Ending && run.Parent != "":
		if w.engine().ChildEnded(w.t.Context(), run) == nil {
			w.final(id)
		}
	case run.Status == checkpoints.Ready, run.Status == checkpoints.Running:
		_, _ = w.walkCtx(w.t.Context(), id)
	case run.Status == checkpoints.Waiting && run.Wait.Event == "review":
		w.review(id, "review/1", "ann", "ok")
	}
	if f, ok := w.store.(*storetest.Faulty); ok && f.Crashed() {
		w.store = w.memory // the process is started anew
	}
}

// The parent's limit bounds what a child that it waits for may spend.
//
// Covers: NX16, CN35.
func TestSubflowCountsForTheParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": spends(2), "work": spends(20)})
	src := strings.Replace(parentFlow(waits), "nodes:\n", "limits: {tokens: 1000}\nnodes:\n", 1)
	id := w.begin(src)
	w.want(w.walk(id), "parked: a")
	child := w.children(id)["ticket:ticket:0"]
	out := w.walk(child)
	w.want(out, "ended error budget:")
	if !errors.Is(out.Err, flows.ErrBudget) || !strings.Contains(out.Reason, id) {
		t.Errorf("error = %v", out.Err)
	}
	w.finish(child)
	w.want(w.walk(id), "ended needs_human: sub done")
	if got := w.get(id).Spent.Tokens(); got != 1000 {
		t.Errorf("the parent has spent %d tokens, want 1000", got)
	}
}

// Both directions at once: children end while parents look for them, and
// nothing waits for anything.
//
// Covers: BL17, BL11.
func TestChildrenAndParentsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]action{"a": sets("n", 2)})
	var group sync.WaitGroup
	ids := make([]string, 20)
	f := w.load(parentFlow(waits))
	for i := range ids {
		req, err := w.engine().Freeze(f, checkpoints.StartReq{Key: fmt.Sprint("k", i), Repo: "acme/widgets", Issue: i + 1}, flows.State{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := w.memory.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = run.ID
		w.want(w.walk(run.ID), "parked: a")
	}
	for _, id := range ids {
		child := w.children(id)["ticket:ticket:2"]
		w.review(child, "review/1", "ann", "ok")
		group.Go(func() {
			w.walk(child)
			w.finishNow(child)
		})
		group.Go(func() {
			for w.get(id).Status != checkpoints.Ending {
				if w.get(id).Status == checkpoints.Ready {
					w.walk(id)
				}
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		if run := w.get(id); run.Result != "ok" || len(w.history(id)) != 4 {
			t.Errorf("run = %s %s", run.Status, run.Result)
		}
	}
}

// finishNow is finish under the lease of the walk before it.
func (w *world) finishNow(id string) {
	run := w.get(id)
	if err := w.engine().ChildEnded(w.t.Context(), run); err != nil {
		w.t.Error(err)
	}
	lease := checkpoints.Lease{RunID: id, Owner: run.Owner, Fence: run.Epoch}
	if _, err := w.memory.Finish(w.t.Context(), lease, checkpoints.Done, nil); err != nil {
		w.t.Error(err)
	}
}
