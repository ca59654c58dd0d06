package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

var (
	// ErrInjected is what a call of a Faulty fails with when a fault was
	// planned for it.
	ErrInjected = errors.New("storetest: injected fault")
	// ErrCrashed is what every call fails with after a planned crash.
	ErrCrashed = errors.New("storetest: the process has crashed")
)

// When says on which side of a write a fault strikes.
type When int

// The sides.
const (
	// Before means that the write doesn't happen.
	Before When = iota
	// After means that the write happens and its answer is lost.
	After
)

// Faulty wraps a store and makes chosen writes fail, for tests of what the
// caller does then. Reads are not counted. Its methods may be called
// concurrently; plan faults before the calls begin, or from the hook.
//
// A crash test opens one store, runs the code under test over
// NewFaulty(store) with CrashAt(n, …) for each n up to Writes of a run
// without faults, and then runs it again over the store itself.
type Faulty struct {
	inner checkpoints.Store

	mu      sync.Mutex
	writes  int
	faults  map[int]When
	crash   int // 0 is never
	when    When
	crashed bool
	hook    func(method string, write int)
}

var _ checkpoints.Store = (*Faulty)(nil)

// NewFaulty wraps inner; without a plan it only counts.
func NewFaulty(inner checkpoints.Store) *Faulty {
	return &Faulty{inner: inner, faults: map[int]When{}}
}

// FailAt makes the n-th write from now on, counted from 1, fail with
// ErrInjected; those around it are left alone.
func (f *Faulty) FailAt(n int, w When) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[f.writes+n] = w
}

// CrashAt makes the n-th write from now on fail with ErrCrashed, and every
// call after it, reads too, as if the process had died there.
func (f *Faulty) CrashAt(n int, w When) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crash, f.when = f.writes+n, w
}

// Hook has fn called before each call, on the caller's goroutine, with the
// method's name and the number of the write, 0 for reads. It may block.
func (f *Faulty) Hook(fn func(method string, write int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// Writes is the number of writes so far.
func (f *Faulty) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Crashed reports that a planned crash has happened.
func (f *Faulty) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

func (f *Faulty) read(method string, call func() error) error {
	f.mu.Lock()
	hook, crashed := f.hook, f.crashed
	f.mu.Unlock()
	if hook != nil {
		hook(method, 0)
	}
	if crashed {
		return fmt.Errorf("%s: %w", method, ErrCrashed)
	}
	return call()
}

func (f *Faulty) write(method string, call func() error) error {
	f.mu.Lock()
	f.writes++
	n, hook := f.writes, f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(method, n)
	}
	when, fault := f.plan(n)
	if fault != nil && when == Before {
		return fmt.Errorf("%s, write %d, before: %w", method, n, fault)
	}
	err := call()
	if fault != nil {
		return fmt.Errorf("%s, write %d, answer lost: %w", method, n, fault)
	}
	return err
}

// plan is looked at after the hook, which may have changed it.
func (f *Faulty) plan(n int) (When, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		return Before, ErrCrashed
	}
	if n == f.crash {
		f.crashed = true
		return f.when, ErrCrashed
	}
	if when, ok := f.faults[n]; ok {
		return when, ErrInjected
	}
	return Before, nil
}

// one is a call with one value, which is lost with the answer.
func one[A any](do func(string, func() error) error, method string, call func() (A, error)) (A, error) {
	var a, none A
	err := do(method, func() (err error) {
		a, err = call()
		return err
	})
	if errors.Is(err, ErrInjected) || errors.Is(err, ErrCrashed) {
		return none, err
	}
	return a, err
}

// Start implements checkpoints.Runs.
func (f *Faulty) Start(ctx context.Context, r checkpoints.StartReq) (checkpoints.Run, error) {
	return one(f.write, "Start", func() (checkpoints.Run, error) { return f.inner.Start(ctx, r) })
}

// Get implements checkpoints.Runs.
func (f *Faulty) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	return one(f.read, "Get", func() (checkpoints.Run, error) { return f.inner.Get(ctx, id) })
}

// List implements checkpoints.Runs.
func (f *Faulty) List(ctx context.Context, q checkpoints.Filter) ([]checkpoints.Run, error) {
	return one(f.read, "List", func() ([]checkpoints.Run, error) { return f.inner.List(ctx, q) })
}

// IDs implements checkpoints.Runs.
func (f *Faulty) IDs(ctx context.Context, q checkpoints.Filter) ([]string, error) {
	return one(f.read, "IDs", func() ([]string, error) { return f.inner.IDs(ctx, q) })
}

// History implements checkpoints.Runs.
func (f *Faulty) History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error) {
	return one(f.read, "History", func() ([]checkpoints.NodeRecord, error) { return f.inner.History(ctx, id) })
}

// Branches implements checkpoints.Runs.
func (f *Faulty) Branches(ctx context.Context, id string) ([]checkpoints.BranchRecord, error) {
	return one(f.read, "Branches", func() ([]checkpoints.BranchRecord, error) { return f.inner.Branches(ctx, id) })
}

// Accept implements checkpoints.Runs.
func (f *Faulty) Accept(ctx context.Context, id string, actions map[string]string, by string) error {
	return f.write("Accept", func() error { return f.inner.Accept(ctx, id, actions, by) })
}

// Versions implements checkpoints.Records.
func (f *Faulty) Versions(ctx context.Context, flow string) ([]checkpoints.FlowVersion, error) {
	return one(f.read, "Versions", func() ([]checkpoints.FlowVersion, error) { return f.inner.Versions(ctx, flow) })
}

// AddAudit implements checkpoints.Records.
func (f *Faulty) AddAudit(ctx context.Context, a checkpoints.AuditLine) error {
	return f.write("AddAudit", func() error { return f.inner.AddAudit(ctx, a) })
}

// Audits implements checkpoints.Records.
func (f *Faulty) Audits(ctx context.Context, id string) ([]checkpoints.AuditLine, error) {
	return one(f.read, "Audits", func() ([]checkpoints.AuditLine, error) { return f.inner.Audits(ctx, id) })
}

// Wake implements checkpoints.Runs.
func (f *Faulty) Wake(ctx context.Context, id string) error {
	return f.write("Wake", func() error { return f.inner.Wake(ctx, id) })
}

// Nudge implements checkpoints.Runs.
func (f *Faulty) Nudge(ctx context.Context, id string, since time.Time) error {
	return f.write("Nudge", func() error { return f.inner.Nudge(ctx, id, since) })
}

// Deliver implements checkpoints.Runs.
func (f *Faulty) Deliver(ctx context.Context, id string, e checkpoints.Event) (bool, error) {
	return one(f.write, "Deliver", func() (bool, error) { return f.inner.Deliver(ctx, id, e) })
}

// Cancel implements checkpoints.Runs.
func (f *Faulty) Cancel(ctx context.Context, id string, e checkpoints.Ended) error {
	return f.write("Cancel", func() error { return f.inner.Cancel(ctx, id, e) })
}

// Prune implements checkpoints.Runs.
func (f *Faulty) Prune(ctx context.Context, r checkpoints.Retention) (int, error) {
	return one(f.write, "Prune", func() (int, error) { return f.inner.Prune(ctx, r) })
}

// Claim implements checkpoints.Leases.
func (f *Faulty) Claim(ctx context.Context, id string, epoch int64, owner string, ttl time.Duration) (checkpoints.Run, checkpoints.Lease, error) {
	type claim struct {
		run   checkpoints.Run
		lease checkpoints.Lease
	}
	c, err := one(f.write, "Claim", func() (c claim, err error) {
		c.run, c.lease, err = f.inner.Claim(ctx, id, epoch, owner, ttl)
		return c, err
	})
	return c.run, c.lease, err
}

// Renew implements checkpoints.Leases.
func (f *Faulty) Renew(ctx context.Context, l checkpoints.Lease, ttl time.Duration) error {
	return f.write("Renew", func() error { return f.inner.Renew(ctx, l, ttl) })
}

// Release implements checkpoints.Leases.
func (f *Faulty) Release(ctx context.Context, l checkpoints.Lease) error {
	return f.write("Release", func() error { return f.inner.Release(ctx, l) })
}

// Sweep implements checkpoints.Leases.
func (f *Faulty) Sweep(ctx context.Context, age time.Duration) (int, error) {
	return one(f.write, "Sweep", func() (int, error) { return f.inner.Sweep(ctx, age) })
}

// ExpireAll implements checkpoints.Leases.
func (f *Faulty) ExpireAll(ctx context.Context) error {
	return f.write("ExpireAll", func() error { return f.inner.ExpireAll(ctx) })
}

// Commit implements checkpoints.Progress.
func (f *Faulty) Commit(ctx context.Context, l checkpoints.Lease, c checkpoints.Commit) error {
	return f.write("Commit", func() error { return f.inner.Commit(ctx, l, c) })
}

// Park implements checkpoints.Progress.
func (f *Faulty) Park(ctx context.Context, l checkpoints.Lease, w checkpoints.Wait) error {
	return f.write("Park", func() error { return f.inner.Park(ctx, l, w) })
}

// Halt implements checkpoints.Progress.
func (f *Faulty) Halt(ctx context.Context, l checkpoints.Lease, code, reason string) error {
	return f.write("Halt", func() error { return f.inner.Halt(ctx, l, code, reason) })
}

// End implements checkpoints.Progress.
func (f *Faulty) End(ctx context.Context, l checkpoints.Lease, e checkpoints.Ended) error {
	return f.write("End", func() error { return f.inner.End(ctx, l, e) })
}

// PutBranch implements checkpoints.Progress.
func (f *Faulty) PutBranch(ctx context.Context, l checkpoints.Lease, b checkpoints.BranchRecord) error {
	return f.write("PutBranch", func() error { return f.inner.PutBranch(ctx, l, b) })
}

// Finish implements checkpoints.Progress.
func (f *Faulty) Finish(ctx context.Context, l checkpoints.Lease, final checkpoints.Status, next *checkpoints.StartReq) (*checkpoints.Run, error) {
	return one(f.write, "Finish", func() (*checkpoints.Run, error) { return f.inner.Finish(ctx, l, final, next) })
}

// Pending implements checkpoints.Events.
func (f *Faulty) Pending(ctx context.Context, runID, kind string) (checkpoints.Event, error) {
	return one(f.read, "Pending", func() (checkpoints.Event, error) { return f.inner.Pending(ctx, runID, kind) })
}

// Reserve implements checkpoints.Ledger.
func (f *Faulty) Reserve(ctx context.Context, l checkpoints.Lease, node string, est checkpoints.Usage, lim checkpoints.Limits) (checkpoints.Reservation, error) {
	return one(f.write, "Reserve", func() (checkpoints.Reservation, error) { return f.inner.Reserve(ctx, l, node, est, lim) })
}

// Settle implements checkpoints.Ledger.
func (f *Faulty) Settle(ctx context.Context, r checkpoints.Reservation, used checkpoints.Usage) error {
	return f.write("Settle", func() error { return f.inner.Settle(ctx, r, used) })
}

// Spent implements checkpoints.Ledger.
func (f *Faulty) Spent(ctx context.Context, runID, repo string, issue int, since time.Time) (run, total, day checkpoints.Usage, err error) {
	u, err := one(f.read, "Spent", func() (u [3]checkpoints.Usage, err error) {
		u[0], u[1], u[2], err = f.inner.Spent(ctx, runID, repo, issue, since)
		return u, err
	})
	return u[0], u[1], u[2], err
}

// Effect implements checkpoints.Effects.
func (f *Faulty) Effect(ctx context.Context, key string) (json.RawMessage, error) {
	return one(f.read, "Effect", func() (json.RawMessage, error) { return f.inner.Effect(ctx, key) })
}

// RecordEffect implements checkpoints.Effects.
func (f *Faulty) RecordEffect(ctx context.Context, key string, value json.RawMessage) error {
	return f.write("RecordEffect", func() error { return f.inner.RecordEffect(ctx, key, value) })
}

// SetStop implements checkpoints.Stops.
func (f *Faulty) SetStop(ctx context.Context, s checkpoints.Stop) error {
	return f.write("SetStop", func() error { return f.inner.SetStop(ctx, s) })
}

// LiftStop implements checkpoints.Stops.
func (f *Faulty) LiftStop(ctx context.Context, scope string) (bool, error) {
	return one(f.write, "LiftStop", func() (bool, error) { return f.inner.LiftStop(ctx, scope) })
}

// StopFor implements checkpoints.Stops.
func (f *Faulty) StopFor(ctx context.Context, repo string, issue int) (s checkpoints.Stop, ok bool, err error) {
	s, err = one(f.read, "StopFor", func() (checkpoints.Stop, error) {
		var s checkpoints.Stop
		s, ok, err = f.inner.StopFor(ctx, repo, issue)
		return s, err
	})
	return s, ok && err == nil, err
}

// ListStops implements checkpoints.Stops.
func (f *Faulty) ListStops(ctx context.Context) ([]checkpoints.Stop, error) {
	return one(f.read, "ListStops", func() ([]checkpoints.Stop, error) { return f.inner.ListStops(ctx) })
}

// Receive implements checkpoints.Inbox.
func (f *Faulty) Receive(ctx context.Context, e checkpoints.InboxEvent) (bool, error) {
	return one(f.write, "Receive", func() (bool, error) { return f.inner.Receive(ctx, e) })
}

// Received implements checkpoints.Inbox.
func (f *Faulty) Received(ctx context.Context, id string) (checkpoints.InboxEvent, error) {
	return one(f.read, "Received", func() (checkpoints.InboxEvent, error) { return f.inner.Received(ctx, id) })
}

// Decided implements checkpoints.Inbox.
func (f *Faulty) Decided(ctx context.Context, id, decision, explanation string) error {
	return f.write("Decided", func() error { return f.inner.Decided(ctx, id, decision, explanation) })
}

// Inbox implements checkpoints.Inbox.
func (f *Faulty) Inbox(ctx context.Context, limit int) ([]checkpoints.InboxEvent, error) {
	return one(f.read, "Inbox", func() ([]checkpoints.InboxEvent, error) { return f.inner.Inbox(ctx, limit) })
}

// Cursor implements checkpoints.Inbox.
func (f *Faulty) Cursor(ctx context.Context, name string) (string, error) {
	return one(f.read, "Cursor", func() (string, error) { return f.inner.Cursor(ctx, name) })
}

// SetCursor implements checkpoints.Inbox.
func (f *Faulty) SetCursor(ctx context.Context, name, value string) error {
	return f.write("SetCursor", func() error { return f.inner.SetCursor(ctx, name, value) })
}

// Close closes the store underneath, whatever has happened.
func (f *Faulty) Close() error { return f.inner.Close() }
