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

// Flows finds the flow of a phase, and flows by name.
type Flows interface {
	ForPhase(phase string) (*flows.Flow, error)
	Named(name string) (*flows.Flow, error)
}

// Freezer checks the input against the flow, freezes the definition and
// expands the concurrency key; *engine.Engine is one.
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

// Ask is what somebody asked for.
type Ask struct {
	Ref   forge.Ref
	Phase labels.Phase
	// Trigger names what they did.
	Trigger string
	// Flow is the flow to run in the phase, "" for the phase's own.
	Flow string
	// Shadow runs the flow beside the real ones, without any outside write.
	Shadow bool
}

// First builds the start of a phase that a person asked for. It inherits the
// state of the newest finished run of the phases before it, if there is one;
// triage starts a new pipeline.
func (b Builder) First(ctx context.Context, a Ask) (checkpoints.StartReq, error) {
	var before *checkpoints.Run
	if a.Phase != labels.Triage {
		runs, err := b.Runs.List(ctx, checkpoints.Filter{Repo: a.Ref.Repo.String(), Issue: a.Ref.Number, Limit: lookedAt})
		if err != nil {
			return checkpoints.StartReq{}, fmt.Errorf("looking for earlier runs of %s: %w", a.Ref, err)
		}
		before = predecessor(runs, a.Phase)
	}
	return b.build(ctx, a, before)
}

// lookedAt is how many runs, newest first, an earlier one is looked for in.
const lookedAt = 1000

// after begins the trigger of a phase that follows another run.
const after = "after/"

// Next builds the start of the phase that follows a run that has just ended.
// Like First it fails with ErrUnfit when trying again is of no use.
func (b Builder) Next(ctx context.Context, done checkpoints.Run, phase labels.Phase) (checkpoints.StartReq, error) {
	repo, err := forge.ParseRepo(done.Repo)
	if err != nil {
		return checkpoints.StartReq{}, fmt.Errorf("run %s: %w", done.ID, err)
	}
	ref := forge.Ref{Repo: repo, Number: done.Issue}
	return b.build(ctx, Ask{Ref: ref, Phase: phase, Trigger: after + done.ID}, &done)
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
		if r.Status == checkpoints.Done && leads && ofPipeline(r) {
			return &runs[i]
		}
	}
	return nil
}

// ofPipeline tells the runs of the issue's phases from their children and from
// shadows.
func ofPipeline(r checkpoints.Run) bool {
	return r.Parent == "" && r.Mode != checkpoints.ModeShadow
}

// shadowKey is the key of an issue's shadow run, which is open beside the real
// one.
func shadowKey(ref forge.Ref) string { return ref.String() + "/" + checkpoints.ModeShadow }

func (b Builder) build(ctx context.Context, a Ask, before *checkpoints.Run) (checkpoints.StartReq, error) {
	ref, phase := a.Ref, a.Phase
	f, err := b.flow(a)
	if err != nil {
		return checkpoints.StartReq{}, unfit(phase, ref, err)
	}
	req := checkpoints.StartReq{
		Key: ref.String(), Trigger: a.Trigger, Repo: ref.Repo.String(), Issue: ref.Number, Phase: string(phase), Round: 1,
	}
	if a.Shadow {
		req.Key, req.Mode = shadowKey(ref), checkpoints.ModeShadow
	}
	values := map[string]json.RawMessage{}
	if before != nil {
		req.Lineage = before.Lineage
		if err := json.Unmarshal(before.State, &values); err != nil {
			return checkpoints.StartReq{}, unfit(phase, ref, fmt.Errorf("reading the state of run %s: %w", before.ID, err))
		}
		// The newest round counts and not how many there are: old runs are
		// deleted one day.
		earlier, err := b.Runs.List(ctx, checkpoints.Filter{Lineage: before.Lineage, Phase: string(phase), Limit: lookedAt})
		if err != nil {
			return checkpoints.StartReq{}, fmt.Errorf("counting the rounds of %s: %w", ref, err)
		}
		if i := slices.IndexFunc(earlier, ofPipeline); i >= 0 {
			req.Round = earlier[i].Round + 1
		}
	}
	if a.Shadow {
		req.Lineage = "" // its cost and its nodes are no part of the pipeline's
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
	if a.Shadow {
		req.Concurrency, req.OnConflict = "", "" // it gets in nobody's way
	}
	return req, nil
}

// flow is the flow that is asked for. One of another phase would be walked
// under the wrong label.
func (b Builder) flow(a Ask) (*flows.Flow, error) {
	if a.Flow == "" {
		return b.Flows.ForPhase(string(a.Phase))
	}
	f, err := b.Flows.Named(a.Flow)
	if err == nil && f.Phase() != string(a.Phase) {
		err = fmt.Errorf("the flow %s is of the phase %q", a.Flow, f.Phase())
	}
	return f, err
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
