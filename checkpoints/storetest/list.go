package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func listCases() map[string]func(*fixture) {
	ids := func(f *fixture, filter checkpoints.Filter) (keys []string) {
		f.Helper()
		runs, err := f.List(f.ctx, filter)
		f.ok(err)
		for _, r := range runs {
			keys = append(keys, r.Key)
		}
		return keys
	}
	return map[string]func(*fixture){
		"filters": func(f *fixture) {
			for i, q := range []checkpoints.StartReq{
				{Key: "a", Repo: "acme/widgets", Issue: 1, Phase: "triage", Lineage: "l1"},
				{Key: "b", Repo: "acme/widgets", Issue: 2, Phase: "plan", Lineage: "l1"},
				{Key: "c", Repo: "Acme/Widgets", Issue: 1, Phase: "plan", Lineage: "l2"},
				{Key: "d", Repo: "acme/other", Issue: 1, Phase: "triage", Lineage: "l2"},
			} {
				if i%2 == 1 {
					f.clk.Advance(time.Second)
				}
				_, err := f.Start(f.ctx, q)
				f.ok(err)
			}
			f.taken()
			b, err := f.List(f.ctx, checkpoints.Filter{Phase: "plan", Issue: 2})
			f.ok(err)
			f.claim(b[0])
			f.final("e")
			for _, c := range []struct {
				filter checkpoints.Filter
				want   []string
			}{
				{checkpoints.Filter{}, []string{"e", "d", "c", "b", "a"}},
				{checkpoints.Filter{Limit: 2}, []string{"e", "d"}},
				{checkpoints.Filter{Repo: "ACME/widgets", Lineage: "l1"}, []string{"b", "a"}},
				{checkpoints.Filter{Repo: "acme/widgets", Issue: 1}, []string{"c", "a"}},
				{checkpoints.Filter{Phase: "triage", Lineage: "l2"}, []string{"d"}},
				{checkpoints.Filter{Statuses: []checkpoints.Status{checkpoints.Running, checkpoints.Done}}, []string{"e", "b"}},
				{checkpoints.Filter{Issue: 99}, nil},
			} {
				if got := ids(f, c.filter); fmt.Sprint(got) != fmt.Sprint(c.want) {
					f.Errorf("%+v: got %v, want %v", c.filter, got, c.want)
				}
				c.filter.Limit = 1 // of no account
				all, err := f.IDs(f.ctx, c.filter)
				f.ok(err)
				var got []string
				for _, id := range slices.Backward(all) {
					got = append(got, f.get(id).Key)
				}
				if want := ids(f, unlimited(c.filter)); fmt.Sprint(got) != fmt.Sprint(want) {
					f.Errorf("ids of %+v, backward: got %v, want %v", c.filter, got, want)
				}
			}
		},
		"children": func(f *fixture) {
			root := f.start("root")
			f.start("other")
			first := f.begin(childOf(root, "first"))
			second := f.begin(childOf(root, "second"))
			deeper := f.begin(childOf(first, "deeper"))
			for _, c := range []struct {
				filter checkpoints.Filter
				want   []string
			}{
				{checkpoints.Filter{Roots: true}, []string{"other", "root"}},
				{checkpoints.Filter{Parent: root.ID}, []string{second.Key, first.Key}},
				{checkpoints.Filter{Parent: first.ID}, []string{deeper.Key}},
				{checkpoints.Filter{Parent: root.ID, Roots: true}, nil},
			} {
				f.same(ids(f, c.filter), c.want)
				all, err := f.IDs(f.ctx, c.filter)
				f.ok(err)
				f.same(len(all), len(c.want))
			}
		},
		"rows are whole": func(f *fixture) {
			r := f.waiting("k", f.clk.Now().Add(time.Hour))
			got, err := f.List(f.ctx, checkpoints.Filter{})
			f.ok(err)
			f.same(got, []checkpoints.Run{r})
		},
		"at most 100 unless asked": func(f *fixture) {
			for i := range 101 {
				f.start(fmt.Sprintf("k%d", i))
			}
			f.same(len(ids(f, checkpoints.Filter{})), 100)
			f.same(len(ids(f, checkpoints.Filter{Limit: 200})), 101)
			all, err := f.IDs(f.ctx, checkpoints.Filter{})
			f.ok(err)
			f.same(len(all), 101)
		},
	}
}

// unlimited is a filter for more than any case has.
func unlimited(f checkpoints.Filter) checkpoints.Filter {
	f.Limit = 1000
	return f
}

func pruneCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"final runs before an instant": func(f *fixture) {
			old := f.final("old")
			open := f.start("open")
			f.clk.Advance(time.Hour)
			cut := f.clk.Now()
			young := f.final("young")
			n, err := f.Prune(f.ctx, checkpoints.Retention{Before: cut})
			f.ok(err)
			f.same(n, 1)
			_, err = f.Get(f.ctx, old.ID)
			f.is(err, checkpoints.ErrNotFound)
			_, err = f.History(f.ctx, old.ID)
			f.is(err, checkpoints.ErrNotFound)
			f.same(f.get(open.ID), open)
			f.same(f.get(young.ID), young)
			n, err = f.Prune(f.ctx, checkpoints.Retention{Before: cut})
			f.ok(err)
			f.same(n, 0)
		},
		"the definition that another run shares stays": func(f *fixture) {
			q := req("old")
			q.Definition = []byte("flow")
			r, err := f.Start(f.ctx, q)
			f.ok(err)
			f.taken()
			q.Key = "young"
			young, err := f.Start(f.ctx, q)
			f.ok(err)
			_, l := f.claim(r)
			f.ok(f.End(f.ctx, l, ended))
			_, err = f.Finish(f.ctx, l, checkpoints.Done, nil)
			f.ok(err)
			_, err = f.Prune(f.ctx, checkpoints.Retention{Before: f.clk.Now().Add(1)})
			f.ok(err)
			f.clk.Advance(time.Second)
			n, err := f.Prune(f.ctx, checkpoints.Retention{Before: f.clk.Now()})
			f.ok(err)
			f.same(n <= 1, true)
			f.same(string(f.get(young.ID).Definition), "flow")
		},
		"money and triggers stay": func(f *fixture) {
			q := req("k")
			q.Trigger = "comment/1"
			r, err := f.Start(f.ctx, q)
			f.ok(err)
			_, l := f.claim(r)
			_, err = f.Reserve(f.ctx, l, "a", checkpoints.Usage{MicroUSD: 5}, checkpoints.Limits{})
			f.ok(err)
			f.ok(f.End(f.ctx, l, ended))
			_, err = f.Finish(f.ctx, l, checkpoints.Done, nil)
			f.ok(err)
			f.clk.Advance(time.Second)
			n, err := f.Prune(f.ctx, checkpoints.Retention{Before: f.clk.Now()})
			f.ok(err)
			f.same(n, 1)
			_, issue, day, err := f.Spent(f.ctx, "", r.Repo, r.Issue, f.clk.Now().Add(-time.Hour))
			f.ok(err)
			f.same([]int64{issue.MicroUSD, day.MicroUSD}, []int64{5, 5})
			again, err := f.Start(f.ctx, q)
			f.is(err, checkpoints.ErrConflict)
			f.same(again.ID, r.ID)
		},
	}
}
