package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

func leaseCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"a claim takes a ready run": func(f *fixture) {
			r := f.start("k")
			f.clk.Advance(time.Second)
			got, l := f.claim(r)
			f.same(l, checkpoints.Lease{RunID: r.ID, Owner: "worker-1", Fence: r.Epoch + 1})
			want := r
			want.Status, want.Epoch, want.Owner, want.Starts = checkpoints.Running, r.Epoch+1, "worker-1", 1
			want.LeaseUntil, want.Updated = f.clk.Now().Add(ttl), f.clk.Now()
			f.same(got, want)
			f.same(f.get(r.ID), want)
			f.noToken()
		},
		"another epoch is busy": func(f *fixture) {
			r := f.start("k")
			for _, epoch := range []int64{r.Epoch - 1, r.Epoch + 1} {
				_, _, err := f.Claim(f.ctx, r.ID, epoch, "w", ttl)
				f.is(err, checkpoints.ErrBusy)
			}
			f.same(f.get(r.ID), r)
		},
		"a claimed run is busy": func(f *fixture) {
			r, _ := f.claimed("k")
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "worker-2", ttl)
			f.is(err, checkpoints.ErrBusy)
		},
		"no run": func(f *fixture) {
			_, _, err := f.Claim(f.ctx, "nope", 1, "w", ttl)
			f.is(err, checkpoints.ErrNotFound)
		},
		"an owner is needed": func(f *fixture) {
			r := f.start("k")
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "", ttl)
			f.refused(err)
		},
		"50 claims have one winner": func(f *fixture) {
			r := f.start("k")
			var won, busy atomic.Int32
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, fmt.Sprintf("worker-%d", i), ttl)
					switch {
					case err == nil:
						won.Add(1)
					case errors.Is(err, checkpoints.ErrBusy):
						busy.Add(1)
					default:
						f.Errorf("claim %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			f.same([]int32{won.Load(), busy.Load()}, []int32{1, 49})
		},
		"a lease that is over can be taken": func(f *fixture) {
			r, l := f.claimed("k")
			f.clk.Advance(ttl - time.Microsecond)
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "worker-2", ttl)
			f.is(err, checkpoints.ErrBusy)
			f.clk.Advance(time.Microsecond)
			got, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "worker-2", ttl)
			f.ok(err)
			f.same(got.Starts, 2)
			f.is(f.Renew(f.ctx, l, ttl), checkpoints.ErrLost)
		},
		"renewing prolongs": func(f *fixture) {
			r, l := f.claimed("k")
			f.clk.Advance(ttl / 2)
			f.ok(f.Renew(f.ctx, l, ttl))
			f.same(f.get(r.ID).LeaseUntil, f.clk.Now().Add(ttl))
			f.clk.Advance(ttl - time.Second)
			n, err := f.Sweep(f.ctx, time.Hour)
			f.ok(err)
			f.same(n, 0)
		},
		"over but not taken still holds": func(f *fixture) {
			_, l := f.claimed("k")
			f.clk.Advance(2 * ttl)
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			f.ok(f.Renew(f.ctx, l, ttl))
		},
		"release gives back": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Release(f.ctx, l))
			got := f.get(r.ID)
			f.same(got.Status, checkpoints.Ready)
			f.same([]any{got.Owner, got.LeaseUntil.IsZero()}, []any{"", true})
			f.tokenFor(got)
			f.is(f.Renew(f.ctx, l, ttl), checkpoints.ErrLost)
			f.claim(got)
		},
		"release of an ending run": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			f.ok(f.Release(f.ctx, l))
			got := f.get(r.ID)
			f.same(got.Status, checkpoints.Ending)
			f.tokenFor(got)
			again, l2 := f.claim(got)
			f.same(again.Status, checkpoints.Ending)
			_, _, err := f.Claim(f.ctx, r.ID, again.Epoch, "worker-2", ttl)
			f.is(err, checkpoints.ErrBusy)
			_, err = f.Finish(f.ctx, l2, checkpoints.Done, nil)
			f.ok(err)
		},
		"a waiting run is claimable after its deadline": func(f *fixture) {
			r := f.waiting("k", f.clk.Now().Add(time.Hour))
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "w", ttl)
			f.is(err, checkpoints.ErrBusy)
			f.clk.Advance(time.Hour)
			got, l := f.claim(r)
			f.same(got.Status, checkpoints.Running)
			f.same(got.Wait, r.Wait)
			f.ok(f.Commit(f.ctx, l, step(2, "b", "c")))
			f.same(f.get(r.ID).Wait, (*checkpoints.Wait)(nil))
		},
		"a waiting run without a deadline is not": func(f *fixture) {
			r := f.waiting("k", time.Time{})
			f.clk.Advance(10000 * time.Hour)
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "w", ttl)
			f.is(err, checkpoints.ErrBusy)
		},
		"halted and final runs are not claimable": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Halt(f.ctx, l, "stop", "asked to"))
			_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, "w", ttl)
			f.is(err, checkpoints.ErrBusy)
			done := f.final("k2")
			_, _, err = f.Claim(f.ctx, done.ID, done.Epoch, "w", ttl)
			f.is(err, checkpoints.ErrBusy)
		},
		"starts count claims without a commit": func(f *fixture) {
			r := f.start("k")
			for want := 1; want <= 3; want++ {
				got, l := f.claim(r)
				f.same(got.Starts, want)
				f.ok(f.Release(f.ctx, l))
				r = f.get(r.ID)
			}
			_, l := f.claim(r)
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			f.same(f.get(r.ID).Starts, 0)
		},
		"a back-off is no start without a commit": func(f *fixture) {
			r, l := f.claimed("k")
			for range 10 {
				f.ok(f.Park(f.ctx, l, checkpoints.Wait{Node: "a", Until: f.clk.Now().Add(time.Minute)}))
				f.clk.Advance(time.Minute)
				r, l = f.claim(f.get(r.ID))
				f.same(r.Starts, 1)
			}
		},
		"all leases end at a start": func(f *fixture) {
			r, l := f.claimed("k")
			idle := f.start("idle")
			f.ok(f.ExpireAll(f.ctx))
			f.is(f.Commit(f.ctx, l, step(1, "a", "b")), checkpoints.ErrLost)
			f.same(f.get(idle.ID), idle)
			n, err := f.Sweep(f.ctx, time.Hour)
			f.ok(err)
			f.same(n, 1)
			got := f.get(r.ID)
			f.tokenFor(got)
			f.claim(got)
		},
		"all leases end, claimed without a sweep": func(f *fixture) {
			r, _ := f.claimed("k")
			f.ok(f.ExpireAll(f.ctx))
			f.claim(f.get(r.ID))
		},
	}
}

// fenceCases has one case a method that takes a lease: with a lease that was
// lost it fails with ErrLost and changes nothing, for each way to lose it.
func fenceCases() map[string]func(*fixture) {
	cases := map[string]func(*fixture){}
	for method, write := range map[string]func(*fixture, checkpoints.Lease) error{
		"Commit":  func(f *fixture, l checkpoints.Lease) error { return f.Commit(f.ctx, l, step(1, "a", "b")) },
		"Park":    func(f *fixture, l checkpoints.Lease) error { return f.Park(f.ctx, l, checkpoints.Wait{Node: "a"}) },
		"Halt":    func(f *fixture, l checkpoints.Lease) error { return f.Halt(f.ctx, l, "c", "r") },
		"End":     func(f *fixture, l checkpoints.Lease) error { return f.End(f.ctx, l, ended) },
		"Renew":   func(f *fixture, l checkpoints.Lease) error { return f.Renew(f.ctx, l, ttl) },
		"Release": func(f *fixture, l checkpoints.Lease) error { return f.Release(f.ctx, l) },
		"Finish": func(f *fixture, l checkpoints.Lease) error {
			next := req("next")
			_, err := f.Finish(f.ctx, l, checkpoints.Done, &next)
			return err
		},
		"Reserve": func(f *fixture, l checkpoints.Lease) error {
			_, err := f.Reserve(f.ctx, l, "a", checkpoints.Usage{MicroUSD: 1}, checkpoints.Limits{})
			return err
		},
	} {
		for how, lose := range map[string]func(*fixture, checkpoints.Run, checkpoints.Lease) checkpoints.Lease{
			"taken over": func(f *fixture, r checkpoints.Run, l checkpoints.Lease) checkpoints.Lease {
				f.clk.Advance(ttl)
				_, _, err := f.Claim(f.ctx, r.ID, r.Epoch, l.Owner, ttl)
				f.ok(err)
				return l
			},
			"swept": func(f *fixture, _ checkpoints.Run, l checkpoints.Lease) checkpoints.Lease {
				f.clk.Advance(ttl)
				_, err := f.Sweep(f.ctx, time.Hour)
				f.ok(err)
				return l
			},
			"released": func(f *fixture, _ checkpoints.Run, l checkpoints.Lease) checkpoints.Lease {
				f.ok(f.Release(f.ctx, l))
				return l
			},
			"of another owner": func(_ *fixture, _ checkpoints.Run, l checkpoints.Lease) checkpoints.Lease {
				l.Owner = "worker-2"
				return l
			},
			"of no run": func(_ *fixture, _ checkpoints.Run, l checkpoints.Lease) checkpoints.Lease {
				l.RunID = "nope"
				return l
			},
		} {
			cases[method+" "+how] = func(f *fixture) {
				r, l := f.claimed("k")
				if method == "Finish" {
					f.ok(f.End(f.ctx, l, ended))
				}
				l = lose(f, r, l)
				before := f.get(r.ID)
				f.taken()
				f.is(write(f, l), checkpoints.ErrLost)
				f.same(f.get(r.ID), before)
				history, err := f.History(f.ctx, r.ID)
				f.ok(err)
				f.same(history, []checkpoints.NodeRecord(nil))
				f.same(f.taken(), []queue.Token(nil))
			}
		}
	}
	return cases
}
