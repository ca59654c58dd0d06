package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// The values of Audit.Snapshot, Coverage and Action.
const (
	// Frozen: this program would walk the run exactly as the one that began
	// it.
	Frozen = "frozen"
	// Drifted: the flow of the same name, or an action, is another one now.
	Drifted = "drifted"
	// Missing: there is no frozen definition.
	Missing = "missing"
	// Corrupt: what is stored contradicts itself or can't be read.
	Corrupt = "corrupt"

	// Complete: the first state and every completed node are on record.
	Complete = "complete"
	// Partial: some of it is not.
	Partial = "partial"

	// Resume: walking on is safe.
	Resume = "resume"
	// Repair: the frozen flow can be walked on, though it is not the one that
	// has its name now; a person should say so.
	Repair = "repair"
	// Rebuild: it can't be walked on as it was begun: fork it, or accept the
	// drift of its actions.
	Rebuild = "rebuild"
	// Refuse: nothing may be built on it.
	Refuse = "refuse"
)

// Audit says whether a run can be resumed, and why not. It is never "start
// anew".
type Audit struct {
	Snapshot string
	Coverage string
	Action   string
	// Reasons are sentences for people, one a finding.
	Reasons []string
}

// Audit looks at a run without changing it. live is the flow that has its
// name now, nil when there is none or it does not matter. An error means that
// the store failed.
func (e *Engine) Audit(ctx context.Context, run checkpoints.Run, live *flows.Flow) (Audit, error) {
	history, err := e.Store.History(ctx, run.ID)
	if err != nil {
		return Audit{}, fmt.Errorf("auditing run %s: %w", run.ID, err)
	}
	a := Audit{Snapshot: Frozen, Coverage: Complete, Action: Resume}
	if int64(len(history)) < run.Seq {
		a.Coverage = Partial
		a.say("%d nodes are completed, %d are on record", run.Seq, len(history))
	}
	if len(run.Initial) == 0 {
		a.Coverage = Partial
		a.say("the state at the start was not recorded: it can't be forked")
	}
	if len(run.Definition) == 0 {
		a.Snapshot, a.Action = Missing, Rebuild
		a.say("the run has no frozen definition")
		return a, nil
	}
	f := e.auditDefinition(&a, run)
	if f != nil {
		auditRows(&a, &run, f, history)
		auditLive(&a, run, live)
	}
	return a, nil
}

func (a *Audit) say(format string, args ...any) {
	a.Reasons = append(a.Reasons, fmt.Sprintf(format, args...))
}

func (a *Audit) corrupt(format string, args ...any) {
	a.Snapshot, a.Action = Corrupt, Refuse
	a.say(format, args...)
}

// auditDefinition compares the frozen definition and its actions with this
// program; nil when nothing more can be said.
func (e *Engine) auditDefinition(a *Audit, run checkpoints.Run) *flows.Flow {
	f, err := flows.Thaw(run.Definition, run.DefinitionHash, run.Actions, e.Registry)
	switch {
	case errors.Is(err, flows.ErrCorrupt):
		a.corrupt("%v", err)
		return nil
	case f == nil:
		a.Snapshot, a.Action = Drifted, Rebuild
		a.say("this program does not take the frozen definition any more: %v", err)
		return nil
	}
	now := f.Actions()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if then := run.Actions[name]; then != now[name] {
			a.Snapshot, a.Action = Drifted, Rebuild
			a.say("action %s was of version %s and is of version %s now", name, orNone(then), now[name])
		}
	}
	return f
}

// auditRows looks for contradictions between the row and its history.
func auditRows(a *Audit, run *checkpoints.Run, f *flows.Flow, history []checkpoints.NodeRecord) {
	state, err := flows.DecodeState(run.State)
	if err == nil {
		err = f.Check(state)
	}
	if err != nil {
		a.corrupt("the state does not fit the flow: %v", err)
		return
	}
	if _, ok := f.Node(run.Next); !ok && !run.Status.Final() && run.Status != checkpoints.Ending {
		a.corrupt("the run stands at %q, which is no node of the flow", run.Next)
		return
	}
	if err := consistent(run, f, history); err != nil {
		a.corrupt("%v", err)
	}
}

func auditLive(a *Audit, run checkpoints.Run, live *flows.Flow) {
	if live == nil || live.Hash() == run.DefinitionHash {
		return
	}
	a.say("the flow %s is %s now, the run has %s frozen", live.Name(), short(live.Hash()), short(run.DefinitionHash))
	if a.Snapshot == Frozen {
		a.Snapshot, a.Action = Drifted, Repair
	}
}

func short(hash string) string { return hash[:min(len(hash), 12)] }
