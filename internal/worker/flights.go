package worker

import (
	"context"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// flights are the runs in work in this process, each with its cancel.
type flights struct {
	mu   sync.Mutex
	open map[string]flight
}

type flight struct {
	run    checkpoints.Run
	cancel context.CancelCauseFunc
}

// take registers a run; land must be called when the work is over.
func (f *flights) take(ctx context.Context, run checkpoints.Run) (_ context.Context, land func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]flight{}
	}
	f.open[run.ID] = flight{run, cancel}
	return ctx, func() {
		f.mu.Lock()
		delete(f.open, run.ID)
		f.mu.Unlock()
		cancel(nil)
	}
}

// end cancels a run's work with a cause; false when it is not in flight.
func (f *flights) end(runID string, cause error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl, ok := f.open[runID]
	if ok {
		fl.cancel(cause)
	}
	return ok
}

// Cancel ends a run's work in flight as cancelled, with its work saved.
func (w *Worker) Cancel(runID, result, reason string) bool {
	return w.flights.end(runID, engine.Cancel{Result: result, Code: "cancelled", Reason: reason})
}

// Halt ends all work in flight within a stop's scope; the runs stay resumable.
func (w *Worker) Halt(scope, reason string) {
	scope = checkpoints.FoldScope(scope)
	w.flights.mu.Lock()
	defer w.flights.mu.Unlock()
	for _, fl := range w.flights.open {
		if scope == checkpoints.RepoScope(fl.run.Repo) || scope == checkpoints.IssueScope(fl.run.Repo, fl.run.Issue) {
			fl.cancel(engine.Halt{Reason: reason})
		}
	}
}

// Drain ends all work in flight for a shutdown; the runs are released.
func (w *Worker) Drain() {
	w.flights.mu.Lock()
	defer w.flights.mu.Unlock()
	for _, fl := range w.flights.open {
		fl.cancel(engine.ErrShutdown)
	}
}
