package storetest

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func startCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"every field is kept": func(f *fixture) {
			q := checkpoints.StartReq{
				Key: "acme/widgets#7", Trigger: "label-event/1", Lineage: "root", Repo: "acme/widgets", Issue: 7,
				Phase: "plan", Flow: "plan-v2", Round: 3, Entry: "first", State: json.RawMessage(`{"n":1}`),
				Definition: []byte("flow: plan\n"), DefinitionHash: "cafe", Actions: map[string]string{"llm.plan": "v3"},
			}
			got, err := f.Start(f.ctx, q)
			f.ok(err)
			want := checkpoints.Run{
				ID: got.ID, Key: q.Key, Trigger: q.Trigger, Lineage: q.Lineage, Repo: q.Repo, Issue: q.Issue,
				Phase: q.Phase, Flow: q.Flow, Round: q.Round, Status: checkpoints.Ready, Epoch: got.Epoch,
				Next: q.Entry, State: q.State, Initial: q.State, Visits: map[string]int{}, Definition: q.Definition,
				DefinitionHash: q.DefinitionHash, Actions: q.Actions, Created: f.clk.Now(), Updated: f.clk.Now(),
			}
			f.same(got, want)
			f.same(f.get(got.ID), want)
			f.tokenFor(got)
			if len(got.ID) != 26 || strings.ToLower(got.ID) != got.ID {
				f.Fatalf("id %q", got.ID)
			}
		},
		"what is returned is what is kept": func(f *fixture) {
			parent, plain := f.start("parent"), req("plain")
			plain.Definition, plain.Actions = []byte{}, nil
			first := req("first")
			first.Concurrency = "c"
			queued := checkpoints.StartReq{
				Key: "k", Trigger: "t", Repo: "acme/widgets", Issue: 7, Phase: "plan", Flow: "f", Entry: "first",
				State: json.RawMessage(`{"x":"` + strings.Repeat("ü<", 1000) + `"}`), Parent: parent.ID, ParentNode: "n", Counted: true,
				Forked: parent.ID, ForkedAt: "m", Mode: checkpoints.ModeShadow,
				Concurrency: "c", OnConflict: checkpoints.OnConflictReplace, Definition: []byte("flow"), DefinitionHash: "cafe",
			}
			for _, q := range []checkpoints.StartReq{plain, first, queued} {
				r, err := f.Start(f.ctx, q)
				f.ok(err)
				f.same(r, f.get(r.ID))
			}
		},
		"what may be left out": func(f *fixture) {
			r := f.start("k")
			f.same(r.Lineage, r.ID)
			f.same(r.Round, 1)
			f.same(string(r.State), `{}`)
		},
		"a key is needed": func(f *fixture) {
			_, err := f.Start(f.ctx, checkpoints.StartReq{})
			f.refused(err)
			f.noToken()
		},
		"state must be an object": func(f *fixture) {
			q := req("k")
			q.State = json.RawMessage(`[1]`)
			_, err := f.Start(f.ctx, q)
			f.refused(err)
		},
		"one open run a key": func(f *fixture) {
			first := f.start("k")
			again, err := f.Start(f.ctx, req("k"))
			f.is(err, checkpoints.ErrConflict)
			f.same(again, first)
			f.noToken()
			f.start("other")
		},
		"a final run frees the key": func(f *fixture) {
			old := f.final("k")
			if again := f.start("k"); again.ID == old.ID {
				f.Fatal("the final run came back")
			}
		},
		"a trigger starts one run for ever": func(f *fixture) {
			q := req("k")
			q.Trigger = "comment/1"
			first, err := f.Start(f.ctx, q)
			f.ok(err)
			_, l := f.claim(first)
			f.ok(f.End(f.ctx, l, ended))
			_, err = f.Finish(f.ctx, l, checkpoints.Failed, nil)
			f.ok(err)
			f.taken()
			q.Key = "another"
			again, err := f.Start(f.ctx, q)
			f.is(err, checkpoints.ErrConflict)
			f.same(again.ID, first.ID)
			f.noToken()
		},
		"no trigger is no trigger": func(f *fixture) {
			f.start("k1")
			f.start("k2")
		},
		"20 at once are one": func(f *fixture) {
			const n = 20
			ids := make([]string, n)
			wins := make([]bool, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					r, err := f.Start(f.ctx, req("k"))
					ids[i], wins[i] = r.ID, err == nil
				})
			}
			wg.Wait()
			won := 0
			for i := range n {
				f.same(ids[i], ids[0])
				if wins[i] {
					won++
				}
			}
			f.same(won, 1)
			f.same(len(f.taken()), 1)
		},
		"nothing is shared with the caller": func(f *fixture) {
			q := req("k")
			q.State, q.Definition, q.Actions = json.RawMessage(`{"a":1}`), []byte("def"), map[string]string{"x": "1"}
			r, err := f.Start(f.ctx, q)
			f.ok(err)
			want := f.get(r.ID)
			q.State[2], q.Definition[0], q.Actions["x"] = 'z', 'X', "2"
			r.State[2], r.Definition[0], r.Actions["x"], r.Visits["n"] = 'z', 'X', "2", 9
			f.same(f.get(r.ID), want)
		},
		"get of no run": func(f *fixture) {
			_, err := f.Get(f.ctx, "nope")
			f.is(err, checkpoints.ErrNotFound)
			_, err = f.History(f.ctx, "nope")
			f.is(err, checkpoints.ErrNotFound)
		},
	}
}
