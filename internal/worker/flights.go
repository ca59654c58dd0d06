package worker

import (
	"context"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// flights are the runs in work in this process. A run that was given up and is
// claimed again at once may have two for a moment: the older one's work is
// over, so the newer one is the one to find.
type flights struct {
	mu      sync.Mutex
	open    map[string]*flight
	drained bool
}

// flight is one claimed run. end cancels the walk, after which the phase may
// still be finished; lose cancels that as well.
type flight struct {
	run       checkpoints.Run
	end, lose context.CancelCauseFunc
}

// take registers a flight; land must be called when the work is over. A flight
// that comes after the drain ends at once.
func (f *flights) take(fl *flight) (land func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]*flight{}
	}
	f.open[fl.run.ID] = fl
	if f.drained {
		fl.end(engine.ErrShutdown)
	}
	return func() {
		f.mu.Lock()
		if f.open[fl.run.ID] == fl {
			delete(f.open, fl.run.ID)
		}
		f.mu.Unlock()
		fl.end(nil)
		fl.lose(nil)
	}
}

// end cancels a run's walk with a cause, if it is in flight here.
func (f *flights) end(runID string, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.open[runID]; ok {
		fl.end(cause)
	}
}

func (f *flights) draining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.drained
}

// Halt ends all work in flight within a stop's scope; the runs stay resumable.
func (w *Worker) Halt(scope, reason string) {
	scope = checkpoints.FoldScope(scope)
	w.flights.mu.Lock()
	defer w.flights.mu.Unlock()
	for _, fl := range w.flights.open {
		if scope == checkpoints.RepoScope(fl.run.Repo) || scope == checkpoints.IssueScope(fl.run.Repo, fl.run.Issue) {
			fl.end(engine.Halt{Reason: reason})
		}
	}
}

// Drain ends all work in flight for a shutdown and takes on no more; the runs
// are released.
func (w *Worker) Drain() {
	w.flights.mu.Lock()
	defer w.flights.mu.Unlock()
	w.flights.drained = true
	for _, fl := range w.flights.open {
		fl.end(engine.ErrShutdown)
	}
}
