package storetest

import (
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// of is a request for a run of concurrency key "c" with a policy.
func of(key, policy string) checkpoints.StartReq {
	q := req(key)
	q.Concurrency, q.OnConflict = "c", policy
	return q
}

// begin starts a run as asked, which must succeed, and takes its token.
func (f *fixture) begin(q checkpoints.StartReq) checkpoints.Run {
	f.Helper()
	r, err := f.Start(f.ctx, q)
	f.ok(err)
	f.taken()
	return r
}

// finish ends a run that anybody may claim, and returns the tokens of that.
func (f *fixture) finish(r checkpoints.Run) []queue.Token {
	f.Helper()
	_, l := f.claim(f.get(r.ID))
	if f.get(r.ID).Result == "" {
		f.ok(f.End(f.ctx, l, ended))
	}
	f.taken()
	_, err := f.Finish(f.ctx, l, checkpoints.Done, nil)
	f.ok(err)
	return f.taken()
}

// concurrencyCases are those of rows NX2 and NX3.
func concurrencyCases() map[string]func(*fixture) {
	const queuePolicy, replace, reject = checkpoints.OnConflictQueue, checkpoints.OnConflictReplace, checkpoints.OnConflictReject
	status := func(f *fixture, r checkpoints.Run, want checkpoints.Status) {
		f.Helper()
		f.same(f.get(r.ID).Status, want)
	}
	return map[string]func(*fixture){
		"queue lines up, oldest first": func(f *fixture) {
			a := f.start("alone")
			first := f.begin(of("k1", queuePolicy))
			second, err := f.Start(f.ctx, of("k2", ""))
			f.ok(err)
			f.noToken()
			f.same([]any{second.Status, second.OnConflict, second.Concurrency}, []any{checkpoints.Queued, queuePolicy, "c"})
			third := f.begin(of("k3", queuePolicy))
			status(f, first, checkpoints.Ready)
			f.same(f.finish(a), []queue.Token(nil))
			f.same(f.finish(first), []queue.Token{{Kind: queue.Run, ID: second.ID, Epoch: second.Epoch}})
			status(f, second, checkpoints.Ready)
			status(f, third, checkpoints.Queued)
			f.same(f.finish(second), []queue.Token{{Kind: queue.Run, ID: third.ID, Epoch: third.Epoch}})
			f.same(f.finish(third), []queue.Token(nil))
			f.same(f.begin(of("k4", queuePolicy)).Status, checkpoints.Ready)
		},
		"whatever the open run does, the next one waits": func(f *fixture) {
			for name, make := range map[string]func(checkpoints.Run) checkpoints.Run{
				"ready":   func(r checkpoints.Run) checkpoints.Run { return r },
				"running": func(r checkpoints.Run) checkpoints.Run { r, _ = f.claim(r); return r },
				"waiting": func(r checkpoints.Run) checkpoints.Run {
					_, l := f.claim(r)
					f.ok(f.Park(f.ctx, l, checkpoints.Wait{Node: "a", Event: "approval"}))
					return r
				},
				"halted": func(r checkpoints.Run) checkpoints.Run {
					_, l := f.claim(r)
					f.ok(f.Halt(f.ctx, l, "stopped", "x"))
					return r
				},
				"ending": func(r checkpoints.Run) checkpoints.Run { f.ok(f.Cancel(f.ctx, r.ID, ended)); return r },
			} {
				q := of(name+"1", queuePolicy)
				q.Concurrency = name
				make(f.begin(q))
				q.Key = name + "2"
				f.same(f.begin(q).Status, checkpoints.Queued)
			}
		},
		"a queued run can't be claimed, woken or swept": func(f *fixture) {
			f.begin(of("k1", queuePolicy))
			r := f.begin(of("k2", queuePolicy))
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "w", ttl)
			f.is(err, checkpoints.ErrBusy)
			f.is(f.Wake(f.ctx, r.ID), checkpoints.ErrConflict)
			fresh, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.same(fresh, true)
			f.ok(f.ExpireAll(f.ctx))
			f.clk.Advance(24 * time.Hour)
			n, err := f.Sweep(f.ctx, time.Hour)
			f.ok(err)
			f.same(n, 1) // the first one's token
			f.same(f.get(r.ID), r)
		},
		"cancelling a queued run leaves the line in order": func(f *fixture) {
			first, second, third := f.begin(of("k1", queuePolicy)), f.begin(of("k2", queuePolicy)), f.begin(of("k3", queuePolicy))
			f.ok(f.Cancel(f.ctx, second.ID, ended))
			f.tokenFor(second)
			f.same(f.finish(second), []queue.Token(nil)) // the first has the key still
			f.same(f.finish(first), []queue.Token{{Kind: queue.Run, ID: third.ID, Epoch: third.Epoch}})
		},
		"reject names the open run": func(f *fixture) {
			first := f.begin(of("k1", reject))
			got, err := f.Start(f.ctx, of("k2", reject))
			f.is(err, checkpoints.ErrConflict)
			f.same(got, first)
			f.noToken()
			f.finish(first)
			f.begin(of("k2", reject))
		},
		"replace names the older one and drops those between": func(f *fixture) {
			first, second := f.begin(of("k1", replace)), f.begin(of("k2", queuePolicy))
			third, err := f.Start(f.ctx, of("k3", replace))
			f.ok(err)
			f.same([]any{third.Status, third.Replaces}, []any{checkpoints.Queued, first.ID})
			f.same(f.get(third.ID), third)
			f.tokenFor(second)
			got := f.get(second.ID)
			f.same([]any{got.Status, got.Result, got.Code}, []any{checkpoints.Ending, "cancelled", checkpoints.Replaced})
			f.same(f.get(first.ID), first) // cancelling it is the caller's
			f.ok(f.Cancel(f.ctx, first.ID, checkpoints.ReplacedBy(third.ID)))
			f.same(f.finish(first), []queue.Token(nil)) // the second is ending still
			f.same(f.finish(second), []queue.Token{{Kind: queue.Run, ID: third.ID, Epoch: third.Epoch}})
		},
		"one business key may line up": func(f *fixture) {
			first := f.begin(of("k", queuePolicy))
			f.same(f.begin(of("k", queuePolicy)).Status, checkpoints.Queued)
			third := f.begin(of("k", replace))
			f.same(third.Replaces, first.ID)
			for _, q := range []checkpoints.StartReq{of("k", reject), req("k"), {Key: "k", Concurrency: "other"}} {
				got, err := f.Start(f.ctx, q)
				f.is(err, checkpoints.ErrConflict)
				f.same(got.ID, first.ID)
			}
		},
		"the next phase lines up behind who waited": func(f *fixture) {
			first, second := f.begin(of("k1", queuePolicy)), f.begin(of("k2", queuePolicy))
			_, l := f.claim(first)
			f.ok(f.End(f.ctx, l, ended))
			f.taken()
			q := of("k1", queuePolicy)
			next, err := f.Finish(f.ctx, l, checkpoints.Done, &q)
			f.ok(err)
			f.same(next.Status, checkpoints.Queued)
			f.tokenFor(f.get(second.ID))
			f.same(f.finish(second), []queue.Token{{Kind: queue.Run, ID: next.ID, Epoch: next.Epoch}})
		},
		"a refused next phase gives nobody a turn": func(f *fixture) {
			first, second := f.begin(of("k1", queuePolicy)), f.begin(of("k2", queuePolicy))
			_, l := f.claim(first)
			f.ok(f.End(f.ctx, l, ended))
			f.taken()
			q := of("k3", reject)
			got, err := f.Finish(f.ctx, l, checkpoints.Done, &q)
			f.is(err, checkpoints.ErrConflict)
			f.same(got.ID, second.ID)
			f.noToken()
			status(f, first, checkpoints.Ending)
			status(f, second, checkpoints.Queued)
		},
		"what is not known is refused": func(f *fixture) {
			_, err := f.Start(f.ctx, of("k", "perhaps"))
			f.refused(err)
		},
	}
}
