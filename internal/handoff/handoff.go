// Package handoff builds the start of a phase run: which flow, which round,
// which pipeline it belongs to, and what it inherits from the run before it.
//
// It must not know GitHub or how runs are worked on. It may import
// checkpoints, flows, flows/engine, labels and internal/forge.
package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Flows finds the flow of a phase.
type Flows interface {
	ForPhase(phase string) (*flows.Flow, error)
}

// Freezer checks the input against the flow and freezes the definition;
// *engine.Engine is one.
type Freezer interface {
	Freeze(f *flows.Flow, r checkpoints.StartReq, input flows.State) (checkpoints.StartReq, error)
}

// History reads earlier runs.
type History interface {
	List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error)
}

// ErrUnfit means that a phase cannot start however often it is tried: there is
// no flow for it, or what is known does not fit the flow's input. Other errors
// are of the store and may pass.
var ErrUnfit = errors.New("cannot start")

func unfit(phase labels.Phase, ref forge.Ref, cause error) error {
	return fmt.Errorf("the %s phase of %s %w: %w", phase, ref, ErrUnfit, cause)
}

// Builder builds starts.
type Builder struct {
	Flows   Flows
	Freezer Freezer
	Runs    History
}

// First builds the start of a phase that a person asked for; trigger names what
// they did. It inherits the
// state of the newest finished run of the phases before it, if there is one;
// triage starts a new pipeline.
func (b Builder) First(ctx context.Context, ref forge.Ref, phase labels.Phase, trigger string) (checkpoints.StartReq, error) {
	var before *checkpoints.Run
	if phase != labels.Triage {
		runs, err := b.Runs.List(ctx, checkpoints.Filter{Repo: ref.Repo.String(), Issue: ref.Number})
		if err != nil {
			return checkpoints.StartReq{}, fmt.Errorf("looking for earlier runs of %s: %w", ref, err)
		}
		before = predecessor(runs, phase)
	}
	return b.build(ctx, ref, phase, trigger, before)
}

// Next builds the start of the phase that follows a run that has just ended.
// Like First it fails with ErrUnfit when trying again is of no use.
func (b Builder) Next(ctx context.Context, done checkpoints.Run, phase labels.Phase) (checkpoints.StartReq, error) {
	repo, err := forge.ParseRepo(done.Repo)
	if err != nil {
		return checkpoints.StartReq{}, fmt.Errorf("run %s: %w", done.ID, err)
	}
	ref := forge.Ref{Repo: repo, Number: done.Issue}
	return b.build(ctx, ref, phase, "after/"+done.ID, &done)
}

// predecessor is the newest final run of a phase that leads to the given one;
// runs are newest first.
func predecessor(runs []checkpoints.Run, phase labels.Phase) *checkpoints.Run {
	order := labels.Phases()
	limit := slices.Index(order, phase)
	for i, r := range runs {
		at := slices.Index(order, labels.Phase(r.Phase))
		// A review leads back to implement with its findings.
		leads := at >= 0 && at < limit || (phase == labels.Implement && r.Phase == string(labels.Review))
		if r.Status == checkpoints.Done && leads {
			return &runs[i]
		}
	}
	return nil
}

func (b Builder) build(ctx context.Context, ref forge.Ref, phase labels.Phase, trigger string, before *checkpoints.Run) (checkpoints.StartReq, error) {
	f, err := b.Flows.ForPhase(string(phase))
	if err != nil {
		return checkpoints.StartReq{}, unfit(phase, ref, err)
	}
	req := checkpoints.StartReq{
		Key: ref.String(), Trigger: trigger, Repo: ref.Repo.String(), Issue: ref.Number, Phase: string(phase), Round: 1,
	}
	values := map[string]json.RawMessage{}
	if before != nil {
		req.Lineage = before.Lineage
		if err := json.Unmarshal(before.State, &values); err != nil {
			return checkpoints.StartReq{}, unfit(phase, ref, fmt.Errorf("reading the state of run %s: %w", before.ID, err))
		}
		// The newest round counts and not how many there are: old runs are
		// deleted one day.
		newest, err := b.Runs.List(ctx, checkpoints.Filter{Lineage: before.Lineage, Phase: string(phase), Limit: 1})
		if err != nil {
			return checkpoints.StartReq{}, fmt.Errorf("counting the rounds of %s: %w", ref, err)
		}
		if len(newest) > 0 {
			req.Round = newest[0].Round + 1
		}
	}
	for key, v := range map[string]any{"issue": ref.Number, "repo": ref.Repo.String(), "round": req.Round} {
		encoded, err := json.Marshal(v)
		if err != nil {
			return checkpoints.StartReq{}, fmt.Errorf("encoding %s: %w", key, err)
		}
		values[key] = encoded
	}
	req, err = b.Freezer.Freeze(f, req, flows.NewState(values).Only(inputs(f)))
	if err != nil {
		return checkpoints.StartReq{}, unfit(phase, ref, err)
	}
	return req, nil
}

// inputs are the state keys that a flow takes at its start.
func inputs(f *flows.Flow) []string {
	var keys []string
	for _, field := range f.Fields() {
		if field.Input || field.Required {
			keys = append(keys, field.Key)
		}
	}
	return keys
}
