package storetest

import (
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// childOf is a request for a child whose spend is counted.
func childOf(parent checkpoints.Run, key string) checkpoints.StartReq {
	q := req(parent.ID + ":sub:" + key)
	q.Parent, q.ParentNode, q.Counted = parent.ID, "spawn", true
	return q
}

// childCases are those of rows BL2, BL4, BL6 and BL29.
func childCases() map[string]func(*fixture) {
	return map[string]func(*fixture){
		"every field is kept": func(f *fixture) {
			parent := f.start("k")
			q := childOf(parent, "1")
			q.Close, q.Forked, q.ForkedAt, q.Mode = checkpoints.CloseAbandon, "other", "build", checkpoints.ModeShadow
			got := f.begin(q)
			f.same([]any{got.Parent, got.ParentNode, got.Close, got.Counted, got.Forked, got.ForkedAt, got.Mode},
				[]any{parent.ID, "spawn", "abandon", true, "other", "build", "shadow"})
			f.same(f.get(got.ID), got)
			f.same(f.begin(childOf(parent, "2")).Close, checkpoints.CloseCancel)
			f.same(f.get(parent.ID), parent)
			list, err := f.List(f.ctx, checkpoints.Filter{Parent: parent.ID})
			f.ok(err)
			f.same(len(list), 2)
		},
		"spawning again gives the same run, for ever": func(f *fixture) {
			parent, other := f.start("k"), f.start("k2")
			child := f.begin(childOf(parent, "1"))
			got, err := f.Start(f.ctx, childOf(parent, "1"))
			f.is(err, checkpoints.ErrConflict)
			f.same(got, child)
			f.finish(child)
			got, err = f.Start(f.ctx, childOf(parent, "1"))
			f.is(err, checkpoints.ErrConflict)
			f.same([]any{got.ID, got.Status}, []any{child.ID, checkpoints.Done})
			f.noToken()
			f.begin(childOf(other, "1"))
			f.begin(childOf(parent, "2"))
		},
		"what is not known is refused": func(f *fixture) {
			parent := f.start("k")
			for _, change := range []func(*checkpoints.StartReq){
				func(q *checkpoints.StartReq) { q.Close = "perhaps" },
				func(q *checkpoints.StartReq) { q.Mode = "perhaps" },
				func(q *checkpoints.StartReq) { q.Parent = "" },
			} {
				q := childOf(parent, "1")
				change(&q)
				_, err := f.Start(f.ctx, q)
				f.refused(err)
			}
		},
		"a child doesn't wait for who spawned it": func(f *fixture) {
			parent := f.begin(of("k", checkpoints.OnConflictReject))
			behind := f.begin(of("k2", checkpoints.OnConflictQueue))
			q := childOf(parent, "1")
			q.Concurrency, q.OnConflict = "c", checkpoints.OnConflictReject
			child := f.begin(q)
			f.same(child.Status, checkpoints.Ready)
			q = childOf(child, "2")
			q.Concurrency = "c"
			grandchild := f.begin(q)
			f.same(grandchild.Status, checkpoints.Ready)
			f.same(f.finish(parent), []queue.Token(nil)) // they have the key still
			f.same(f.finish(grandchild), []queue.Token(nil))
			f.same(f.finish(child), []queue.Token{{Kind: queue.Run, ID: behind.ID, Epoch: behind.Epoch}})
		},
		"counted spend counts upwards": func(f *fixture) {
			parent, pl := f.claimed("k")
			spend := func(l checkpoints.Lease, money int64, lim checkpoints.Limits) error {
				_, err := f.Reserve(f.ctx, l, "a", checkpoints.Usage{MicroUSD: money}, lim)
				return err
			}
			lease := func(q checkpoints.StartReq) checkpoints.Lease {
				_, l := f.claim(f.begin(q))
				return l
			}
			cl := lease(childOf(parent, "1"))
			free := childOf(parent, "free")
			free.Counted = false
			fl := lease(free)
			gl := lease(childOf(checkpoints.Run{ID: cl.RunID}, "2"))
			f.ok(spend(pl, 1, checkpoints.Limits{}))
			f.ok(spend(cl, 10, checkpoints.Limits{}))
			f.ok(spend(gl, 100, checkpoints.Limits{}))
			f.ok(spend(fl, 1000, checkpoints.Limits{}))
			for l, want := range map[checkpoints.Lease]int64{pl: 111, cl: 110, gl: 100, fl: 1000} {
				f.same(f.get(l.RunID).Spent.MicroUSD, want)
				run, issue, _, err := f.Spent(f.ctx, l.RunID, "acme/widgets", 7, time.Time{})
				f.ok(err)
				f.same([]int64{run.MicroUSD, issue.MicroUSD}, []int64{want, 1111})
			}
			limit := int64(120)
			lim := checkpoints.Limits{Run: checkpoints.Limit{MicroUSD: &limit}}
			f.is(spend(pl, 10, lim), checkpoints.ErrBudget)
			f.ok(spend(pl, 1, lim))
			above := checkpoints.Limits{Ancestors: map[string]checkpoints.Limit{pl.RunID: {MicroUSD: &limit}}}
			err := spend(gl, 10, above)
			f.is(err, checkpoints.ErrBudget)
			if !strings.Contains(err.Error(), pl.RunID) {
				f.Errorf("%v doesn't name the ancestor", err)
			}
			f.ok(spend(gl, 8, above))
			f.is(spend(gl, 1, above), checkpoints.ErrBudget)
			f.ok(spend(fl, 10, above)) // not counted, not bound
		},
	}
}

// recordCases are those of rows AR31 and CN25.
func recordCases() map[string]func(*fixture) {
	branch := func(name string, visit int) checkpoints.BranchRecord {
		return checkpoints.BranchRecord{Fanout: "explore", Visit: visit, Branch: name, Outcome: "ok"}
	}
	return map[string]func(*fixture){
		"branches": func(f *fixture) {
			r, l := f.claimed("k")
			whole := branch("b", 1)
			whole.Delta, whole.Note, whole.Attempt = []byte(`{"x":1}`), "found it", 2
			whole.Usage = checkpoints.Usage{InputTokens: 5, MicroUSD: 7}
			whole.Began, whole.Took = f.clk.Now(), time.Second
			f.ok(f.PutBranch(f.ctx, l, whole))
			f.ok(f.PutBranch(f.ctx, l, branch("a", 1)))
			again := branch("b", 1)
			again.Outcome = "failed"
			f.ok(f.PutBranch(f.ctx, l, again))
			f.ok(f.PutBranch(f.ctx, l, branch("b", 2)))
			whole.Delta[2] = 'z'
			got, err := f.Branches(f.ctx, r.ID)
			f.ok(err)
			whole.Delta[2] = 'x'
			f.same(got[0], whole)
			f.same(got[1:], []checkpoints.BranchRecord{branch("a", 1), branch("b", 2)})
			f.refused(f.PutBranch(f.ctx, l, checkpoints.BranchRecord{}))
			f.same(f.get(r.ID), r) // the position is untouched
		},
		"branches need the lease": func(f *fixture) {
			r, l := f.claimed("k")
			f.ok(f.Release(f.ctx, l))
			f.is(f.PutBranch(f.ctx, l, branch("a", 1)), checkpoints.ErrLost)
			got, err := f.Branches(f.ctx, r.ID)
			f.ok(err)
			f.same(len(got), 0)
			_, err = f.Branches(f.ctx, "nope")
			f.is(err, checkpoints.ErrNotFound)
		},
		"the state at the start stays": func(f *fixture) {
			q := req("k")
			q.State = []byte(`{"n":1}`)
			_, l := f.claim(f.begin(q))
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			got := f.get(l.RunID)
			f.same([]string{string(got.Initial), string(got.State)}, []string{`{"n":1}`, `{"at":"a"}`})
		},
		"versions of a flow": func(f *fixture) {
			define := func(key, flow, hash string) {
				q := req(key)
				q.Flow, q.DefinitionHash, q.Definition = flow, hash, []byte("flow "+hash)
				f.begin(q)
				f.clk.Advance(time.Second)
			}
			at := f.clk.Now()
			define("k1", "plan", "h1")
			define("k2", "plan", "h2")
			define("k3", "plan", "h1")
			define("k4", "other", "h2")
			f.begin(req("k5")) // without a definition
			got, err := f.Versions(f.ctx, "plan")
			f.ok(err)
			f.same(got, []checkpoints.FlowVersion{
				{Flow: "plan", N: 1, Hash: "h1", Definition: []byte("flow h1"), First: at},
				{Flow: "plan", N: 2, Hash: "h2", Definition: []byte("flow h2"), First: at.Add(time.Second)},
			})
			got, err = f.Versions(f.ctx, "nope")
			f.ok(err)
			f.same(len(got), 0)
		},
		"what operators did": func(f *fixture) {
			r := f.start("k")
			f.ok(f.AddAudit(f.ctx, checkpoints.AuditLine{RunID: r.ID, By: "ann", What: "approve", Why: "looks right"}))
			earlier := f.clk.Now().Add(-time.Hour)
			f.ok(f.AddAudit(f.ctx, checkpoints.AuditLine{RunID: r.ID, By: "bob", What: "cancel", At: earlier}))
			got, err := f.Audits(f.ctx, r.ID)
			f.ok(err)
			f.same(got, []checkpoints.AuditLine{
				{RunID: r.ID, By: "ann", What: "approve", Why: "looks right", At: f.clk.Now()},
				{RunID: r.ID, By: "bob", What: "cancel", At: earlier},
			})
			f.is(f.AddAudit(f.ctx, checkpoints.AuditLine{RunID: "nope"}), checkpoints.ErrNotFound)
			_, err = f.Audits(f.ctx, "nope")
			f.is(err, checkpoints.ErrNotFound)
		},
		"accepted drift": func(f *fixture) {
			q := req("k")
			q.Definition, q.Actions = []byte("flow"), map[string]string{"a": "1", "b": "1", "same": "1"}
			r := f.begin(q)
			to := map[string]string{"a": "2", "c": "1", "same": "1"}
			f.ok(f.Accept(f.ctx, r.ID, to, "ann"))
			to["a"] = "9"
			want := r
			want.Actions = map[string]string{"a": "2", "c": "1", "same": "1"}
			f.same(f.get(r.ID), want)
			lines, err := f.Audits(f.ctx, r.ID)
			f.ok(err)
			f.same(lines, []checkpoints.AuditLine{{
				RunID: r.ID, By: "ann", What: checkpoints.AcceptDrift, Why: "a: 1 → 2, b: 1 → none, c: none → 1", At: f.clk.Now(),
			}})
			f.claim(r)
			f.is(f.Accept(f.ctx, r.ID, nil, "ann"), checkpoints.ErrBusy)
			f.is(f.Accept(f.ctx, f.final("k2").ID, nil, "ann"), checkpoints.ErrConflict)
			f.is(f.Accept(f.ctx, "nope", nil, "ann"), checkpoints.ErrNotFound)
		},
	}
}
