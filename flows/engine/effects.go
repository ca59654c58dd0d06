package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// effects performs a node's outside writes exactly once.
type effects struct {
	w       *walk
	run     checkpoints.Run
	key     string
	allowed bool // the action declares effects
	free    bool // no label check: the run is ending anyhow

	mu     sync.Mutex
	closed bool
}

func (e *effects) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

func (e *effects) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	return nil
}

// Once implements flows.Effects.
func (e *effects) Once(ctx context.Context, name string, find checkpoints.Find, do checkpoints.Do) (json.RawMessage, error) {
	key := e.key + "/" + name
	if strings.HasPrefix(name, "/") {
		key = name
	}
	switch {
	case !e.allowed:
		return nil, fmt.Errorf("effect %s: the action is not registered as one with effects", key)
	case name == "" || strings.HasPrefix(name, "."):
		return nil, fmt.Errorf("effect %q: a name is needed that does not begin with a dot", name)
	}
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("effect %s: %w", key, err)
	}
	asked := false
	ask := func(ctx context.Context) error {
		if asked {
			return e.open()
		}
		asked = true
		return e.permitted(ctx)
	}
	var look checkpoints.Find
	if find != nil {
		look = func(ctx context.Context) (json.RawMessage, bool, error) {
			if err := ask(ctx); err != nil {
				return nil, false, err
			}
			return find(ctx)
		}
	}
	return checkpoints.Once(ctx, watched{e.w, e.w.e.Store}, key, look, func(ctx context.Context) (json.RawMessage, error) {
		if err := ask(ctx); err != nil {
			return nil, err
		}
		return do(ctx)
	})
}

// permitted reads the stops and the label again.
func (e *effects) permitted(ctx context.Context) error {
	if err := e.open(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.free {
		return nil
	}
	err := e.w.permitted(ctx, e.run)
	var retry *flows.Retry
	switch {
	case errors.Is(err, flows.ErrLabelGone) || errors.Is(err, flows.ErrHalted):
		e.w.mu.Lock()
		defer e.w.mu.Unlock()
		if e.w.refused == nil {
			e.w.refused = err
		}
	case err != nil && ctx.Err() == nil && !errors.As(err, &retry):
		// Whether it may be done could not be found out: not now, then.
		return &flows.Retry{Cause: "transient", Err: err}
	}
	return err
}

// watched notes errors of the store, which an action must not be able to
// hide, and records what was done even if ctx has ended meanwhile.
type watched struct {
	w     *walk
	store checkpoints.Effects
}

// Effect implements checkpoints.Effects.
func (s watched) Effect(ctx context.Context, key string) (json.RawMessage, error) {
	v, err := s.store.Effect(ctx, key)
	if err != nil && ctx.Err() == nil && !errors.Is(err, checkpoints.ErrNotFound) {
		s.w.broken(err)
	}
	return v, err
}

// RecordEffect implements checkpoints.Effects.
func (s watched) RecordEffect(ctx context.Context, key string, value json.RawMessage) error {
	sctx, done := s.w.storeCtx(ctx)
	defer done()
	err := s.store.RecordEffect(sctx, key, value)
	if err != nil {
		s.w.broken(err)
	}
	return err
}
