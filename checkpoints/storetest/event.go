package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func eventCases() map[string]func(*fixture) {
	wait := checkpoints.Wait{Node: "b", Event: "approval"}
	return map[string]func(*fixture){
		"after the park": func(f *fixture) {
			r := f.waiting("k", time.Time{})
			fresh, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.same(fresh, true)
			got := f.get(r.ID)
			f.same(got.Status, checkpoints.Ready)
			f.same(got.Wait, r.Wait)
			f.tokenFor(got)
			_, l := f.claim(got)
			e, err := f.Pending(f.ctx, r.ID, "approval")
			f.ok(err)
			want := event("comment/1")
			want.At = f.clk.Now()
			f.same(e, want)
			c := step(2, "b", "c")
			c.EventKey = e.Key
			f.ok(f.Commit(f.ctx, l, c))
			_, err = f.Pending(f.ctx, r.ID, "approval")
			f.is(err, checkpoints.ErrNotFound)
		},
		"before the park of a commit": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.noToken()
			f.ok(f.Commit(f.ctx, l, parked(1, "a", "b", wait)))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Owner, got.Next}, []any{checkpoints.Ready, "", "b"})
			f.tokenFor(got)
		},
		"before a park": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.ok(f.Park(f.ctx, l, wait))
			got := f.get(r.ID)
			f.same(got.Status, checkpoints.Ready)
			f.tokenFor(got)
		},
		"before a back-off": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.ok(f.Park(f.ctx, l, checkpoints.Wait{Node: "a", Until: f.clk.Now().Add(time.Hour)}))
			f.same(f.get(r.ID).Status, checkpoints.Waiting)
			f.noToken()
		},
		"a key counts once": func(f *fixture) {
			r := f.waiting("k", time.Time{})
			other := f.waiting("k2", time.Time{})
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.tokenFor(r)
			changed := event("comment/1")
			changed.Data = []byte(`{"by":"mallory"}`)
			fresh, err := f.Deliver(f.ctx, r.ID, changed)
			f.ok(err)
			f.same(fresh, false)
			f.noToken()
			e, err := f.Pending(f.ctx, r.ID, "approval")
			f.ok(err)
			f.same(string(e.Data), `{"by":"ann"}`)
			fresh, err = f.Deliver(f.ctx, other.ID, event("comment/1"))
			f.ok(err)
			f.same(fresh, true)
		},
		"a consumed key stays used": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			c := step(1, "a", "b")
			c.EventKey = "comment/1"
			f.ok(f.Commit(f.ctx, l, c))
			c = step(2, "b", "c")
			c.EventKey = "comment/1"
			f.is(f.Commit(f.ctx, l, c), checkpoints.ErrConflict)
			c.EventKey = "comment/404"
			f.is(f.Commit(f.ctx, l, c), checkpoints.ErrNotFound)
			f.same(f.get(r.ID).Seq, int64(1))
			fresh, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.same(fresh, false)
			f.ok(f.Commit(f.ctx, l, parked(2, "b", "c", checkpoints.Wait{Node: "c", Event: "approval"})))
			f.same(f.get(r.ID).Status, checkpoints.Waiting)
		},
		"another kind doesn't wake": func(f *fixture) {
			r := f.waiting("k", time.Time{})
			e := event("comment/1")
			e.Kind = "answer"
			fresh, err := f.Deliver(f.ctx, r.ID, e)
			f.ok(err)
			f.same(fresh, true)
			f.same(f.get(r.ID), r)
			f.noToken()
			_, err = f.Pending(f.ctx, r.ID, "approval")
			f.is(err, checkpoints.ErrNotFound)
		},
		"the oldest comes first": func(f *fixture) {
			r := f.start("k")
			for i := range 3 {
				e := event(fmt.Sprintf("comment/%d", 3-i))
				e.At = f.clk.Now().Add(-time.Hour)
				_, err := f.Deliver(f.ctx, r.ID, e)
				f.ok(err)
			}
			e, err := f.Pending(f.ctx, r.ID, "approval")
			f.ok(err)
			f.same([]any{e.Key, e.At}, []any{"comment/3", f.clk.Now().Add(-time.Hour)})
		},
		"a halted run keeps it": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Halt(f.ctx, l, "c", "r"))
			fresh, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.same(fresh, true)
			f.same(f.get(r.ID).Status, checkpoints.Halted)
			f.noToken()
		},
		"key and kind are needed": func(f *fixture) {
			r := f.start("k")
			_, err := f.Deliver(f.ctx, r.ID, checkpoints.Event{Kind: "approval"})
			f.refused(err)
			_, err = f.Deliver(f.ctx, r.ID, checkpoints.Event{Key: "x"})
			f.refused(err)
		},
		"no run": func(f *fixture) {
			_, err := f.Deliver(f.ctx, "nope", event("x"))
			f.is(err, checkpoints.ErrNotFound)
			_, err = f.Pending(f.ctx, "nope", "approval")
			f.is(err, checkpoints.ErrNotFound)
		},
		"a race of park and deliver loses no wake-up": func(f *fixture) {
			for i := range 10 {
				r, l := f.claimed(fmt.Sprintf("k%d", i))
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := f.Commit(f.ctx, l, parked(1, "a", "b", wait)); err != nil {
						f.Errorf("commit: %v", err)
					}
				})
				var fresh atomic.Int32
				for range 3 {
					wg.Go(func() {
						ok, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
						if err != nil {
							f.Errorf("deliver: %v", err)
						}
						if ok {
							fresh.Add(1)
						}
					})
				}
				wg.Wait()
				f.same(fresh.Load(), int32(1))
				got := f.get(r.ID)
				f.same(got.Status, checkpoints.Ready)
				f.tokenFor(got)
			}
		},
	}
}
