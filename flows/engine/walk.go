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

// maxPassedOver is how many events a visit may consume that are not the one it
// waits for. Each is recorded, and read again by every walk of the run.
const maxPassedOver = 1000

// walk is one walk of one claimed run. Only its own goroutine changes it, and
// never while an action works, but for what mu guards.
type walk struct {
	e     *Engine
	log   *slog.Logger
	base  context.Context //nolint:containedctx // of the walk, without its end
	plan  *plan
	flow  *flows.Flow
	run   checkpoints.Run
	lease checkpoints.Lease
	state *values
	about flows.RunInfo
	path  []string
	// watch calls the actions of nodes, hands those at the end. tries is the
	// visit at work, of node.
	watch *watch
	hands hands
	tries attempts
	node  *planned
	en    entry
	// charged is what the completed nodes cost, worked how long they took:
	// what the run has spent beyond charged is the current visit's.
	charged checkpoints.Usage
	worked  time.Duration
	// steps is how many nodes are completed. An event that is passed over
	// completes none: strangers must not use up what a run may do.
	steps int
	// passed is how many the current visit has passed over.
	passed int
	// resumed is true until the first commit: the current visit may have
	// been worked on before.
	resumed bool
	// ancestors are the limits of the runs for which this one is counted.
	ancestors map[string]checkpoints.Limit

	mu sync.Mutex
	// fatal is an error of the store seen by a meter or an effect; refused is
	// what an effect was refused with.
	fatal, refused error
	// spent is what the run has spent so far, as run.Spent is told it, which mu
	// guards as well; stale says that the store knows it better.
	spent checkpoints.Usage
	stale bool
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
	// inputHash identifies what the action was given, where that matters.
	inputHash string
	// to is where a fanout leads.
	to string
	// report is a merge's list of lines for the state.
	report []string
	// park, without again, leaves the node uncompleted; again consumes an
	// event and waits on.
	park  *checkpoints.Wait
	again bool
	// cut says that the context ended before the node did.
	cut bool
	// fatal ends the walk: the store failed.
	fatal error
	// dead ends the run in an error, whatever edges there are.
	dead bool
	// spends says that the visit may have cost something.
	spends bool
}

// Walk advances a claimed run until it parks, ends, or is stopped. It returns
// an error only when the store failed, after which nothing more was done.
//
// Cancel ctx with a cause to end it: Halt, Cancel, ErrShutdown, or
// checkpoints.ErrLost; any other cause counts as ErrShutdown.
func (e *Engine) Walk(ctx context.Context, run checkpoints.Run, lease checkpoints.Lease) (Outcome, error) {
	if run.Status.Final() || run.Status == checkpoints.Ending {
		return Outcome{How: Ended, Result: run.Result, Code: run.Code, Reason: run.Reason, Run: run}, nil
	}
	w := &walk{
		e: e, run: run, lease: lease, resumed: true, base: context.WithoutCancel(ctx),
		log: e.Log.With("run", run.ID, "issue", run.Issue, "repo", run.Repo),
	}
	w.hands.clock = e.Clock
	defer w.hands.rest()
	w.about = infoOf(&w.run)
	switch code, err := w.thaw(); {
	case code == "drift":
		return w.drifted(ctx, err)
	case err != nil:
		return w.fail(ctx, code, err)
	}
	// Nodes are counted as they complete: room for all of them at once.
	w.run.Visits = make(map[string]int, len(w.plan.nodes))
	w.path = make([]string, 0, len(w.plan.nodes))
	maps.Copy(w.run.Visits, run.Visits)
	switch err := w.remember(ctx); {
	case errors.Is(err, flows.ErrCorrupt):
		return w.fail(ctx, "corrupt", err)
	case err != nil:
		return w.storeFailed(err)
	}
	w.watch = newWatch(w)
	go w.watch.walk(ctx, w.step)
	return w.watch.keep(ctx)
}

// thaw reads the frozen flow and the state; code says what is wrong.
func (w *walk) thaw() (code string, err error) {
	state, unreadable := flows.DecodeState(w.run.State)
	if w.plan, code, err = w.e.thaw(&w.run); err != nil {
		return code, err
	}
	w.flow = w.plan.flow
	if unreadable != nil {
		return "corrupt", fmt.Errorf("%w: %w", flows.ErrCorrupt, unreadable)
	}
	w.state = newValues(w.flow, state)
	if err := w.flow.Check(state); err != nil {
		return "corrupt", fmt.Errorf("%w: the stored state: %w", flows.ErrCorrupt, err)
	}
	if n := w.plan.nodes[w.run.Next]; n == nil {
		return "corrupt", fmt.Errorf("%w: the run stands at %q, which is no node of flow %s", flows.ErrCorrupt, w.run.Next, w.flow.Name())
	}
	return "", nil
}

// remember sums up what the completed nodes cost, and refuses a run that does
// not stand where its history has led it.
func (w *walk) remember(ctx context.Context) error {
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	var history []checkpoints.NodeRecord
	var err error
	if begun := w.run.Seq > 0; begun {
		if history, err = w.e.Store.History(sctx, w.run.ID); err != nil {
			return fmt.Errorf("reading the history of run %s: %w", w.run.ID, err)
		}
	}
	for i := range history {
		w.charged = w.charged.Add(history[i].Usage)
		w.worked += history[i].Took
		w.count(passedOver(&history[i]))
	}
	if err := consistent(&w.run, w.flow, history); err != nil {
		return err
	}
	if w.ancestors, err = w.e.ancestorLimits(sctx, &w.run); err != nil {
		return err
	}
	if w.run.Seq == 0 {
		w.spent = w.run.Spent // as the claim has read it
		return nil
	}
	w.stale = true
	_, err = w.spentNow(ctx)
	return err
}

// count takes a record into account.
func (w *walk) count(passedOver bool) {
	if passedOver {
		w.passed++
		return
	}
	w.steps, w.passed = w.steps+1, 0
}

// storeCtx is for calls of the store, which must not be cut half-way by the
// end of the walk.
func (w *walk) storeCtx() *lazy { return &lazy{parent: w.base, timeout: storeTime} }

// step enters the next node and settles what came of it. It returns how the
// walk has ended, or nil.
func (w *walk) step(ctx context.Context) *walked {
	if end := w.stopped(ctx); end != nil {
		return end
	}
	node := w.plan.nodes[w.run.Next]
	if node == nil {
		return ended(w.fail(ctx, "corrupt", fmt.Errorf("%w: no node %q", flows.ErrCorrupt, w.run.Next)))
	}
	if most := w.plan.limits.MaxSteps; w.steps >= most && node.Kind != flows.Sink {
		return ended(w.fail(ctx, "max-steps", fmt.Errorf("%w: %d nodes are completed, before node %s", ErrMaxSteps, most, node.ID)))
	}
	en := entry{visit: w.run.Visits[node.ID] + 1, began: w.e.Clock.Now()}
	if w.e.Hooks.OnNode != nil {
		w.onNode(ctx, NodeEvent{Node: node.ID, Kind: node.Kind, Visit: en.visit, Attempt: 1, Stage: Start})
	}
	if node.Kind == flows.Sink {
		return ended(w.sink(ctx, node, en))
	}
	w.node, w.en = node, en
	res := w.enter(ctx, node, en)
	en.took = w.e.Clock.Now().Sub(en.began)
	return w.settle(ctx, node, en, &res)
}

// entry is one visit of a node, as it was measured.
type entry struct {
	visit int
	began time.Time
	took  time.Duration
}

// stopped ends the walk if something wants it to end before the next node.
func (w *walk) stopped(ctx context.Context) *walked {
	if ctx.Err() != nil {
		return ended(w.interrupted(ctx))
	}
	if w.e.draining() {
		return ended(w.release(ctx))
	}
	on, reason := w.killed(ctx)
	switch {
	case ctx.Err() != nil:
		return ended(w.interrupted(ctx))
	case on:
		return ended(w.halt(ctx, "halted", reason))
	}
	return nil
}

// enter runs a node by its kind. A kind is added here, and in the loader's
// table.
func (w *walk) enter(ctx context.Context, node *planned, en entry) result {
	switch node.Kind {
	case flows.Step, flows.Gate:
		return w.act(ctx, node, en)
	case flows.Loop:
		return loop(node, en.visit)
	case flows.Wait:
		return w.wait(ctx, node, en)
	case flows.Approval:
		return w.approval(ctx, node, en)
	case flows.Command:
		return w.command(ctx, node, en)
	case flows.Fanout:
		return w.fanOut(ctx, node, en)
	case flows.Merge:
		return w.merge(ctx, node, en)
	case flows.Subflow:
		return w.subflow(ctx, node, en)
	case flows.Sink:
	}
	return result{outcome: flows.Failed, code: "corrupt", err: fmt.Errorf("%w: nodes of kind %s can't be run", flows.ErrCorrupt, node.Kind)}
}

// loop lets its edge back be taken max times.
func loop(node *planned, visit int) result {
	if visit > node.Max {
		return result{outcome: flows.Exhausted, note: "went back as often as it may, " + times(node.Max)}
	}
	return result{outcome: flows.OK, note: fmt.Sprintf("going back, %d of %d", visit, node.Max)}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// settle turns a result into a commit, or into the end of the walk.
func (w *walk) settle(ctx context.Context, node *planned, en entry, res *result) *walked {
	w.mu.Lock()
	fatal, refused := w.fatal, w.refused
	w.mu.Unlock()
	if res.fatal == nil {
		res.fatal = fatal
	}
	leaves := res.fatal != nil || res.cut || refused != nil || res.park != nil && !res.again
	if leaves {
		w.state.rollback()
	}
	switch {
	case !leaves:
	case res.fatal != nil:
		return ended(w.storeFailed(res.fatal))
	case res.cut:
		return ended(w.interrupted(ctx))
	case errors.Is(refused, flows.ErrLabelGone):
		return ended(w.cancel(ctx, Cancel{Code: "label-gone", Reason: refused.Error()}))
	case refused != nil:
		return ended(w.halt(ctx, "halted", refused.Error()))
	default:
		return ended(w.park(ctx, *res.park))
	}
	if res.again && w.passed >= maxPassedOver {
		w.state.rollback()
		return ended(w.fail(ctx, "max-events", fmt.Errorf("%w: %d were passed over, before %s", ErrMaxEvents, w.passed, res.eventKey)))
	}
	if res.dead {
		w.state.rollback()
		return ended(w.fail(ctx, res.code, res.err))
	}
	var used checkpoints.Usage
	if res.spends {
		var err error
		if used, err = w.uncharged(ctx); err != nil {
			return ended(w.storeFailed(err))
		}
	}
	w.apply(node, res)
	if w.e.Hooks.OnNode != nil {
		w.onNode(ctx, NodeEvent{
			Node: node.ID, Kind: node.Kind, Visit: en.visit, Attempt: max(res.attempt, 1), Stage: End,
			Outcome: res.outcome, Note: w.note(res), Took: en.took, Usage: used, Err: res.err,
		})
	}
	r, code, err := w.route(node, res, en.visit)
	if err != nil {
		w.state.rollback()
		w.log.WarnContext(ctx, "flow ends in an error", "node", node.ID, "code", code, "error", err)
		return ended(w.fail(ctx, code, err))
	}
	if w.e.Hooks.OnRoute != nil {
		w.onRoute(ctx, RouteEvent{From: node.ID, To: r.to, Outcome: res.outcome, Guards: r.guards})
	}
	return w.commit(ctx, node, en, res, r, used)
}

func (w *walk) commit(ctx context.Context, node *planned, en entry, res *result, r route, used checkpoints.Usage) *walked {
	if lost(ctx) {
		w.state.rollback()
		return ended(w.interrupted(ctx))
	}
	if !res.again {
		w.run.Visits[node.ID] = en.visit
	}
	c := checkpoints.Commit{
		Record: checkpoints.NodeRecord{
			Seq: w.run.Seq + 1, Node: node.ID, Kind: string(node.Kind), Visit: en.visit, Attempt: max(res.attempt, 1),
			Outcome: string(res.outcome), Next: r.to, Delta: w.state.seal(), Guards: r.guards, EventKey: res.eventKey,
			Note: w.note(res), InputHash: res.inputHash, Usage: used, Began: en.began, Took: en.took,
		},
		Seq: w.run.Seq + 1, Next: r.to, State: w.state.json(false), Visits: w.run.Visits, EventKey: res.eventKey, Park: res.park,
	}
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.Commit(sctx, w.lease, c); err != nil {
		if !res.again {
			w.unvisit(node.ID, en.visit)
		}
		return ended(w.storeFailed(fmt.Errorf("committing node %s of run %s: %w", node.ID, w.run.ID, err)))
	}
	w.charged, w.worked, w.resumed = w.charged.Add(used), w.worked+en.took, false
	w.run.Seq, w.run.Node, w.run.Next, w.run.State = c.Seq, node.ID, c.Next, c.State
	w.run.Starts, w.run.Wait = 0, res.park
	w.count(res.again)
	w.path = append(w.path, node.ID)
	if res.park != nil {
		w.run.Status = checkpoints.Waiting
		return ended(w.over(Outcome{How: Parked, Reason: res.park.Why}), nil)
	}
	return nil
}

func (w *walk) note(res *result) string {
	note := res.note
	switch {
	case res.stop != nil && note == "":
		note = res.stop.Reason
	case res.err != nil && note == "":
		note = res.err.Error()
	}
	if note == "" {
		return ""
	}
	return clip(w.e.Scrub(note), 500)
}

// clip shortens a text for people.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}
