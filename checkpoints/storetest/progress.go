package storetest

import (
	"encoding/json"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func progressCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"a commit moves the run": func(f *fixture) {
			r, l := f.claimed("k")
			f.clk.Advance(time.Second)
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			want := r
			want.Seq, want.Node, want.Next, want.Starts = 1, "a", "b", 0
			want.State, want.Visits, want.Updated = json.RawMessage(`{"at":"a"}`), map[string]int{"a": 1}, f.clk.Now()
			f.same(f.get(r.ID), want)
			f.noToken()
		},
		"history is complete and in order": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			full := checkpoints.NodeRecord{
				Node: "a", Kind: "wait", Visit: 2, Attempt: 3, Outcome: "ok", Delta: json.RawMessage(`{"x":1}`),
				Guards: []checkpoints.Guard{{To: "b", When: "x > 0"}, {To: "c", Taken: true}},
				Note:   "for people", Usage: checkpoints.Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 1, ToolCalls: 3, ModelCalls: 4, MicroUSD: 5},
				Began: f.clk.Now(), Took: 1500 * time.Millisecond,
			}
			c := step(1, "a", "c")
			c.Record, c.EventKey = full, "comment/1"
			f.ok(f.Commit(f.ctx, l, c))
			f.ok(f.Commit(f.ctx, l, step(2, "c", "d")))
			f.ok(f.Commit(f.ctx, l, step(3, "d", "e")))
			got, err := f.History(f.ctx, r.ID)
			f.ok(err)
			full.Seq, full.Next, full.EventKey = 1, "c", "comment/1"
			second, third := step(2, "c", "d").Record, step(3, "d", "e").Record
			second.Seq, second.Next, third.Seq, third.Next = 2, "d", 3, "e"
			f.same(got, []checkpoints.NodeRecord{full, second, third})
		},
		"the seq is compared": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			before := f.get(r.ID)
			for _, seq := range []int64{0, 1, 3} {
				f.is(f.Commit(f.ctx, l, step(seq, "b", "c")), checkpoints.ErrConflict)
			}
			f.same(f.get(r.ID), before)
			f.ok(f.Commit(f.ctx, l, step(2, "b", "c")))
		},
		"a commit that makes no sense": func(f *fixture) {
			r, l := f.claimed("k")
			before := f.get(r.ID)
			for _, change := range []func(*checkpoints.Commit){
				func(c *checkpoints.Commit) { c.State = nil },
				func(c *checkpoints.Commit) { c.State = json.RawMessage(`"text"`) },
				func(c *checkpoints.Commit) { c.State = json.RawMessage(`{"a":`) },
				func(c *checkpoints.Commit) { c.Next = "" },
				func(c *checkpoints.Commit) { c.Ending = &checkpoints.Ended{} },
				func(c *checkpoints.Commit) { c.Next, c.Ending, c.Park = "", &ended, &checkpoints.Wait{} },
			} {
				c := step(1, "a", "b")
				change(&c)
				f.refused(f.Commit(f.ctx, l, c))
			}
			f.same(f.get(r.ID), before)
		},
		"nothing of a commit is shared": func(f *fixture) {
			r, l := f.claimed("k")
			c := step(1, "a", "b")
			c.Record.Delta, c.Record.Guards = json.RawMessage(`{"x":1}`), []checkpoints.Guard{{To: "b"}}
			f.ok(f.Commit(f.ctx, l, c))
			run := f.get(r.ID)
			history, err := f.History(f.ctx, r.ID)
			f.ok(err)
			c.State[2], c.Visits["a"], c.Record.Delta[2], c.Record.Guards[0].To = 'z', 9, 'z', "z"
			f.same(f.get(r.ID), run)
			again, err := f.History(f.ctx, r.ID)
			f.ok(err)
			f.same(again, history)
		},
		"a commit that ends": func(f *fixture) {
			r, l := f.claimed("k")
			c := step(1, "a", "")
			c.Ending = &ended
			f.ok(f.Commit(f.ctx, l, c))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Next, got.Owner, got.Result, got.Code, got.Reason},
				[]any{checkpoints.Ending, "", l.Owner, ended.Result, ended.Code, ended.Reason})
			f.noToken()
			f.is(f.Commit(f.ctx, l, step(2, "b", "c")), checkpoints.ErrConflict)
			f.ok(f.Renew(f.ctx, l, ttl))
		},
		"end without a node": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			f.ok(f.End(f.ctx, l, ended))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Seq, got.Next, got.Owner, got.Result},
				[]any{checkpoints.Ending, int64(1), "b", l.Owner, ended.Result})
			f.ok(f.Renew(f.ctx, l, ttl))
		},
		"halt and wake": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			f.ok(f.Halt(f.ctx, l, "stopped", "ann said stop"))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Owner, got.Next, got.Code, got.Reason, got.Result},
				[]any{checkpoints.Halted, "", "b", "stopped", "ann said stop", ""})
			f.noToken()
			f.is(f.Renew(f.ctx, l, ttl), checkpoints.ErrLost)
			f.clk.Advance(1000 * time.Hour)
			n, err := f.Sweep(f.ctx, time.Second)
			f.ok(err)
			f.same(n, 0)
			f.ok(f.Wake(f.ctx, r.ID))
			got = f.get(r.ID)
			f.same([]any{got.Status, got.Code, got.Reason}, []any{checkpoints.Ready, "", ""})
			f.tokenFor(got)
			f.claim(got)
		},
		"no other run wakes": func(f *fixture) {
			r := f.start("k")
			f.is(f.Wake(f.ctx, r.ID), checkpoints.ErrConflict)
			r, l := f.claim(r)
			f.is(f.Wake(f.ctx, r.ID), checkpoints.ErrConflict)
			f.ok(f.End(f.ctx, l, ended))
			f.is(f.Wake(f.ctx, r.ID), checkpoints.ErrConflict)
			f.is(f.Wake(f.ctx, f.final("k2").ID), checkpoints.ErrConflict)
			f.is(f.Wake(f.ctx, f.waiting("k3", time.Time{}).ID), checkpoints.ErrConflict)
			f.is(f.Wake(f.ctx, "nope"), checkpoints.ErrNotFound)
			f.noToken()
		},
		"news end a look": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			since := f.clk.Now()
			f.is(f.Nudge(f.ctx, r.ID, since), checkpoints.ErrConflict)
			f.ok(f.Park(f.ctx, l, checkpoints.Wait{Node: "b", Since: since, Until: since.Add(time.Hour), Looks: true, Why: "CI"}))
			f.noToken()
			f.is(f.Wake(f.ctx, r.ID), checkpoints.ErrConflict)
			f.is(f.Nudge(f.ctx, r.ID, since.Add(-time.Second)), checkpoints.ErrConflict)
			f.is(f.Nudge(f.ctx, "nope", since), checkpoints.ErrNotFound)
			f.ok(f.Nudge(f.ctx, r.ID, since))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Next, got.Seq}, []any{checkpoints.Ready, "b", int64(1)})
			f.tokenFor(got)
			f.is(f.Nudge(f.ctx, r.ID, since), checkpoints.ErrConflict)
			f.claim(got)
		},
		"no news end another wait": func(f *fixture) {
			for key, wait := range map[string]checkpoints.Wait{
				"rate limited": {Node: "b", Since: f.clk.Now(), Until: f.clk.Now().Add(time.Hour), Why: "429"},
				"an event":     {Node: "b", Since: f.clk.Now(), Event: "approval", Looks: true},
			} {
				r, l := f.claimed(key)
				f.ok(f.Park(f.ctx, l, wait))
				f.is(f.Nudge(f.ctx, r.ID, wait.Since), checkpoints.ErrConflict)
			}
			f.noToken()
		},
		"a halted ending run wakes as ending": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			f.ok(f.Halt(f.ctx, l, "stopped", "ann said stop"))
			f.ok(f.Wake(f.ctx, r.ID))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Result, got.Reason}, []any{checkpoints.Ending, ended.Result, ended.Reason})
		},
		"a back-off parks": func(f *fixture) {
			r, l := f.claimed("k")
			w := checkpoints.Wait{Node: "a", Since: f.clk.Now(), Until: f.clk.Now().Add(time.Minute), Why: "rate limited"}
			f.ok(f.Park(f.ctx, l, w))
			got := f.get(r.ID)
			f.same([]any{got.Status, got.Owner, got.Seq, got.Next}, []any{checkpoints.Waiting, "", int64(0), "a"})
			f.same(got.Wait, &w)
			f.noToken()
			f.is(f.Renew(f.ctx, l, ttl), checkpoints.ErrLost)
			_, err := f.Deliver(f.ctx, r.ID, event("comment/1"))
			f.ok(err)
			f.noToken()
			f.clk.Advance(time.Minute)
			f.claim(got)
		},
		"an ending run that backs off stays ending": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			f.ok(f.Park(f.ctx, l, checkpoints.Wait{Node: "finish", Until: f.clk.Now().Add(time.Minute)}))
			f.same(f.get(r.ID).Status, checkpoints.Waiting)
			f.clk.Advance(time.Minute)
			_, err := f.Sweep(f.ctx, time.Hour)
			f.ok(err)
			got := f.get(r.ID)
			f.same(got.Status, checkpoints.Ending)
			f.tokenFor(got)
			got, _ = f.claim(got)
			f.same([]any{got.Status, got.Result}, []any{checkpoints.Ending, ended.Result})
		},
	}
}

func finishCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"alone": func(f *fixture) {
			for _, final := range []checkpoints.Status{checkpoints.Done, checkpoints.Failed, checkpoints.Cancelled} {
				r, l := f.claimed(string(final))
				f.ok(f.End(f.ctx, l, ended))
				next, err := f.Finish(f.ctx, l, final, nil)
				f.ok(err)
				f.same(next, (*checkpoints.Run)(nil))
				got := f.get(r.ID)
				f.same([]any{got.Status, got.Owner, got.Result}, []any{final, "", ended.Result})
				f.noToken()
				_, err = f.Finish(f.ctx, l, final, nil)
				f.is(err, checkpoints.ErrLost)
			}
		},
		"with the next run of the same key": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			q := req("k")
			q.Lineage, q.Phase, q.Trigger = r.Lineage, "plan", "run/"+r.ID
			next, err := f.Finish(f.ctx, l, checkpoints.Done, &q)
			f.ok(err)
			f.same(f.get(r.ID).Status, checkpoints.Done)
			f.same(f.get(next.ID), *next)
			f.same([]any{next.Status, next.Phase, next.Lineage, next.Key}, []any{checkpoints.Ready, "plan", r.ID, "k"})
			f.tokenFor(*next)
		},
		"a next run in conflict changes nothing": func(f *fixture) {
			open := f.start("taken")
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			before := f.get(r.ID)
			q := req("taken")
			next, err := f.Finish(f.ctx, l, checkpoints.Done, &q)
			f.is(err, checkpoints.ErrConflict)
			f.same(next.ID, open.ID)
			f.same(f.get(r.ID), before)
			f.noToken()
			_, err = f.Finish(f.ctx, l, checkpoints.Done, nil)
			f.ok(err)
		},
		"a next run without a key changes nothing": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			_, err := f.Finish(f.ctx, l, checkpoints.Done, &checkpoints.StartReq{})
			f.refused(err)
			f.same(f.get(r.ID).Status, checkpoints.Ending)
		},
		"only an ending run": func(f *fixture) {
			r, l := f.claimed("k")
			_, err := f.Finish(f.ctx, l, checkpoints.Done, nil)
			f.is(err, checkpoints.ErrConflict)
			f.same(f.get(r.ID), r)
		},
		"only with a final status": func(f *fixture) {
			_, l := f.claimed("k")
			f.ok(f.End(f.ctx, l, ended))
			_, err := f.Finish(f.ctx, l, checkpoints.Halted, nil)
			f.refused(err)
		},
	}
}

func cancelCases() map[string]func(*fixture) {
	cancelled := checkpoints.Ended{Result: "cancelled", Code: "label-gone", Reason: "the label was taken off"}
	check := func(f *fixture, r checkpoints.Run) {
		f.taken()
		f.ok(f.Cancel(f.ctx, r.ID, cancelled))
		got := f.get(r.ID)
		f.same([]any{got.Status, got.Result, got.Code, got.Reason, got.Wait},
			[]any{checkpoints.Ending, cancelled.Result, cancelled.Code, cancelled.Reason, (*checkpoints.Wait)(nil)})
		f.tokenFor(got)
		_, l := f.claim(got)
		_, err := f.Finish(f.ctx, l, checkpoints.Cancelled, nil)
		f.ok(err)
	}
	return map[string]func(*fixture){
		"ready":   func(f *fixture) { check(f, f.start("k")) },
		"waiting": func(f *fixture) { check(f, f.waiting("k", time.Time{})) },
		"halted": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Halt(f.ctx, l, "stopped", "x"))
			check(f, r)
		},
		"running is busy": func(f *fixture) {
			r, _ := f.claimed("k")
			f.is(f.Cancel(f.ctx, r.ID, cancelled), checkpoints.ErrBusy)
			f.same(f.get(r.ID), r)
		},
		"what is over can't be cancelled": func(f *fixture) {
			r := f.final("k")
			f.is(f.Cancel(f.ctx, r.ID, cancelled), checkpoints.ErrConflict)
			f.same(f.get(r.ID), r)
			f.ok(f.Cancel(f.ctx, f.start("k2").ID, cancelled))
			r, err := f.Start(f.ctx, req("k2"))
			f.is(err, checkpoints.ErrConflict)
			f.is(f.Cancel(f.ctx, r.ID, checkpoints.Ended{Result: "other"}), checkpoints.ErrConflict)
			f.same(f.get(r.ID).Result, "cancelled")
		},
		"no run": func(f *fixture) { f.is(f.Cancel(f.ctx, "nope", cancelled), checkpoints.ErrNotFound) },
	}
}
