package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// What can't be recorded must not go on. The double drops the error.
//
// Covers: VK21, AR11.
func TestWrongUnrecordedProgress(t *testing.T) {
	t.Parallel()
	check := func(walk func() (ran string, err error)) error {
		if ran, err := walk(); ran != "a" || err == nil {
			return errors.Join(fmt.Errorf("the record of a failed, and %q ran", ran), err)
		}
		return nil
	}
	ours := func() (string, error) {
		w := newWorld(t, nil)
		id := w.begin(three)
		f := storetest.NewFaulty(w.memory)
		f.FailAt(1, storetest.Before)
		w.store = f
		_, err := w.walkCtx(t.Context(), id)
		return w.called(), err
	}
	bites(t, check, ours, func() (string, error) {
		write := func() error { return errors.New("disk full") }
		var ran []string
		for _, node := range []string{"a", "b", "c"} {
			ran = append(ran, node)
			_ = write()
		}
		return strings.Join(ran, " "), nil
	})
}

// broken fails the first time and then works.
func broken() action {
	var once sync.Once
	return func(context.Context, flows.Call) (res flows.Result, err error) {
		once.Do(func() { err = errors.New("scripted failure") })
		return flows.Result{}, err
	}
}

// After a failure the run is not well until the failed node has run well. The
// double passes over what has failed and reports success.
//
// Covers: VK23, HF11, NX1.
func TestWrongResumeAfterFailure(t *testing.T) {
	t.Parallel()
	type walking func() (first, resumed going, again going)
	check := func(walk walking) error {
		first, resumed, again := walk()
		switch {
		case first.ok || resumed.ok:
			return fmt.Errorf("b has failed and the run says it is well: %+v, resumed %+v", first, resumed)
		case again != (going{"b c", true}):
			return fmt.Errorf("begun again at b: %+v", again)
		}
		return nil
	}
	ours := func() (first, resumed, again going) {
		w := newWorld(t, map[string]action{"b": broken(), "c": sets("result", "ok")})
		id := w.begin(strings.Replace(three, "finally: [t.last]\n", "", 1))
		run, lease := w.claim(id)
		walk := func(run checkpoints.Run, lease checkpoints.Lease) going {
			w.mu.Lock()
			w.calls = nil
			w.mu.Unlock()
			out, err := w.engine().Walk(t.Context(), run, lease)
			return going{w.called(), err == nil && out.Result == "ok"}
		}
		first = walk(run, lease)
		resumed = walk(w.get(id), lease)
		if _, err := w.memory.Finish(t.Context(), lease, checkpoints.Failed, nil); err != nil {
			t.Fatal(err)
		}
		req, err := w.engine().Fork(t.Context(), w.get(id), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		fork, err := w.memory.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return first, resumed, walk(w.claim(fork.ID))
	}
	bites(t, check, ours, func() (first, resumed, again going) {
		status := map[string]string{"a": "completed", "b": "failed", "c": "skipped"}
		resume := func() (g going) {
			g.ok = true
			for _, node := range []string{"a", "b", "c"} {
				if status[node] == "pending" {
					g.ran += node
				}
			}
			return g
		}
		return going{"a b", false}, resume(), resume()
	})
}

// A run goes on with the definition it was started with. The double reads the
// file again.
//
// Covers: VK20, VK24.
func TestWrongLiveDefinition(t *testing.T) {
	t.Parallel()
	edited := strings.Replace(three, "{from: b, to: c}", "{from: b, to: done, set: {result: ok}}", 1)
	edited = strings.Replace(strings.Replace(edited, "  - {from: c, to: done}\n", "", 1), "  - {id: c, kind: step, uses: t.step, in: [n, s], writes: [n, s, note, tags, ref, result]}\n", "", 1)
	check := func(resume func(frozen, live string) (path string)) error {
		if got := resume(three, edited); got != "a b c done" {
			return fmt.Errorf("started as a b c done, it went %s", got)
		}
		return nil
	}
	start := func(frozen string) (*world, string) {
		w := newWorld(t, map[string]action{"a": sets("result", "ok")})
		id := w.begin(frozen)
		w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 1, "", nil }
		w.want(w.walk(id), "halted halted: a")
		w.hooks.KillSwitch = nil
		if err := w.memory.Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return w, id
	}
	ours := func(frozen, live string) string {
		w, id := start(frozen)
		if audit, err := w.engine().Audit(t.Context(), w.get(id), w.load(live)); err != nil || audit.Snapshot != "drifted" {
			t.Errorf("audit = %+v, %v", audit, err)
		}
		w.walk(id)
		return w.path(id)
	}
	bites(t, check, ours, func(frozen, live string) string {
		w, id := start(frozen)
		run, lease := w.claim(id)
		f := w.load(live)
		run.Definition, run.DefinitionHash = f.Definition(), f.Hash()
		if _, err := w.engine().Walk(t.Context(), run, lease); err != nil {
			t.Fatal(err)
		}
		return w.path(id)
	})
}

// path is the nodes that a run has completed.
func (w *world) path(id string) string {
	var path []string
	for _, rec := range w.history(id) {
		path = append(path, rec.Node)
	}
	return strings.Join(path, " ")
}

// A panic is a failure. The double recovers and goes on.
//
// Covers: VK25.
func TestWrongPanic(t *testing.T) {
	t.Parallel()
	bites(t, func(walk func() going) error {
		if got := walk(); got.ok || strings.Contains(got.ran, "c") {
			return fmt.Errorf("b panicked, and it says %+v", got)
		}
		return nil
	}, func() going {
		w := newWorld(t, map[string]action{
			"b": func(context.Context, flows.Call) (flows.Result, error) { panic("scripted") }, "c": sets("result", "ok"),
		})
		return w.goes(strings.Replace(three, "finally: [t.last]\n", "", 1))
	}, func() (g going) {
		for _, node := range []string{"a", "b", "c"} {
			func() {
				defer func() { _ = recover() }()
				g.ran += node
				if node == "b" {
					panic("scripted")
				}
			}()
		}
		return going{g.ran, true}
	})
}

// A node that is cut was interrupted, it did not fail. The double records a
// failure, over which the resume goes.
//
// Covers: VK29, NX9.
func TestWrongInterrupt(t *testing.T) {
	t.Parallel()
	check := func(walk func() (records, resumed string)) error {
		if records, resumed := walk(); records != "a" || resumed != "b c" {
			return fmt.Errorf("cut in b: recorded %q, then ran %q", records, resumed)
		}
		return nil
	}
	ours := func() (records, resumed string) {
		ctx, cut := context.WithCancelCause(t.Context())
		w := newWorld(t, map[string]action{"c": sets("result", "ok"), "b": func(nctx context.Context, _ flows.Call) (flows.Result, error) {
			cut(engine.ErrShutdown)
			<-nctx.Done()
			return flows.Result{}, context.Cause(nctx)
		}})
		id := w.begin(strings.Replace(three, "finally: [t.last]\n", "", 1))
		if _, err := w.walkCtx(ctx, id); err != nil {
			t.Fatal(err)
		}
		records = w.path(id)
		w.script["b"], w.calls = nil, nil
		w.walk(id)
		return records, w.called()
	}
	bites(t, check, ours, func() (records, resumed string) {
		status := map[string]error{"a": nil}
		status["b"] = context.Canceled // what the node returned
		records = "a"
		for _, node := range []string{"a", "b", "c"} {
			if _, recorded := status[node]; !recorded {
				resumed += node
			} else if status[node] != nil {
				records += " " + node
			}
		}
		return records, resumed
	})
}

// stands is a run that has completed a and b of three, and was claimed again.
func stands(t *testing.T) (*world, checkpoints.Run, checkpoints.Lease) {
	w := newWorld(t, map[string]action{"a": counts, "b": counts, "c": sets("result", "ok")})
	id := w.begin(three)
	w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) { return r.Seq == 2, "", nil }
	w.want(w.walk(id), "halted halted: a b")
	w.hooks.KillSwitch = nil
	if err := w.memory.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.calls = nil
	run, lease := w.claim(id)
	return w, run, lease
}

// What can't be read is refused. The double finds no checkpoint, and begins.
//
// Covers: CN27.
func TestWrongFreshStart(t *testing.T) {
	t.Parallel()
	check := func(resume func(stored string) going) error {
		if got := resume(`{"n":2`); got.ok || strings.Contains(got.ran, "a") || strings.Contains(got.ran, "b") {
			return fmt.Errorf("the state was unreadable, and it went %+v", got)
		}
		return nil
	}
	ours := func(stored string) going {
		w, run, lease := stands(t)
		run.State = raw(stored)
		out, err := w.engine().Walk(t.Context(), run, lease)
		return going{strings.ReplaceAll(w.called(), "t.last", ""), err == nil && out.Result == "ok"}
	}
	bites(t, check, ours, func(stored string) going {
		next := "a"
		if _, err := flows.DecodeState(raw(stored)); err == nil {
			next = "c"
		}
		return going{map[string]string{"a": "a b c", "c": "c"}[next], true}
	})
}

// Whatever of a run's row was changed, it is refused. The double's checksum
// leaves out what the nodes have produced.
//
// Covers: AR12.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	tampers := map[string]func(*checkpoints.Run){
		"nothing":    func(*checkpoints.Run) {},
		"state":      func(r *checkpoints.Run) { r.State = raw(strings.Replace(string(r.State), `"n":2`, `"n":9`, 1)) },
		"next":       func(r *checkpoints.Run) { r.Next = "b" },
		"seq":        func(r *checkpoints.Run) { r.Seq = 1 },
		"definition": func(r *checkpoints.Run) { r.Definition = append(slices.Clone(r.Definition), ' ') },
	}
	check := func(accepts func(tamper func(*checkpoints.Run)) bool) error {
		for what, tamper := range tampers {
			if accepts(tamper) != (what == "nothing") {
				return fmt.Errorf("tampered with: %s, accepted: %t", what, what != "nothing")
			}
		}
		return nil
	}
	ours := func(tamper func(*checkpoints.Run)) bool {
		w, run, lease := stands(t)
		tamper(&run)
		out, err := w.engine().Walk(t.Context(), run, lease)
		return err == nil && !errors.Is(out.Err, flows.ErrCorrupt)
	}
	bites(t, check, ours, func(tamper func(*checkpoints.Run)) bool {
		sum := func(r checkpoints.Run) [32]byte {
			return sha256.Sum256(fmt.Append(nil, r.Next, r.Seq, string(r.Definition)))
		}
		_, run, _ := stands(t)
		before := sum(run)
		tamper(&run)
		return sum(run) == before
	})
}

// A resume within a loop runs what the loop leads back to, however often the
// run was resumed. The double remembers completed nodes by their name.
//
// Covers: AR13, HF5.
func TestWrongResumeInALoop(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: step, uses: t.step, in: [n], writes: [n]}
  - {id: again, kind: loop, back_to: a, max: 2}
  - {id: done, kind: sink}
edges:
  - {from: a, to: again}
  - {from: again, to: a}
  - {from: again, to: done, on: [exhausted], set: {result: ok}}
`
	want := []string{"a", "again", "a", "again", "a", "again", "done"}
	check := func(walk func(dies func(seq int) bool) []string) error {
		for _, deaths := range [][]int{nil, {1}, {2}, {3}, {4}, {2, 4}, {1, 2, 3, 4, 5, 6}} {
			got := walk(func(seq int) bool { return slices.Contains(deaths, seq) })
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("resumed after %v (-want +got):\n%s", deaths, diff)
			}
		}
		return nil
	}
	ours := func(dies func(int) bool) []string {
		w := newWorld(t, map[string]action{"a": counts})
		id := w.begin(src)
		var last int64 = -1
		w.hooks.KillSwitch = func(_ context.Context, r checkpoints.Run) (bool, string, error) {
			halt := dies(int(r.Seq)) && r.Seq != last
			last = r.Seq
			return halt, "", nil
		}
		for w.walk(id).How == engine.Halted {
			if err := w.memory.Wake(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		return strings.Fields(w.path(id))
	}
	bites(t, check, ours, func(dies func(int) bool) (path []string) {
		next, loops := map[string]string{"a": "again"}, 0
		completed, resumed := map[string]bool{}, map[string]bool{}
		for at := "a"; at != "done" && len(path) < 20; at = next[at] {
			if dies(len(path)) {
				for node := range completed {
					resumed[node] = true
				}
			}
			if !resumed[at] {
				path = append(path, at)
			}
			completed[at] = true
			if next["again"] = "a"; at == "again" {
				if loops++; loops > 2 {
					next["again"] = "done"
				}
			}
		}
		return append(path, "done")
	})
}

// Ending one run from outside cuts its work, and no other's. The double has
// one flag for all, which is read between nodes.
//
// Covers: AR36.
func TestWrongTerminate(t *testing.T) {
	t.Parallel()
	type ends struct {
		cut           bool // the first run's work was
		first, second string
	}
	check := func(terminate func() ends) error {
		if got, want := terminate(), (ends{true, "cancelled", "ok"}); got != want {
			return fmt.Errorf("got %+v, want %+v", got, want)
		}
		return nil
	}
	ours := func() (e ends) {
		working, release := make(chan string), make(chan struct{})
		w := newWorld(t, map[string]action{"a": func(ctx context.Context, c flows.Call) (flows.Result, error) {
			working <- c.Run.ID
			select {
			case <-ctx.Done():
				e.cut = true
				return flows.Result{}, context.Cause(ctx)
			case <-release:
				return flows.Result{Delta: flows.Delta{"result": "ok"}}, nil
			}
		}})
		eng := w.engine()
		ctx, terminate := context.WithCancelCause(t.Context())
		results := make([]chan string, 2)
		for i, ctx := range []context.Context{ctx, t.Context()} {
			req, err := eng.Freeze(w.load(three), checkpoints.StartReq{Key: fmt.Sprint("acme/widgets#", i), Repo: "acme/widgets", Issue: i}, flows.State{})
			if err != nil {
				t.Fatal(err)
			}
			started, err := w.memory.Start(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			run, lease := w.claim(started.ID)
			results[i] = make(chan string, 1)
			go func() {
				out, err := eng.Walk(ctx, run, lease)
				results[i] <- out.Result + errText(err)
			}()
			<-working
		}
		terminate(engine.Cancel{Reason: "no longer wanted"})
		e.first = <-results[0]
		close(release)
		e.second = <-results[1]
		return e
	}
	bites(t, check, ours, func() ends {
		shared := struct{ terminated bool }{}
		node := func() (cut bool) { return false } // nobody tells it
		shared.terminated = true
		e := ends{cut: node(), first: "ok", second: "ok"}
		if shared.terminated {
			e.first, e.second = "cancelled", "cancelled"
		}
		return e
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
