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
	// Cancel is that of checkpoints.Runs.
	Cancel(ctx context.Context, id string, e checkpoints.Ended) error
}

// Forge is what finishing a phase does on the forge.
type Forge interface {
	Repository(ctx context.Context, r forge.Repo) (forge.Repository, error)
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	AddLabel(ctx context.Context, ref forge.Ref, name string) error
	RemoveLabel(ctx context.Context, ref forge.Ref, name string) error
}

// Walker walks a claimed run; *engine.Engine is one.
type Walker interface {
	Walk(ctx context.Context, run checkpoints.Run, l checkpoints.Lease) (engine.Outcome, error)
}

// Next builds the start of the next phase; handoff.Builder is one.
type Next interface {
	Next(ctx context.Context, done checkpoints.Run, phase labels.Phase) (checkpoints.StartReq, error)
}

// Reporter writes the status comment.
type Reporter interface {
	Post(ctx context.Context, run checkpoints.Run, state report.State) error
}

// Options are the parts of a Worker; all but Ended are required.
type Options struct {
	Store    Store
	Forge    Forge
	Walker   Walker
	Next     Next
	Reporter Reporter
	Names    labels.Names
	Clock    clock.Clock
	Log      *slog.Logger
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

// unreachable is how long a run parks when its issue cannot be read.
const unreachable = 30 * time.Second

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
	defer w.renew(ctx, lease, lose)()

	log := w.Log.With("run", run.ID, "issue", run.Key, "repo", run.Repo, "phase", run.Phase)
	over := true
	if run.Status != checkpoints.Ending {
		over, err = w.walk(walking, log, fl, &run, lease)
	}
	if over && err == nil {
		err = w.finish(held, log, run, lease)
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
	return func() { cancel(); group.Wait() }
}

// walk runs the flow. over means that the run is Ending and its phase must be
// finished; run is updated to what the store says.
func (w *Worker) walk(ctx context.Context, log *slog.Logger, fl *flight, run *checkpoints.Run, l checkpoints.Lease) (over bool, err error) {
	if run.Starts > maxStarts {
		ended := checkpoints.Ended{
			Result: "error", Code: "poison",
			Reason: fmt.Sprintf("the work was started %d times without completing the step %q", run.Starts-1, run.Next),
		}
		if err := w.Store.End(ctx, l, ended); err != nil {
			return false, fmt.Errorf("ending run %s: %w", run.ID, err)
		}
		run.Result, run.Code, run.Reason = ended.Result, ended.Code, ended.Reason
		return true, nil
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

// rest tells of a run that was given up for a while.
func (w *Worker) rest(ctx context.Context, log *slog.Logger, run checkpoints.Run, out engine.Outcome) error {
	if cancelled, err := w.obey(ctx, run.ID); err != nil || cancelled {
		return err
	}
	switch out.How {
	case engine.Parked:
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
	case err == nil, ctx.Err() != nil:
		return false, nil //nolint:nilerr // the walker settles what ended ctx
	case errors.Is(err, flows.ErrLabelGone):
		fl.end(engine.Cancel{Result: "cancelled", Code: "label-gone", Reason: err.Error()})
		return false, nil
	}
	log.WarnContext(ctx, "issue not readable, parking", "error", err)
	now := w.Clock.Now()
	wait := checkpoints.Wait{Node: run.Next, Since: now, Until: now.Add(unreachable), Why: "GitHub cannot be read: " + err.Error()}
	if err := w.Store.Park(ctx, l, wait); err != nil {
		return false, fmt.Errorf("parking run %s: %w", run.ID, err)
	}
	return true, nil
}

// CheckLabel reads the issue and returns ErrLabelGone, in words, when the
// phase's label is not there or the issue takes no work any more. It is the
// engine's hook before every outside effect.
func (w *Worker) CheckLabel(ctx context.Context, run checkpoints.Run) error {
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
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
	case !w.Names.Holds(issue.Labels, labels.Phase(run.Phase)):
		return fmt.Errorf("the %s label was removed: %w", w.Names.For(labels.Phase(run.Phase)), flows.ErrLabelGone)
	}
	return nil
}

// reachable tells an issue that is gone from a repository that the bot cannot
// see any more: GitHub says 404 to both.
func (w *Worker) reachable(ctx context.Context, r forge.Repo) error {
	if _, err := w.Forge.Repository(ctx, r); err != nil {
		return fmt.Errorf("reading the repository %s: %w", r, err)
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
func (w *Worker) post(ctx context.Context, log *slog.Logger, run checkpoints.Run, s report.State) {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	if err := w.Reporter.Post(ctx, run, s); err != nil {
		log.WarnContext(ctx, "status comment not written", "error", err)
	}
}

// CheckEffect is the engine's hook before every outside effect: no stop, and
// the label still there.
func (w *Worker) CheckEffect(ctx context.Context, run checkpoints.Run) error {
	on, reason, err := w.KillSwitch(ctx, run)
	if err != nil {
		return err
	}
	if on {
		return fmt.Errorf("%s: %w", reason, flows.ErrHalted)
	}
	return w.CheckLabel(ctx, run)
}
