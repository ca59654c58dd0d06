package storetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func ledgerCases() map[string]func(*fixture) {
	type usage = checkpoints.Usage
	none := checkpoints.Limits{}
	reserve := func(f *fixture, l checkpoints.Lease, u usage) checkpoints.Reservation {
		f.Helper()
		r, err := f.Reserve(f.ctx, l, "a", u, none)
		f.ok(err)
		return r
	}
	return map[string]func(*fixture){
		"reserve, then settle": func(f *fixture) {
			r, l := f.claimed("k")
			est := usage{InputTokens: 100, OutputTokens: 50, CachedTokens: 10, ToolCalls: 2, ModelCalls: 1, MicroUSD: 900}
			res := reserve(f, l, est)
			f.same([]any{res.RunID, res.Node, res.ID != ""}, []any{r.ID, "a", true})
			f.same(f.get(r.ID).Spent, est)
			used := usage{InputTokens: 70, OutputTokens: 20, CachedTokens: 5, ToolCalls: 1, ModelCalls: 1, MicroUSD: 400}
			f.ok(f.Settle(f.ctx, res, used))
			f.same(f.get(r.ID).Spent, used)
			f.ok(f.Settle(f.ctx, res, used)) // an answer that was lost
			f.same(f.get(r.ID).Spent, used)
		},
		"an unsettled reservation counts in full": func(f *fixture) {
			r, l := f.claimed("k")
			settled := reserve(f, l, usage{MicroUSD: 10})
			reserve(f, l, usage{MicroUSD: 7})
			f.ok(f.Settle(f.ctx, settled, usage{MicroUSD: 3}))
			f.clk.Advance(ttl)
			_, err := f.Sweep(f.ctx, time.Hour)
			f.ok(err)
			run, issue, day, err := f.Spent(f.ctx, r.ID, r.Repo, r.Issue, checkpoints.Midnight(f.clk.Now()))
			f.ok(err)
			f.same([]usage{run, issue, day}, []usage{{MicroUSD: 10}, {MicroUSD: 10}, {MicroUSD: 10}})
		},
		"settling needs no lease": func(f *fixture) {
			r, l := f.claimed("k")
			res := reserve(f, l, usage{MicroUSD: 10})
			f.ok(f.End(f.ctx, l, ended))
			_, err := f.Finish(f.ctx, l, checkpoints.Done, nil)
			f.ok(err)
			f.ok(f.Settle(f.ctx, res, usage{MicroUSD: 4}))
			f.same(f.get(r.ID).Spent, usage{MicroUSD: 4})
		},
		"settling nothing": func(f *fixture) {
			f.is(f.Settle(f.ctx, checkpoints.Reservation{ID: "nope"}, usage{}), checkpoints.ErrNotFound)
		},
		"each scope and unit is a limit": func(f *fixture) {
			r, l := f.claimed("k")
			reserve(f, l, usage{InputTokens: 60, OutputTokens: 30, ToolCalls: 9, MicroUSD: 90})
			ten, hundred := int64(10), int64(100)
			for scope, set := range map[string]func(*checkpoints.Limits, checkpoints.Limit){
				"run":   func(l *checkpoints.Limits, x checkpoints.Limit) { l.Run = x },
				"issue": func(l *checkpoints.Limits, x checkpoints.Limit) { l.Issue = x },
				"day":   func(l *checkpoints.Limits, x checkpoints.Limit) { l.Day = x },
			} {
				for unit, c := range map[string]struct {
					limit checkpoints.Limit
					fits  usage
					more  usage
				}{
					"tokens":     {checkpoints.Limit{Tokens: &hundred}, usage{InputTokens: 4, OutputTokens: 6}, usage{OutputTokens: 11}},
					"micro-USD":  {checkpoints.Limit{MicroUSD: &hundred}, usage{MicroUSD: 10}, usage{MicroUSD: 11}},
					"tool calls": {checkpoints.Limit{ToolCalls: &ten}, usage{ToolCalls: 1}, usage{ToolCalls: 2}},
				} {
					var lim checkpoints.Limits
					set(&lim, c.limit)
					before := f.get(r.ID)
					_, err := f.Reserve(f.ctx, l, "a", c.more, lim)
					f.is(err, checkpoints.ErrBudget)
					if !strings.Contains(err.Error(), scope) || !strings.Contains(err.Error(), unit) {
						f.Errorf("error doesn't name %s and %s: %v", scope, unit, err)
					}
					f.same(f.get(r.ID), before)
					res, err := f.Reserve(f.ctx, l, "a", c.fits, lim)
					f.ok(err)
					f.ok(f.Settle(f.ctx, res, usage{}))
				}
			}
		},
		"zero means zero": func(f *fixture) {
			_, l := f.claimed("k")
			zero := int64(0)
			for _, lim := range []checkpoints.Limits{
				{Run: checkpoints.Limit{MicroUSD: &zero}},
				{Issue: checkpoints.Limit{MicroUSD: &zero}},
				{Day: checkpoints.Limit{MicroUSD: &zero}},
			} {
				_, err := f.Reserve(f.ctx, l, "a", usage{MicroUSD: 1}, lim)
				f.is(err, checkpoints.ErrBudget)
			}
		},
		"what the scopes sum": func(f *fixture) {
			spend := func(key, repo string, issue int, money int64) checkpoints.Run {
				q := req(key)
				q.Repo, q.Issue = repo, issue
				r, err := f.Start(f.ctx, q)
				f.ok(err)
				r, l := f.claim(r)
				reserve(f, l, usage{MicroUSD: money})
				return r
			}
			spend("yesterday", "acme/widgets", 7, 1)
			f.clk.Advance(12 * time.Hour) // over midnight
			since := f.clk.Now()
			r := spend("same issue", "Acme/Widgets", 7, 10)
			spend("same repo", "acme/widgets", 8, 100)
			spend("other repo", "acme/other", 7, 1000)
			run, issue, day, err := f.Spent(f.ctx, r.ID, "acme/widgets", 7, since)
			f.ok(err)
			f.same([]int64{run.MicroUSD, issue.MicroUSD, day.MicroUSD}, []int64{10, 11, 1110})
		},
		"a day begins at midnight UTC": func(f *fixture) {
			_, l := f.claimed("k")
			limit := int64(10)
			lim := checkpoints.Limits{Day: checkpoints.Limit{MicroUSD: &limit}}
			_, err := f.Reserve(f.ctx, l, "a", usage{MicroUSD: 10}, lim)
			f.ok(err)
			_, err = f.Reserve(f.ctx, l, "a", usage{MicroUSD: 1}, lim)
			f.is(err, checkpoints.ErrBudget)
			f.clk.Advance(12 * time.Hour)
			_, err = f.Reserve(f.ctx, l, "a", usage{MicroUSD: 1}, lim)
			f.ok(err)
		},
		"20 at once don't pass a limit": func(f *fixture) {
			_, l := f.claimed("k")
			limit := int64(10)
			var won atomic.Int64
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					_, err := f.Reserve(f.ctx, l, "a", usage{MicroUSD: 2}, checkpoints.Limits{Run: checkpoints.Limit{MicroUSD: &limit}})
					if err == nil {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			f.same(won.Load(), int64(5))
		},
	}
}
