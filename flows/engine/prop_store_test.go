package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

var errKilled = errors.New("the process was killed here")

// killer is a store that dies at the n-th call that the engine makes of it,
// reads included, before or after the call takes effect, and stays dead. It
// remembers what it has acknowledged as completed.
type killer struct {
	engine.Store

	mu     sync.Mutex
	calls  []bool // of each call, whether it writes
	at     int    // counted from 1; 0 is never
	after  bool
	dead   bool
	commit func(runID string, rec checkpoints.NodeRecord)
	branch func(runID string, b checkpoints.BranchRecord)
}

// revive makes it the store of another process.
func (k *killer) revive(inner engine.Store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Store, k.calls, k.at, k.dead = inner, nil, 0, false
}

// call makes one call unless the process is dead, or dies here.
func (k *killer) call(writes bool, do func() error) error {
	k.mu.Lock()
	dead := k.dead
	dies := false
	if !dead {
		k.calls = append(k.calls, writes)
		dies = len(k.calls) == k.at
		k.dead = dies
	}
	k.mu.Unlock()
	switch {
	case dead, dies && !k.after:
		return errKilled
	case dies:
		_ = do()
		return errKilled
	}
	return do()
}

func killable[A any](k *killer, writes bool, do func() (A, error)) (A, error) {
	var a, none A
	err := k.call(writes, func() (err error) {
		a, err = do()
		return err
	})
	if errors.Is(err, errKilled) {
		return none, err
	}
	return a, err
}

func (k *killer) Start(ctx context.Context, r checkpoints.StartReq) (checkpoints.Run, error) {
	return killable(k, true, func() (checkpoints.Run, error) { return k.Store.Start(ctx, r) })
}

func (k *killer) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	return killable(k, false, func() (checkpoints.Run, error) { return k.Store.Get(ctx, id) })
}

func (k *killer) List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error) {
	return killable(k, false, func() ([]checkpoints.Run, error) { return k.Store.List(ctx, f) })
}

func (k *killer) IDs(ctx context.Context, f checkpoints.Filter) ([]string, error) {
	return killable(k, false, func() ([]string, error) { return k.Store.IDs(ctx, f) })
}

func (k *killer) History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error) {
	return killable(k, false, func() ([]checkpoints.NodeRecord, error) { return k.Store.History(ctx, id) })
}

func (k *killer) Branches(ctx context.Context, id string) ([]checkpoints.BranchRecord, error) {
	return killable(k, false, func() ([]checkpoints.BranchRecord, error) { return k.Store.Branches(ctx, id) })
}

func (k *killer) Deliver(ctx context.Context, id string, e checkpoints.Event) (bool, error) {
	return killable(k, true, func() (bool, error) { return k.Store.Deliver(ctx, id, e) })
}

func (k *killer) Pending(ctx context.Context, id, kind string) (checkpoints.Event, error) {
	return killable(k, false, func() (checkpoints.Event, error) { return k.Store.Pending(ctx, id, kind) })
}

func (k *killer) Commit(ctx context.Context, l checkpoints.Lease, c checkpoints.Commit) error {
	return k.call(true, func() error {
		err := k.Store.Commit(ctx, l, c)
		if err == nil && k.commit != nil {
			k.commit(l.RunID, c.Record)
		}
		return err
	})
}

func (k *killer) PutBranch(ctx context.Context, l checkpoints.Lease, b checkpoints.BranchRecord) error {
	return k.call(true, func() error {
		err := k.Store.PutBranch(ctx, l, b)
		if err == nil && k.branch != nil {
			k.branch(l.RunID, b)
		}
		return err
	})
}

func (k *killer) Park(ctx context.Context, l checkpoints.Lease, w checkpoints.Wait) error {
	return k.call(true, func() error { return k.Store.Park(ctx, l, w) })
}

func (k *killer) Halt(ctx context.Context, l checkpoints.Lease, code, reason string) error {
	return k.call(true, func() error { return k.Store.Halt(ctx, l, code, reason) })
}

func (k *killer) End(ctx context.Context, l checkpoints.Lease, e checkpoints.Ended) error {
	return k.call(true, func() error { return k.Store.End(ctx, l, e) })
}

func (k *killer) Release(ctx context.Context, l checkpoints.Lease) error {
	return k.call(true, func() error { return k.Store.Release(ctx, l) })
}

func (k *killer) Reserve(ctx context.Context, l checkpoints.Lease, node string, est checkpoints.Usage, lim checkpoints.Limits) (checkpoints.Reservation, error) {
	return killable(k, true, func() (checkpoints.Reservation, error) { return k.Store.Reserve(ctx, l, node, est, lim) })
}

func (k *killer) Settle(ctx context.Context, r checkpoints.Reservation, u checkpoints.Usage) error {
	return k.call(true, func() error { return k.Store.Settle(ctx, r, u) })
}

func (k *killer) Spent(ctx context.Context, id, repo string, issue int, since time.Time) (run, total, day checkpoints.Usage, err error) {
	err = k.call(false, func() error {
		run, total, day, err = k.Store.Spent(ctx, id, repo, issue, since)
		return err
	})
	return run, total, day, err
}

func (k *killer) Effect(ctx context.Context, key string) (json.RawMessage, error) {
	return killable(k, false, func() (json.RawMessage, error) { return k.Store.Effect(ctx, key) })
}

func (k *killer) RecordEffect(ctx context.Context, key string, v json.RawMessage) error {
	return k.call(true, func() error { return k.Store.RecordEffect(ctx, key, v) })
}

// completions notes what a store has acknowledged and complains when it is
// done again.
type completions struct {
	mu   sync.Mutex
	done map[string]bool
	bad  []string
}

func (c *completions) acknowledged(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[key] {
		c.bad = append(c.bad, fmt.Sprintf("%s was completed twice", key))
	}
	c.done[key] = true
}

func (c *completions) runs(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[key] {
		c.bad = append(c.bad, fmt.Sprintf("%s ran again after it was completed", key))
	}
}

func (c *completions) complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad
}
