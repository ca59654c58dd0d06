package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// storeTime bounds one call of the store.
const storeTime = 30 * time.Second

// walk is one walk of one claimed run.
type walk struct {
	e     *Engine
	log   *slog.Logger
	flow  *flows.Flow
	run   checkpoints.Run
	lease checkpoints.Lease
	state flows.State
	path  []string
	// charged is what the completed nodes cost, worked how long they took:
	// what the run has spent beyond charged is the current visit's.
	charged checkpoints.Usage
	worked  time.Duration
	// resumed is true until the first commit: the current visit may have
	// been worked on before.
	resumed bool

	mu sync.Mutex
	// fatal is an error of the store seen by a meter or an effect; asked is
	// what an effect was refused with.
	fatal, refused error
}

// result is what came of entering a node.
type result struct {
	outcome flows.Outcome
	delta   map[string]any
	stop    *flows.Stop
	note    string
	// err is why the outcome is not ok; code a word for it.
	err  error
	code string

	attempt  int
	eventKey string
	// park, without again, leaves the node uncompleted; again consumes an
	// event and waits on.
	park  *checkpoints.Wait
	again bool
	// cut says that the context ended before the node did.
	cut bool
	// fatal ends the walk: the store failed.
	fatal error
	// spends says that the visit's cost must be looked up.
	spends bool
}

// Walk advances a claimed run until it parks, ends, or is stopped. It returns
// an error only when the store failed, after which nothing more was done.
//
// Cancel ctx with a cause to end it: Halt, Cancel, ErrShutdown, or
// checkpoints.ErrLost; any other cause counts as ErrShutdown.
func (e *Engine) Walk(ctx context.Context, run checkpoints.Run, lease checkpoints.Lease) (Outcome, error) {
	w := &walk{
		e: e, run: run, lease: lease, resumed: true,
		log: e.Log.With("run", run.ID, "issue", run.Issue, "repo", run.Repo),
	}
	w.run.Visits = maps.Clone(run.Visits)
	if run.Status.Final() || run.Status == checkpoints.Ending {
		return Outcome{How: Ended, Result: run.Result, Code: run.Code, Reason: run.Reason, Run: run}, nil
	}
	if code, err := w.thaw(); err != nil {
		return w.fail(ctx, code, err)
	}
	switch err := w.remember(ctx); {
	case errors.Is(err, flows.ErrCorrupt):
		return w.fail(ctx, "corrupt", err)
	case err != nil:
		return w.storeFailed(err)
	}
	for {
		if out, done, err := w.step(ctx); done || err != nil {
			return out, err
		}
	}
}

// thaw reads the frozen flow and the state; code says what is wrong.
func (w *walk) thaw() (code string, err error) {
	state, unreadable := flows.DecodeState(w.run.State)
	w.state = state
	w.flow, err = flows.Thaw(w.run.Definition, w.run.DefinitionHash, w.run.Actions, w.e.Registry)
	switch {
	case errors.Is(err, flows.ErrDrift):
		return "drift", err
	case err != nil:
		return "corrupt", err
	case unreadable != nil:
		return "corrupt", fmt.Errorf("%w: %w", flows.ErrCorrupt, unreadable)
	}
	if err := w.flow.Check(w.state); err != nil {
		return "corrupt", fmt.Errorf("%w: the stored state: %w", flows.ErrCorrupt, err)
	}
	if _, ok := w.flow.Node(w.run.Next); !ok {
		return "corrupt", fmt.Errorf("%w: the run stands at %q, which is no node of flow %s", flows.ErrCorrupt, w.run.Next, w.flow.Name())
	}
	return "", nil
}

// remember sums up what the completed nodes cost, and refuses a run that does
// not stand where its history has led it.
func (w *walk) remember(ctx context.Context) error {
	sctx, done := w.storeCtx(ctx)
	defer done()
	history, err := w.e.Store.History(sctx, w.run.ID)
	if err != nil {
		return fmt.Errorf("reading the history of run %s: %w", w.run.ID, err)
	}
	for _, rec := range history {
		w.charged = w.charged.Add(rec.Usage)
		w.worked += rec.Took
	}
	return consistent(w.run, w.state, history)
}

// storeCtx is for calls of the store, which must not be cut half-way by the
// end of the walk.
func (w *walk) storeCtx(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTime)
}

// step enters the next node and settles what came of it.
func (w *walk) step(ctx context.Context) (Outcome, bool, error) {
	if out, stopped, err := w.stopped(ctx); stopped {
		return out, true, err
	}
	node, ok := w.flow.Node(w.run.Next)
	if !ok {
		return w.done(w.fail(ctx, "corrupt", fmt.Errorf("%w: no node %q", flows.ErrCorrupt, w.run.Next)))
	}
	if most := int64(w.flow.Limits().MaxSteps); w.run.Seq >= most && node.Kind != flows.Sink {
		return w.done(w.fail(ctx, "max-steps", fmt.Errorf("%w: %d nodes are completed, before node %s", ErrMaxSteps, most, node.ID)))
	}
	visit := w.run.Visits[node.ID] + 1
	began := w.e.Clock.Now()
	w.onNode(ctx, NodeEvent{Node: node.ID, Kind: node.Kind, Visit: visit, Attempt: 1, Stage: Start})
	if node.Kind == flows.Sink {
		return w.done(w.sink(ctx, node, visit, began))
	}
	res := w.enter(ctx, node, visit)
	took := w.e.Clock.Now().Sub(began)
	return w.settle(ctx, node, entry{visit, began, took}, res)
}

// entry is one visit of a node, as it was measured.
type entry struct {
	visit int
	began time.Time
	took  time.Duration
}

// stopped ends the walk if something wants it to end before the next node.
func (w *walk) stopped(ctx context.Context) (Outcome, bool, error) {
	if ctx.Err() != nil {
		return w.done(w.interrupted(ctx))
	}
	if w.e.draining() {
		return w.done(w.release(ctx))
	}
	on, reason := w.killed(ctx)
	switch {
	case ctx.Err() != nil:
		return w.done(w.interrupted(ctx))
	case on:
		return w.done(w.halt(ctx, reason))
	}
	return Outcome{}, false, nil
}

func (w *walk) done(out Outcome, err error) (Outcome, bool, error) { return out, true, err }

// enter runs a node by its kind. A kind is added here, and in the loader's
// table.
func (w *walk) enter(ctx context.Context, node flows.Node, visit int) result {
	switch node.Kind {
	case flows.Step, flows.Gate:
		return w.act(ctx, node, visit)
	case flows.Loop:
		return loop(node, visit)
	case flows.Wait:
		return w.wait(ctx, node, visit)
	case flows.Sink, flows.Approval, flows.Command, flows.Merge, flows.Subflow, flows.Fanout:
	}
	return result{outcome: flows.Failed, code: "corrupt", err: fmt.Errorf("%w: nodes of kind %s can't be run", flows.ErrCorrupt, node.Kind)}
}

// loop lets its edge back be taken max times.
func loop(node flows.Node, visit int) result {
	if visit > node.Max {
		return result{outcome: flows.Exhausted, note: fmt.Sprintf("went back %d times already", node.Max)}
	}
	return result{outcome: flows.OK, note: fmt.Sprintf("going back, %d of %d", visit, node.Max)}
}

// settle turns a result into a commit, or into the end of the walk.
func (w *walk) settle(ctx context.Context, node flows.Node, en entry, res result) (Outcome, bool, error) {
	w.mu.Lock()
	fatal, refused := w.fatal, w.refused
	w.mu.Unlock()
	switch {
	case res.fatal != nil:
		return w.done(w.storeFailed(res.fatal))
	case fatal != nil:
		return w.done(w.storeFailed(fatal))
	case res.cut:
		return w.done(w.interrupted(ctx))
	case errors.Is(refused, flows.ErrLabelGone):
		return w.done(w.cancel(ctx, Cancel{Code: "label-gone", Reason: refused.Error()}))
	case errors.Is(refused, flows.ErrHalted):
		return w.done(w.halt(ctx, refused.Error()))
	case res.park != nil && !res.again:
		return w.done(w.park(ctx, *res.park))
	}
	used, err := w.cost(ctx, res)
	if err != nil {
		return w.done(w.storeFailed(err))
	}
	next, res := w.apply(node, res)
	w.onNode(ctx, NodeEvent{
		Node: node.ID, Kind: node.Kind, Visit: en.visit, Attempt: max(res.attempt, 1), Stage: End,
		Outcome: res.outcome, Note: w.note(res), Took: en.took, Usage: used, Err: res.err,
	})
	r, code, err := w.route(node, res, next, en.visit)
	if err != nil {
		w.log.WarnContext(ctx, "flow ends in an error", "node", node.ID, "code", code, "error", err)
		return w.done(w.fail(ctx, code, err))
	}
	w.onRoute(ctx, RouteEvent{From: node.ID, To: r.to, Outcome: res.outcome, Guards: r.guards})
	return w.commit(ctx, node, en, res, r, used)
}

// cost is what the current visit has cost, in this walk and before.
func (w *walk) cost(ctx context.Context, res result) (checkpoints.Usage, error) {
	if !res.spends {
		return checkpoints.Usage{}, nil
	}
	return w.uncharged(ctx)
}

func (w *walk) commit(ctx context.Context, node flows.Node, en entry, res result, r route, used checkpoints.Usage) (Outcome, bool, error) {
	visits := maps.Clone(w.run.Visits)
	if visits == nil {
		visits = map[string]int{}
	}
	if !res.again {
		visits[node.ID] = en.visit
	}
	raw, err := r.state.MarshalJSON()
	if err != nil {
		return w.done(w.fail(ctx, "invalid-state", fmt.Errorf("encoding the state after %s: %w", node.ID, err)))
	}
	delta, err := changed(w.state, r.state)
	if err != nil {
		return w.done(w.fail(ctx, "invalid-state", err))
	}
	c := checkpoints.Commit{
		Record: checkpoints.NodeRecord{
			Seq: w.run.Seq + 1, Node: node.ID, Kind: string(node.Kind), Visit: en.visit, Attempt: max(res.attempt, 1),
			Outcome: string(res.outcome), Next: r.to, Delta: delta, Guards: r.guards, EventKey: res.eventKey,
			Note: w.note(res), Usage: used, Began: en.began, Took: en.took,
		},
		Seq: w.run.Seq + 1, Next: r.to, State: raw, Visits: visits, EventKey: res.eventKey, Park: res.park,
	}
	sctx, done := w.storeCtx(ctx)
	defer done()
	if lost(ctx) {
		return w.done(w.interrupted(ctx))
	}
	if err := w.e.Store.Commit(sctx, w.lease, c); err != nil {
		return w.done(w.storeFailed(fmt.Errorf("committing node %s of run %s: %w", node.ID, w.run.ID, err)))
	}
	w.charged, w.worked, w.resumed = w.charged.Add(used), w.worked+en.took, false
	w.run.Seq, w.run.Node, w.run.Next, w.run.State, w.run.Visits = c.Seq, node.ID, c.Next, raw, visits
	w.run.Starts, w.run.Wait, w.state = 0, res.park, r.state
	w.path = append(w.path, node.ID)
	if res.park != nil {
		w.run.Status = checkpoints.Waiting
		return Outcome{How: Parked, Reason: res.park.Why, Path: w.path, Run: w.run}, true, nil
	}
	return Outcome{}, false, nil
}

func (w *walk) note(res result) string {
	note := res.note
	switch {
	case res.stop != nil && note == "":
		note = res.stop.Reason
	case res.err != nil && note == "":
		note = res.err.Error()
	}
	return clip(w.e.Scrub(note), 500)
}

// clip shortens a text for people.
func clip(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}
