package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// branchCancelled is the outcome in the record of a branch that was not
// finished because another one failed.
const branchCancelled = "cancelled"

// errSibling cuts the branches beside one that failed.
var errSibling = errors.New("another branch failed")

// fanning is one visit of a fanout. Its branches run at once, each with the
// same state, and each is stored when it ends; what becomes of the node
// follows from the stored rows alone.
type fanning struct {
	w    *walk
	node *planned
	en   entry
	rows map[string]checkpoints.BranchRecord
	// leftover is what was spent by branches that a crash has cut and that
	// nothing else tells to which it belongs.
	leftover checkpoints.Usage
	kept     map[string]visitRecord
	rests    *checkpoints.Wait // the first to go on of the branches that rest
	fatal    error
	cut      bool
}

// branchEnd is how one branch ended.
type branchEnd struct {
	node  *planned
	began time.Time
	res   result
	used  checkpoints.Usage
}

// fanOut runs the branches of a fanout that have not run yet.
func (w *walk) fanOut(ctx context.Context, node *planned, en entry) result {
	f := &fanning{w: w, node: node, en: en, kept: map[string]visitRecord{}}
	if err := f.load(ctx); err != nil {
		return result{fatal: err}
	}
	if len(f.rows) == 0 {
		if res, over := w.overspent(ctx, node); over {
			return res
		}
	}
	if f.failed() == nil {
		f.run(ctx)
	}
	switch bad := f.failed(); {
	case f.fatal != nil:
		return result{fatal: f.fatal}
	case f.cut:
		return result{cut: true}
	case bad != nil:
		if err := f.cancelRest(ctx, bad.Branch); err != nil {
			return result{fatal: err}
		}
		return result{
			outcome: flows.Failed, code: branchCode(bad.Outcome), spends: true,
			err: fmt.Errorf("branch %s: %s: %s", bad.Branch, bad.Outcome, orNone(bad.Note)),
		}
	case f.rests != nil:
		return result{park: f.rests}
	}
	good := 0
	for _, row := range f.rows {
		if row.Outcome == string(flows.OK) {
			good++
		}
	}
	return result{outcome: flows.OK, spends: true, to: node.Join, note: fmt.Sprintf("%d of %d branches ok", good, len(node.Branches))}
}

// branchCode is the word for a fanout that a branch with the given outcome has
// failed.
func branchCode(outcome string) string {
	switch flows.Outcome(outcome) {
	case flows.Budget:
		return "budget"
	case flows.Timeout:
		return string(flows.Timeout)
	case flows.OK, flows.Failed, flows.Denied, flows.Exhausted, flows.Skipped, flows.Stopped:
	}
	return ""
}

// load reads what is stored of this visit.
func (f *fanning) load(ctx context.Context) error {
	f.rows = map[string]checkpoints.BranchRecord{}
	if !f.w.resumed {
		return nil
	}
	var err error
	if f.rows, err = f.w.branchRows(f.node.ID, f.en.visit); err != nil {
		return err
	}
	spent, err := f.w.uncharged(ctx)
	if err != nil {
		return err
	}
	for _, id := range f.node.Branches {
		if row, done := f.rows[id]; done {
			spent = minus(spent, row.Usage)
			continue
		}
		v, err := f.w.loadVisit(id, f.en.visit)
		if err != nil {
			return err
		}
		if f.kept[id] = v; v.Used != nil {
			spent = minus(spent, *v.Used)
		}
	}
	f.leftover = atLeastZero(spent)
	return nil
}

// branchRows are the stored branches of one visit of a fanout.
func (w *walk) branchRows(fanout string, visit int) (map[string]checkpoints.BranchRecord, error) {
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	all, err := w.e.Store.Branches(sctx, w.run.ID)
	if err != nil {
		return nil, fmt.Errorf("reading the branches of run %s: %w", w.run.ID, err)
	}
	rows := map[string]checkpoints.BranchRecord{}
	for _, row := range all {
		if row.Fanout == fanout && row.Visit == visit {
			rows[row.Branch] = row
		}
	}
	return rows, nil
}

// failed is the first required branch, in the order of the file, that has
// failed.
func (f *fanning) failed() *checkpoints.BranchRecord {
	for _, id := range f.node.Branches {
		row, done := f.rows[id]
		if done && !f.w.plan.nodes[id].Optional && row.Outcome != string(flows.OK) && row.Outcome != branchCancelled {
			return &row
		}
	}
	return nil
}

// run runs the branches without a row, at most max_parallel at once, in the
// order of the file.
func (f *fanning) run(ctx context.Context) {
	bctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var todo []*planned
	for _, id := range f.node.Branches {
		if _, done := f.rows[id]; !done && !f.resting(id) {
			todo = append(todo, f.w.plan.nodes[id])
		}
	}
	most := f.node.MaxParallel
	if most == 0 {
		most = len(todo)
	}
	ends := make(chan branchEnd)
	for running := 0; ; {
		for running < most && len(todo) > 0 && bctx.Err() == nil {
			f.start(bctx, todo[0], ends)
			todo, running = todo[1:], running+1
		}
		if running == 0 {
			break
		}
		end := <-ends
		running--
		f.take(ctx, end)
		if f.fatal != nil || f.failed() != nil {
			cancel(errSibling)
		}
	}
	// Branches that were never begun run when the run goes on.
	f.cut = f.cut || len(todo) > 0 && ctx.Err() != nil && f.failed() == nil
}

// resting reports that a branch must not be tried again yet.
func (f *fanning) resting(id string) bool {
	again := f.kept[id].Again
	if again.IsZero() || !f.en.began.Before(again) {
		return false
	}
	f.rest(checkpoints.Wait{Node: f.node.ID, Since: f.en.began, Until: again, Why: id + " waits for its next attempt"})
	return true
}

func (f *fanning) rest(wait checkpoints.Wait) {
	wait.Node = f.node.ID
	if f.rests == nil || wait.Until.Before(f.rests.Until) {
		f.rests = &wait
	}
}

// start begins a branch in goroutines of its own.
func (f *fanning) start(ctx context.Context, node *planned, ends chan<- branchEnd) {
	w := f.w
	end := branchEnd{node: node, began: w.e.Clock.Now()}
	if w.e.Hooks.OnNode != nil {
		w.onNode(ctx, NodeEvent{Node: node.ID, Kind: node.Kind, Visit: f.en.visit, Attempt: 1, Stage: Start})
	}
	own := &hands{clock: w.e.Clock}
	a := &attempts{
		w: w, by: own, node: node, visit: f.en.visit, in: w.state.only(node.In), began: end.began,
		branch: true, kept: f.kept[node.ID], used: f.leftover,
	}
	// Whose it was is not known: it is charged once, to the first.
	f.leftover = checkpoints.Usage{}
	if a.kept.Used != nil {
		a.used = a.used.Add(*a.kept.Used)
	}
	res, over := w.overspent(ctx, node)
	if !over {
		var err error
		if a.with, err = flows.Expand(node.With, w.state.view(), w.about); err != nil {
			res, over = result{outcome: flows.Failed, code: "template", err: err}, true
		}
	}
	go func() {
		if !over {
			res = a.branchRun(ctx)
		}
		own.rest()
		end.res, end.used = res, a.used
		ends <- end
	}()
}

func (a *attempts) branchRun(ctx context.Context) result {
	if a.node.Cache != "" {
		res, hit, err := a.cached()
		switch {
		case err != nil:
			return result{fatal: err}
		case hit:
			return res
		}
	}
	return a.run(ctx)
}

// take stores what a branch came to.
func (f *fanning) take(ctx context.Context, end branchEnd) {
	switch {
	case end.res.fatal != nil:
		if f.fatal == nil {
			f.fatal = end.res.fatal
		}
		return
	case end.res.cut && (ctx.Err() != nil || f.failed() == nil):
		f.cut = true
		return
	case end.res.cut:
		return // recorded with those that were never begun
	case end.res.park != nil:
		f.rest(*end.res.park)
		return
	}
	took := f.w.e.Clock.Now().Sub(end.began)
	row := f.row(end)
	row.Began, row.Took = end.began, took
	if f.w.e.Hooks.OnNode != nil {
		f.w.onNode(ctx, NodeEvent{
			Node: row.Branch, Kind: end.node.Kind, Visit: row.Visit, Attempt: row.Attempt, Stage: End,
			Outcome: flows.Outcome(row.Outcome), Note: row.Note, Took: took, Usage: row.Usage, Err: end.res.err,
		})
	}
	f.put(ctx, row)
}

// row is a branch's record. A branch can't stop the flow and has only the
// outcomes of its fanout.
func (f *fanning) row(end branchEnd) checkpoints.BranchRecord {
	res := end.res
	row := checkpoints.BranchRecord{
		Fanout: f.node.ID, Visit: f.en.visit, Branch: end.node.ID, Attempt: max(res.attempt, 1), Usage: end.used,
	}
	switch {
	case res.stop != nil:
		res = result{outcome: flows.Failed, err: fmt.Errorf("a branch can't stop the flow, and it wants to: %s: %s", res.stop.Code, res.stop.Reason)}
	case !ordinary(res.outcome):
		res = result{outcome: flows.Failed, err: fmt.Errorf("it ended with %s%w", res.outcome, because(res.err))}
	case res.outcome == flows.OK:
		delta, err := f.w.checkedDelta(end.node, res.delta)
		if err == nil && len(delta) > 0 {
			row.Delta, err = json.Marshal(delta)
		}
		if err != nil {
			res = result{outcome: flows.Failed, err: err}
		}
	}
	row.Outcome, row.Note = string(res.outcome), f.w.note(&res)
	return row
}

// put stores a row at once, so that the branch never runs again.
func (f *fanning) put(ctx context.Context, row checkpoints.BranchRecord) {
	if lost(ctx) {
		f.cut = true
		return
	}
	sctx := f.w.storeCtx()
	defer sctx.cancel(nil)
	if err := f.w.e.Store.PutBranch(sctx, f.w.lease, row); err != nil {
		if f.fatal == nil {
			f.fatal = fmt.Errorf("storing branch %s of node %s: %w", row.Branch, f.node.ID, err)
		}
		return
	}
	f.rows[row.Branch] = row
}

// cancelRest records the branches that were not finished since one failed.
func (f *fanning) cancelRest(ctx context.Context, because string) error {
	for _, id := range f.node.Branches {
		if _, done := f.rows[id]; done {
			continue
		}
		now := f.w.e.Clock.Now()
		f.put(ctx, checkpoints.BranchRecord{
			Fanout: f.node.ID, Visit: f.en.visit, Branch: id, Outcome: branchCancelled, Attempt: 1, Began: now,
			Note: "cancelled, since branch " + because + " failed",
		})
	}
	return f.fatal
}
