// Package river delivers tokens by River, on the SQLite file in which the
// store keeps the runs: a token is inserted in the transaction that makes it
// true, and a kill at any instant loses neither.
//
// River is used for little: nothing relies on its retries, its rescue, its
// attempt numbers or unique jobs, since it doesn't fence. Leases and epochs
// of package checkpoints do; a token that is delivered twice does no harm.
//
// It must not know runs or stores. It imports internal/queue, River and its
// SQLite driver.
package river

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Options are what a queue needs. Only DB must be given.
type Options struct {
	// DB is the one write connection to the file, shared with the store. It
	// must stay open until Stop has returned.
	DB *sql.DB
	// Workers is how many tokens of runs are worked on at once; 4 when zero.
	Workers int
	// EventWorkers is the same for inbox events, which have slots of their
	// own: a stop must get through while all workers are busy. 2 when zero.
	EventWorkers int
	// Timeout is how long one token may be worked on; 24 h when zero. It is
	// finite since River never gives up a job that has no limit.
	Timeout time.Duration
	// Poll is how often the file is looked at for tokens of other processes,
	// 500 ms when zero; those of this process are noticed at once.
	Poll time.Duration
	// Logger is told of failed handlers and of River's warnings; nil drops
	// them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.EventWorkers <= 0 {
		o.EventWorkers = 2
	}
	if o.Timeout <= 0 {
		o.Timeout = 24 * time.Hour
	}
	if o.Poll <= 0 {
		o.Poll = 500 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Queue is a queue.Queue on River.
type Queue struct {
	db     *sql.DB
	wake   *wake
	client *river.Client[*sql.Tx]
	worker *worker
	logger *slog.Logger

	mu      sync.Mutex
	started bool
}

var _ queue.Queue = (*Queue)(nil)

// New migrates River's tables and returns a queue that inserts; it delivers
// after Start.
func New(ctx context.Context, o Options) (*Queue, error) {
	if o.DB == nil {
		return nil, errors.New("queue: no database given")
	}
	o = o.withDefaults()
	wake := newWake()
	driver := driver{riversqlite.New(o.DB), wake}
	quiet := slog.New(warnings{o.Logger.Handler()})
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("preparing the queue's tables: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("migrating the queue's tables: %w", err)
	}
	q := &Queue{db: o.DB, wake: wake, worker: &worker{logger: o.Logger}, logger: o.Logger}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, q.worker); err != nil {
		return nil, fmt.Errorf("preparing the queue: %w", err)
	}
	q.client, err = river.NewClient(driver, &river.Config{
		Logger:  quiet,
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			string(queue.Run):   {MaxWorkers: o.Workers},
			string(queue.Event): {MaxWorkers: o.EventWorkers},
		},
		FetchPollInterval: o.Poll,
		FetchCooldown:     min(5*time.Millisecond, o.Poll),
		JobTimeout:        o.Timeout,
		MaxAttempts:       1,
		// Tokens have no history.
		CompletedJobRetentionPeriod: time.Minute,
		CancelledJobRetentionPeriod: time.Minute,
		DiscardedJobRetentionPeriod: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the queue: %w", err)
	}
	return q, nil
}

// Enqueue inserts a token through a transaction on DB; it is delivered when
// that has committed. Its signature is sqlite.Enqueuer's.
func (q *Queue) Enqueue(ctx context.Context, tx *sql.Tx, t queue.Token) error {
	if t.Kind != queue.Run && t.Kind != queue.Event {
		return fmt.Errorf("queue: no queue for tokens of kind %q", t.Kind)
	}
	if _, err := q.client.InsertTx(ctx, tx, args{t.Kind, t.ID, t.Epoch}, &river.InsertOpts{Queue: string(t.Kind)}); err != nil {
		return fmt.Errorf("inserting a token: %w", err)
	}
	q.wake.say(t.Kind)
	return nil
}

// Start implements queue.Queue. The end of ctx doesn't stop the queue: Stop
// does. It must be the only queue that is started on the file.
func (q *Queue) Start(ctx context.Context, h queue.Handler) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.started {
		return queue.ErrStarted
	}
	// Whatever a process that is gone was working on is no token any more:
	// the sweeper has put a new one in its place, or will.
	if _, err := q.db.ExecContext(ctx, `DELETE FROM river_job WHERE state = 'running'`); err != nil {
		return fmt.Errorf("starting the queue: %w", err)
	}
	q.worker.handle = h
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting the queue: %w", err)
	}
	q.started = true
	return nil
}

// Stop implements queue.Queue. It is nil when all handlers have returned,
// cancelled or not. Before a Start it does nothing.
func (q *Queue) Stop(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.started {
		return nil
	}
	if err := q.client.Stop(ctx); err == nil {
		return nil
	}
	q.logger.WarnContext(ctx, "queue stops hard: handlers in flight are cancelled", "cause", context.Cause(ctx))
	if err := q.client.StopAndCancel(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping the queue: %w", err)
	}
	return nil
}
