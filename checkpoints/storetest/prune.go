package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// retentionCases are those of rows NX10 and BL24.
func retentionCases() map[string]func(*fixture) {
	prune := func(f *fixture, before time.Time, keep, want int) {
		f.Helper()
		n, err := f.Prune(f.ctx, checkpoints.Retention{Before: before, Keep: keep})
		f.ok(err)
		f.same(n, want)
	}
	return map[string]func(*fixture){
		"the newest stay whatever their age": func(f *fixture) {
			var ids []string
			for i := range 5 {
				ids = append(ids, f.final(fmt.Sprint("k", i)).ID)
				f.clk.Advance(time.Second)
			}
			prune(f, f.clk.Now(), 5, 0)
			prune(f, f.clk.Now(), 2, 3)
			left, err := f.List(f.ctx, checkpoints.Filter{})
			f.ok(err)
			f.same([]string{left[0].ID, left[1].ID}, []string{ids[4], ids[3]})
			f.same(len(left), 2)
			prune(f, f.clk.Now(), 0, 2)
		},
		"children stay with their parents": func(f *fixture) {
			parent := f.start("k")
			child := f.begin(childOf(parent, "1"))
			grandchild := f.begin(childOf(child, "2"))
			f.finish(grandchild)
			f.finish(child)
			f.clk.Advance(time.Hour)
			prune(f, f.clk.Now(), 0, 0) // the parent is open
			f.finish(parent)
			f.clk.Advance(time.Hour)
			prune(f, f.clk.Now(), 1, 0) // kept for its parent
			prune(f, f.clk.Now().Add(-time.Minute), 0, 3)
		},
		"all that hangs on a run goes with it": func(f *fixture) {
			r := f.begin(checkpoints.StartReq{
				Key: "k", Entry: "a", Flow: "f", State: []byte(`{"n":1}`), Definition: []byte("d"), DefinitionHash: "h",
			})
			_, l := f.claim(r)
			f.ok(f.Commit(f.ctx, l, step(1, "a", "b")))
			f.ok(f.PutBranch(f.ctx, l, checkpoints.BranchRecord{Fanout: "f", Branch: "b"}))
			f.ok(f.AddAudit(f.ctx, checkpoints.AuditLine{RunID: r.ID, What: "cancel"}))
			f.ok(f.Release(f.ctx, l))
			f.finish(r)
			f.clk.Advance(time.Hour)
			prune(f, f.clk.Now(), 0, 1)
			_, err := f.Branches(f.ctx, r.ID)
			f.is(err, checkpoints.ErrNotFound)
			_, err = f.Audits(f.ctx, r.ID)
			f.is(err, checkpoints.ErrNotFound)
			versions, err := f.Versions(f.ctx, "f")
			f.ok(err)
			f.same(len(versions), 1) // what ran once can be read for ever
			f.same(string(versions[0].Definition), "d")
		},
		"effects of a run go with it, those of an issue stay": func(f *fixture) {
			old := f.final("old")
			f.clk.Advance(time.Hour)
			cut := f.clk.Now()
			young := f.final("young")
			gone := []string{"run/" + old.ID + "/a/1", "run/" + old.ID + "/a/1/.visit", "run/" + old.ID + "/a/.cache/0", "shadow/run/" + old.ID + "/a/1/pull", "run/" + old.ID + "/\u00ff"}
			kept := []string{
				"/issue/acme/widgets#7/status", "shadow//issue/acme/widgets#7/status", "run/" + young.ID + "/a/1",
				"shadow/run/" + young.ID + "/a/1", "run/" + old.ID, "run/" + old.ID + "0/a/1", "run/" + old.ID + "./a/1",
			}
			for _, key := range slices.Concat(gone, kept) {
				f.ok(f.RecordEffect(f.ctx, key, nil))
			}
			prune(f, cut, 0, 1)
			for _, key := range gone {
				_, err := f.Effect(f.ctx, key)
				f.is(err, checkpoints.ErrNotFound)
			}
			for _, key := range kept {
				_, err := f.Effect(f.ctx, key)
				f.ok(err)
			}
		},
		"decided inbox rows": func(f *fixture) {
			receive := func(id, key string, want bool) {
				f.Helper()
				fresh, err := f.Receive(f.ctx, checkpoints.InboxEvent{ID: id, Key: key, Delivery: "d" + key, At: f.clk.Now().Add(-24 * time.Hour)})
				f.ok(err)
				f.same(fresh, want)
			}
			receive("old", "1", true)
			receive("pending", "2", true)
			receive("late", "3", true)
			f.ok(f.Decided(f.ctx, "old", "ignore", "x"))
			f.clk.Advance(time.Hour)
			f.ok(f.Decided(f.ctx, "late", "ignore", "x"))
			prune(f, f.clk.Now(), 0, 0)
			rows, err := f.Inbox(f.ctx, 0)
			f.ok(err)
			f.same([]string{rows[0].ID, rows[1].ID}, []string{"late", "pending"})
			f.same(len(rows), 2)
			receive("again", "3", false) // known as long as the row is kept
			receive("again", "1", true)
		},
	}
}
