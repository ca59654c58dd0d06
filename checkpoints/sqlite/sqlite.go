// Package sqlite keeps runs in one SQLite file: the embedded default, for one
// machine.
//
// One daemon at a time holds the file; beside it other processes may read, or
// write single rows (cancel, resume). All writes of a process go through one
// connection, which the queue on the same file shares, so that a token is
// inserted in the transaction that makes it true; reads have a small pool of
// their own.
//
// It must not know flows, GitHub or any queue: the token's insertion is
// injected. It imports checkpoints, internal/clock and internal/queue, the
// SQLite driver and goose.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Mode says what a process wants of the file.
type Mode int

// The modes.
const (
	// Daemon holds the file alone (ErrInUse otherwise), creates it when it is
	// missing and migrates it.
	Daemon Mode = iota
	// Shared writes beside a daemon. The file must exist and be up to date.
	Shared
	// ReadOnly reads beside a daemon; every write fails. The file must exist
	// and be up to date.
	ReadOnly
)

// Synchronous says how far a commit has gone when it returns.
type Synchronous string

// The levels.
const (
	// Full survives a loss of power.
	Full Synchronous = "FULL"
	// Normal survives the death of the process; the last commits may be lost
	// with the power. About four to ten times as fast.
	Normal Synchronous = "NORMAL"
)

// Options are what Open needs. Only Path must be given.
type Options struct {
	// Path is the file; its folder is created when missing, in mode Daemon.
	Path string
	Mode Mode
	// Clock tells the time; nil means the machine's.
	Clock clock.Clock
	// Owner names the holder to a second daemon, e.g. the daemon's name.
	Owner string
	// Synchronous is Full when empty.
	Synchronous Synchronous
	// Busy is how long a write waits for another process; 10 s when zero.
	Busy time.Duration
	// Readers is the size of the read pool; 4 when zero.
	Readers int
	// Logger is told of migrations; nil drops them.
	Logger *slog.Logger
	// OnCommit, when set, is called after each committed write transaction of
	// the store's own (not the queue's) and before the calls that it was for
	// return; n counts from 1 in this process. Meanwhile nobody writes.
	OnCommit func(n int64)
}

// Enqueuer inserts a token through the transaction that makes it true.
type Enqueuer func(ctx context.Context, tx *sql.Tx, t queue.Token) error

// Store is a checkpoints.Store on a SQLite file.
type Store struct {
	path     string
	clock    clock.Clock
	lock     *fileLock // nil but in mode Daemon
	writes   *sql.DB   // one connection
	reads    *reader
	stmts    *stmts // of writes
	numbers  numbers
	deflater deflater
	group    group
	enqueue  atomic.Pointer[Enqueuer]
	closed   atomic.Bool
	onCommit func(n int64)
	commits  atomic.Int64
}

var _ checkpoints.Store = (*Store)(nil)

// Open opens the file. Errors: ErrInUse when another daemon has it, ErrNewer
// when a newer version of the program wrote it, and a text that says what is
// wrong with the file when it is no database, damaged, or of another program.
//
// Without SetEnqueuer the tokens of a call are dropped: whoever works runs
// must set it before the first call.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if o.Path == "" {
		return nil, errors.New("opening the store: no path given")
	}
	o = o.withDefaults()
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // two names of one file have one lock
	}
	s := &Store{path: path, clock: o.Clock, onCommit: o.OnCommit}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if err := s.prepareFile(o); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	if s.writes, err = connect(path, o, o.Mode == ReadOnly, 1); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	s.stmts = newStmts(s.writes)
	reads, err := connect(path, o, true, o.Readers)
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	s.reads = newReader(reads)
	if err := migrate(ctx, s.writes, o); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, explain(err))
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Synchronous == "" {
		o.Synchronous = Full
	}
	if o.Busy == 0 {
		o.Busy = 10 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// prepareFile takes the lock and creates the file, readable by its owner
// only, or checks that it is there.
func (s *Store) prepareFile(o Options) (err error) {
	if o.Mode != Daemon {
		info, err := os.Stat(s.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%w: start the daemon once, or correct the path", fs.ErrNotExist)
		case err != nil:
			return err
		case info.IsDir():
			return errors.New("this is a folder, not a file")
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if s.lock, err = takeLock(s.path+lockSuffix, o.Owner, o.Clock.Now()); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// DB is the one write connection, for the queue on the same file. Use it in
// short transactions, and never outside one while holding one: there is no
// second connection, so that would wait for ever.
func (s *Store) DB() *sql.DB { return s.writes }

// SetEnqueuer says how tokens are inserted. It may be called while the store
// is in use and holds for transactions that begin later.
func (s *Store) SetEnqueuer(e Enqueuer) { s.enqueue.Store(&e) }

// Path is the file, absolute, with links resolved.
func (s *Store) Path() string { return s.path }

// Close closes the file and gives up the lock. Calls in flight fail. A second
// Close does nothing.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.group.close()
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.writes != nil {
		errs = append(errs, s.writes.Close())
	}
	s.group.wait() // the lock is given up when nothing is written any more
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the store %s: %w", s.path, err)
	}
	return nil
}
