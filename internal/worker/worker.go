// Package worker works on runs: it claims one, keeps its lease, lets the
// engine walk its flow under the kill switch, and finishes the phase: labels,
// status comment, hand-off.
//
// It must not know HTTP, go-github or what the phases do. It may import
// checkpoints, flows, flows/engine, labels,
// internal/{clock,forge,handoff,queue,report}.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/queue"
	"github.com/pipelinebot/pipelinebot/internal/report"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Store is the part of the store that it uses.
type Store interface {
	checkpoints.Leases
	checkpoints.Progress
	checkpoints.Effects
	checkpoints.Stops
	// Get, IDs, List and Cancel are those of checkpoints.Runs.
	Get(ctx context.Context, id string) (checkpoints.Run, error)
	IDs(ctx context.Context, f checkpoints.Filter) ([]string, error)
	List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error)
	Cancel(ctx context.Context, id string, e checkpoints.Ended) error
}

// Forge is what finishing a phase does on the forge.
type Forge interface {
	Repository(ctx context.Context, r forge.Repo) (forge.Repository, error)
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	AddLabel(ctx context.Context, ref forge.Ref, name string) error
	RemoveLabel(ctx context.Context, ref forge.Ref, name string) error
	Permission(ctx context.Context, r forge.Repo, login string) (forge.Permission, error)
}

// Breaker stops what leads nowhere; *breaker.Breaker is one.
type Breaker interface {
	// Check says why a phase must not start once more, "" when it may.
	Check(ctx context.Context, ref forge.Ref, phase labels.Phase) (why string, err error)
	// Trip stops the issue and says so once for each source.
	Trip(ctx context.Context, ref forge.Ref, source, why string) error
}

// Walker walks a claimed run and tells a parent of its child's end;
// *engine.Engine is one.
type Walker interface {
	Walk(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error)
	ChildEnded(ctx context.Context, child checkpoints.Run) error
}

// Next builds the start of the next phase; handoff.Builder is one.
type Next interface {
	Next(ctx context.Context, done checkpoints.Run, phase labels.Phase) (checkpoints.StartReq, error)
}

// Reporter writes the status comment.
type Reporter interface {
	Post(ctx context.Context, run checkpoints.Run, state report.State) error
}

// Options are the parts of a Worker; all but Ended and Breaker are required.
type Options struct {
	Store    Store
	Forge    Forge
	Walker   Walker
	Next     Next
	Reporter Reporter
	Names    labels.Names
	// Policy is what a person must be allowed for work on their word.
	Policy  labels.Policy
	Breaker Breaker
	Clock   clock.Clock
	Log     *slog.Logger
	// Owner names this process in leases.
	Owner string
	// Lease is how long a claim lasts without renewal.
	Lease time.Duration
	// Ended is told of every finished run; may be nil.
	Ended func(run checkpoints.Run, status checkpoints.Status)
}

// maxStarts is how often a run is claimed without completing a node before it
// counts as poison and goes to a person.
const maxStarts = 6

// finallyStarts is how often the `finally` actions of a poisoned run are tried.
const finallyStarts = 2

// postTime bounds the writing of a status comment.
const postTime = 30 * time.Second

// Worker handles run tokens.
type Worker struct {
	Options
	flights flights
}

// New returns a worker.
func New(o Options) *Worker { return &Worker{Options: o} }

// Handle works on one run until it parks, ends, halts or is lost.
func (w *Worker) Handle(ctx context.Context, tok queue.Token) error {
	if w.flights.draining() {
		return nil // the sweep of the next process brings it back
	}
	run, lease, err := w.Store.Claim(ctx, tok.ID, tok.Epoch, w.Owner, w.Lease)
	if errors.Is(err, checkpoints.ErrBusy) || errors.Is(err, checkpoints.ErrNotFound) {
		return nil // an old token
	}
	if err != nil {
		return fmt.Errorf("claiming run %s: %w", tok.ID, err)
	}
	held, lose := context.WithCancelCause(ctx)
	walking, end := context.WithCancelCause(held)
	fl := &flight{run, end, lose}
	defer w.flights.take(fl)()
	stopRenewing := w.renew(ctx, lease, lose)
	defer stopRenewing()

	log := w.Log.With("run", run.ID, "issue", fmt.Sprintf("%s#%d", run.Repo, run.Issue), "repo", run.Repo, "phase", run.Phase)
	over := true
	if run.Status != checkpoints.Ending {
		over, err = w.walk(walking, log, fl, &run, lease)
	}
	if over && err == nil {
		if err = w.finish(held, log, run, lease); err != nil && held.Err() == nil {
			stopRenewing()
			err = w.retryLater(ctx, run, lease, err)
		}
	}
	if errors.Is(err, checkpoints.ErrLost) || errors.Is(context.Cause(held), checkpoints.ErrLost) {
		return nil // another owner has it; ours is over
	}
	return err
}

// renew keeps the lease until the returned function is called; a lost lease
// ends the flight. It goes on when ctx ends: the work is then being saved.
func (w *Worker) renew(ctx context.Context, l checkpoints.Lease, lose context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() {
		for clock.Sleep(ctx, w.Clock, w.Lease/3) == nil {
			if err := w.Store.Renew(ctx, l, w.Lease); errors.Is(err, checkpoints.ErrLost) {
				lose(checkpoints.ErrLost)
				return
			} else if err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "lease not renewed", "run", l.RunID, "error", err)
			}
		}
	})
	return func() { cancel(); group.Wait() } // harmless when called again
}

// retryLater keeps the lease of a run whose phase could not be finished for as
// long as the forge asked, or longer each time, so that nobody tries before:
// the sweep finds it when the lease is over.
func (w *Worker) retryLater(ctx context.Context, run checkpoints.Run, l checkpoints.Lease, cause error) error {
	var f *forge.Error
	if !errors.As(cause, &f) {
		return cause // a fault of the store, or of ours
	}
	rest := pause(w.Lease, run.Starts, cause)
	if err := w.Store.Renew(context.WithoutCancel(ctx), l, rest); err != nil {
		return fmt.Errorf("keeping the lease of run %s: %w", run.ID, errors.Join(err, cause))
	}
	return fmt.Errorf("%w; the next try is in %s", cause, rest)
}

// walk runs the flow. over means that the run is Ending and its phase must be
// finished; run is updated to what the store says.
func (w *Worker) walk(ctx context.Context, log *slog.Logger, fl *flight, run *checkpoints.Run, l checkpoints.Lease) (over bool, err error) {
	if over, err := w.poisoned(ctx, fl, run, l); err != nil || over {
		return over, err
	}
	if parked, err := w.admit(ctx, log, fl, *run, l); err != nil || parked {
		return false, err
	}
	if run.Seq == 0 && ctx.Err() == nil {
		w.post(ctx, log, *run, report.Working)
	}
	out, err := w.Walker.Walk(ctx, *run, l)
	if err != nil {
		return false, fmt.Errorf("walking run %s: %w", run.ID, err)
	}
	if out.Run.ID != "" {
		*run = out.Run
	}
	switch out.How {
	case engine.Parked, engine.Halted, engine.Released:
		return false, w.rest(context.WithoutCancel(ctx), log, *run, out)
	case engine.Lost:
		return false, nil
	}
	run.Result, run.Code, run.Reason = out.Result, out.Code, out.Reason
	return true, nil
}

// poisoned gives up a run that was claimed again and again without completing
// a node. The walker ends it, so that its `finally` actions run; a run that
// still comes back is ended without them, since they may be what kills us.
func (w *Worker) poisoned(ctx context.Context, fl *flight, run *checkpoints.Run, l checkpoints.Lease) (over bool, err error) {
	if run.Starts <= maxStarts {
		return false, nil
	}
	ended := checkpoints.Ended{
		Result: "error", Code: "poison",
		Reason: fmt.Sprintf("the work was started %d times without completing the step %q", maxStarts, run.Next),
	}
	if run.Starts <= maxStarts+finallyStarts {
		fl.end(engine.Cancel(ended))
		return false, nil
	}
	return true, w.giveUp(ctx, run, l, ended)
}

// giveUp ends a run without the walker.
func (w *Worker) giveUp(ctx context.Context, run *checkpoints.Run, l checkpoints.Lease, ended checkpoints.Ended) error {
	if err := w.Store.End(context.WithoutCancel(ctx), l, ended); err != nil {
		return fmt.Errorf("ending run %s: %w", run.ID, err)
	}
	run.Status, run.Result, run.Code, run.Reason = checkpoints.Ending, ended.Result, ended.Code, ended.Reason
	return nil
}

// rest tells of a run that was given up for a while.
func (w *Worker) rest(ctx context.Context, log *slog.Logger, run checkpoints.Run, out engine.Outcome) error {
	if cancelled, err := w.obey(ctx, run.ID); err != nil || cancelled {
		return err
	}
	switch out.How {
	case engine.Parked:
		if handoff.IsLook(run) && run.Wait != nil && run.Wait.Event != "" {
			return w.endLook(ctx, run)
		}
		w.post(ctx, log, run, report.Waiting)
	case engine.Halted:
		run.Code, run.Reason = out.Code, out.Reason
		w.post(ctx, log, run, report.Halted)
	}
	return nil
}

// admit reads the issue again before any work: a label that is gone cancels,
// and an issue that cannot be read parks the run. What else ends ctx is the
// walker's to settle.
func (w *Worker) admit(ctx context.Context, log *slog.Logger, fl *flight, run checkpoints.Run, l checkpoints.Lease) (parked bool, err error) {
	e, asked, err := w.asked(ctx, run.ID)
	switch {
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // the walker settles what ended ctx
	case err != nil:
		return false, err
	case asked:
		fl.end(engine.Cancel(e))
		return false, nil
	}
	err = w.CheckLabel(ctx, run)
	switch {
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // the walker settles what ended ctx
	case err == nil:
		return false, w.found(ctx, run.ID)
	case errors.Is(err, flows.ErrLabelGone):
		fl.end(engine.Cancel{Result: "cancelled", Code: "label-gone", Reason: err.Error()})
		return false, nil
	}
	rest := pause(firstPause, 1, err)
	if errors.As(err, new(repositoryGone)) {
		a, gone, err := w.missing(ctx, run.ID)
		if err != nil {
			return false, err
		}
		if gone {
			fl.end(engine.Cancel(goneEnd(run, a)))
			return false, nil
		}
		rest = pause(firstPause, a.Tries, err)
	}
	log.WarnContext(ctx, "issue not readable, parking", "error", err, "wait", rest.String())
	now := w.Clock.Now()
	wait := checkpoints.Wait{Node: run.Next, Since: now, Until: now.Add(rest), Why: "GitHub cannot be read: " + err.Error()}
	if err := w.Store.Park(ctx, l, wait); err != nil {
		return false, fmt.Errorf("parking run %s: %w", run.ID, err)
	}
	return true, nil
}

// CheckLabel reads the issue and returns ErrLabelGone, in words, when the
// phase's label is not there or the issue takes no work any more. It is the
// engine's hook before every outside effect.
func (w *Worker) CheckLabel(ctx context.Context, run checkpoints.Run) error {
	if run.Mode == checkpoints.ModeShadow {
		return nil // it changes nothing, whatever the labels say
	}
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	phase, free, err := w.rules(ctx, run)
	if err != nil {
		return err
	}
	issue, err := w.Forge.Issue(ctx, ref)
	switch {
	case forge.IsKind(err, forge.KindNotFound):
		if err := w.reachable(ctx, ref.Repo); err != nil {
			return err
		}
		return fmt.Errorf("the issue is gone: %w", flows.ErrLabelGone)
	case err != nil:
		return fmt.Errorf("reading the labels of %s: %w", ref, err)
	case !issue.Open:
		return fmt.Errorf("the issue was closed: %w", flows.ErrLabelGone)
	case issue.Locked:
		return fmt.Errorf("the issue was locked: %w", flows.ErrLabelGone)
	case !free && !w.Names.Holds(issue.Labels, phase):
		return fmt.Errorf("the %s label was removed: %w", w.Names.For(phase), flows.ErrLabelGone)
	}
	return nil
}

// KillSwitch is the engine's hook before every node.
func (w *Worker) KillSwitch(ctx context.Context, run checkpoints.Run) (on bool, reason string, err error) {
	s, on, err := w.Store.StopFor(ctx, run.Repo, run.Issue)
	if err != nil {
		return true, "", fmt.Errorf("reading the stops: %w", err)
	}
	return on, s.Reason, nil
}

// post writes the status comment. The comment informs; a failure to write it
// never changes the run, and the next post catches up.
//
// A child has no comment of its own: the root run's tells of it. A shadow run
// is told of nowhere on the forge.
func (w *Worker) post(ctx context.Context, log *slog.Logger, run checkpoints.Run, s report.State) {
	if run.Mode == checkpoints.ModeShadow && (!handoff.IsLook(run) || s != report.Ended) {
		return
	}
	if run.Parent != "" {
		w.postRoot(ctx, log, run)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	if err := w.Reporter.Post(ctx, run, s); err != nil {
		log.WarnContext(ctx, "status comment not written", "error", err)
	}
}

// CheckEffect is the engine's hook before every outside effect: no stop, the
// label still there, and the person on whose word it works still allowed to.
func (w *Worker) CheckEffect(ctx context.Context, run checkpoints.Run) error {
	on, reason, err := w.KillSwitch(ctx, run)
	if err != nil {
		return err
	}
	if on {
		return fmt.Errorf("%s: %w", reason, flows.ErrHalted)
	}
	if err := w.CheckLabel(ctx, run); err != nil {
		return err
	}
	return w.checkVoucher(ctx, run)
}
