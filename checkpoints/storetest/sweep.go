package storetest

import (
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

func sweepCases() map[string]func(*fixture) {
	const age = time.Hour
	sweep := func(f *fixture, want int) {
		f.Helper()
		n, err := f.Sweep(f.ctx, age)
		f.ok(err)
		f.same(n, want)
	}
	return map[string]func(*fixture){
		"a lease that is over": func(f *fixture) {
			r, _ := f.claimed("k")
			held, _ := f.claimed("held")
			f.clk.Advance(ttl / 2)
			f.ok(f.Renew(f.ctx, checkpoints.Lease{RunID: held.ID, Owner: held.Owner, Fence: held.Epoch}, ttl))
			f.clk.Advance(ttl / 2)
			sweep(f, 1)
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Epoch, got.Owner, got.Starts}, []any{checkpoints.Ready, r.Epoch + 1, "", 1})
			f.tokenFor(got)
			f.same(f.get(held.ID).Status, checkpoints.Running)
			sweep(f, 0)
			f.noToken()
			f.claim(got)
		},
		"an ending run whose lease is over": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			f.clk.Advance(ttl)
			sweep(f, 1)
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Epoch}, []any{checkpoints.Ending, r.Epoch + 1})
			f.tokenFor(got)
		},
		"a deadline that is past": func(f *fixture) {
			r := f.waiting("k", f.clk.Now().Add(time.Minute))
			never := f.waiting("never", time.Time{})
			sweep(f, 0)
			f.clk.Advance(time.Minute)
			sweep(f, 1)
			got := f.get(r.ID)
			f.same(got.Epoch, r.Epoch+1)
			f.same(got.Wait, r.Wait)
			f.tokenFor(got)
			f.same(f.get(never.ID), never)
			sweep(f, 0)
			f.claim(got)
		},
		"an event after the deadline was swept is kept": func(f *fixture) {
			r := f.waiting("k", f.clk.Now().Add(time.Minute))
			f.clk.Advance(time.Minute)
			sweep(f, 1)
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.claim(f.get(r.ID))
			_, err = f.Pending(f.ctx, r.ID, "approval")
			f.ok(err)
		},
		"lost tokens come again": func(f *fixture) {
			ready := f.start("ready")
			_, l := f.claimed("ending")
			f.ok(f.End(f.ctx, l, ended))
			f.ok(f.Release(f.ctx, l))
			f.taken()
			ending := f.get(l.RunID)
			f.final("done")
			f.waiting("waiting", time.Time{})
			_, err := f.Receive(f.ctx, checkpoints.InboxEvent{ID: "e1", Kind: "x", Body: []byte(`{}`)})
			f.ok(err)
			_, err = f.Receive(f.ctx, checkpoints.InboxEvent{ID: "e2", Kind: "x", Body: []byte(`{}`)})
			f.ok(err)
			f.ok(f.Decided(f.ctx, "e2", "ignore", "not ours"))
			f.taken()
			f.clk.Advance(age - time.Microsecond)
			sweep(f, 0)
			f.clk.Advance(time.Microsecond)
			want := []queue.Token{
				{Kind: queue.Run, ID: ready.ID, Epoch: ready.Epoch},
				{Kind: queue.Run, ID: ending.ID, Epoch: ending.Epoch},
				{Kind: queue.Event, ID: "e1"},
			}
			sweep(f, 3)
			f.same(f.taken(), want)
			f.same(f.get(ready.ID), ready)
			sweep(f, 0) // counted from the last token
			f.clk.Advance(age)
			sweep(f, 3)
			f.same(f.taken(), want)
			f.claim(ready) // the first token is still good
		},
	}
}
