package river

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/riverqueue/river"

	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// args are a token as the arguments of a job.
type args struct {
	Of    queue.Kind `json:"kind"`
	ID    string     `json:"id"`
	Epoch int64      `json:"epoch"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "token" }

// worker hands jobs to the handler. Whatever becomes of it the job is done:
// it is the sweeper that brings back lost work.
type worker struct {
	river.WorkerDefaults[args]
	handle queue.Handler // set before the client starts
	logger *slog.Logger
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	t := queue.Token{Kind: job.Args.Of, ID: job.Args.ID, Epoch: job.Args.Epoch}
	if err := w.call(ctx, t); err != nil {
		w.logger.ErrorContext(ctx, "token dropped: its handler failed",
			"kind", t.Kind, "id", t.ID, "epoch", t.Epoch, "error", err)
	}
	return nil
}

// call turns a panic of the handler into an error.
func (w *worker) call(ctx context.Context, t queue.Token) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return w.handle(ctx, t)
}
