package phasetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
)

// Call is what an action of a first run gets, outside of any engine: no
// limits, effects recorded in memory.
func Call(t testing.TB, state map[string]any) flows.Call {
	t.Helper()
	in, err := flows.StateOf(state)
	if err != nil {
		t.Fatal(err)
	}
	return flows.Call{
		Run: flows.RunInfo{
			ID: "run00000001", Key: Ref().String(), Lineage: "lineage000001", Repo: Repo().String(), Issue: 7, Round: 1,
			Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Node: "node", Visit: 1, Attempt: 1, Key: "run/run00000001/node/1", In: in,
		Meter: free{}, Artifacts: &memory.Artifacts{}, Effects: effects{memory.New(memory.Options{}), "run/run00000001/node/1/"},
		Beat: func(string) {}, Log: slog.New(slog.DiscardHandler),
	}
}

type effects struct {
	store  checkpoints.Effects
	prefix string
}

// Once implements flows.Effects.
func (e effects) Once(ctx context.Context, name string, find checkpoints.Find, do checkpoints.Do) (json.RawMessage, error) {
	return checkpoints.Once(ctx, e.store, e.prefix+name, find, do)
}

type free struct{}

// Reserve implements flows.Meter.
func (free) Reserve(context.Context, flows.Usage) (flows.Reservation, error) { return free{}, nil }

// Settle implements flows.Reservation.
func (free) Settle(context.Context, flows.Usage) error { return nil }

// Left implements flows.Meter.
func (free) Left() flows.Usage {
	return flows.Usage{InputTokens: -1, OutputTokens: -1, CachedTokens: -1, ToolCalls: -1, ModelCalls: -1, MicroUSD: -1}
}

// Act runs one action of a phase by name.
func Act(t testing.TB, all []flows.Action, name string, c flows.Call) (flows.Result, error) {
	t.Helper()
	for _, a := range all {
		if a.Name == name {
			return a.Run(t.Context(), c)
		}
	}
	t.Fatalf("no action is called %s", name)
	return flows.Result{}, nil
}

// Runner is a command.Runner that answers by a function.
type Runner func(ctx context.Context, s command.Spec) (command.Result, error)

// Run implements command.Runner.
func (r Runner) Run(ctx context.Context, s command.Spec) (command.Result, error) { return r(ctx, s) }

// Name implements command.Runner.
func (Runner) Name() string { return "test" }
