package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// effects performs a node's outside writes exactly once.
type effects struct{ c *call }

// open fails when the call is over.
func (e effects) open() error {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	if e.c.closed {
		return errClosed
	}
	return nil
}

// asked adds the names of all effects that were asked for.
func (c *call) asked(names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.effects {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (c *call) ask(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.effects, name) {
		c.effects = append(c.effects, name)
	}
}

// effectKey is the key of an effect of a visit.
func effectKey(visit, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return visit + "/" + name
}

// Once implements flows.Effects.
func (e effects) Once(ctx context.Context, name string, find checkpoints.Find, do checkpoints.Do) (json.RawMessage, error) {
	key := effectKey(e.c.key, name)
	switch {
	case !e.c.node.action.Effects:
		return nil, fmt.Errorf("effect %s: the action is not registered as one with effects", key)
	case name == "" || strings.HasPrefix(name, "."):
		return nil, fmt.Errorf("effect %q: a name is needed that does not begin with a dot", name)
	}
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("effect %s: %w", key, err)
	}
	e.c.ask(name)
	if e.c.w.run.Mode == checkpoints.ModeShadow {
		return e.intend(ctx, key, find)
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
	return checkpoints.Once(ctx, watched{e.c.w, e.c.w.e.Store}, key, look, func(ctx context.Context) (json.RawMessage, error) {
		if err := ask(ctx); err != nil {
			return nil, err
		}
		return do(ctx)
	})
}

// permitted reads the stops and the label again.
func (e effects) permitted(ctx context.Context) error {
	run, open := e.c.snapshot()
	if !open {
		return errClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.c.free {
		return nil
	}
	err := e.c.w.permitted(ctx, run)
	var retry *flows.Retry
	switch {
	case errors.Is(err, flows.ErrLabelGone) || errors.Is(err, flows.ErrHalted):
		e.c.w.mu.Lock()
		defer e.c.w.mu.Unlock()
		if e.c.w.refused == nil {
			e.c.w.refused = err
		}
	case err != nil && ctx.Err() == nil && !errors.As(err, &retry):
		// Whether it may be done could not be found out: not now, then.
		return &flows.Retry{Cause: "transient", Err: err}
	}
	return err
}

// keepEffects keeps which effects a visit asked for, so that runs can be
// compared by what they did.
func (a *attempts) keepEffects(ctx context.Context) error {
	if len(a.names) == 0 {
		return nil
	}
	return a.w.keep(ctx, a.w.visitKey(a.node.ID, a.visit)+keptEffects, a.names)
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
	sctx := s.w.storeCtx()
	defer sctx.cancel(nil)
	err := s.store.RecordEffect(sctx, key, value)
	if err != nil {
		s.w.broken(err)
	}
	return err
}
