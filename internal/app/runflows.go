package app

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// runFlows answers what the dispatcher asks about the flows of runs.
type runFlows struct {
	reg    *flows.Registry
	engine *engine.Engine
}

// Approvers implements dispatch.Flows.
func (r runFlows) Approvers(run checkpoints.Run) ([]string, bool) {
	if run.Wait == nil || run.Wait.Event != flows.ApprovalEvent {
		return nil, false
	}
	f, err := flows.Thaw(run.Definition, run.DefinitionHash, run.Actions, r.reg)
	if f == nil || err != nil && !errors.Is(err, flows.ErrDrift) {
		return nil, false
	}
	n, ok := f.Node(run.Wait.Node)
	return n.Approvers, ok && n.Kind == flows.Approval
}

// Fork implements dispatch.Flows.
func (r runFlows) Fork(ctx context.Context, source checkpoints.Run, node string, edits map[string]json.RawMessage) (checkpoints.StartReq, error) {
	return r.engine.Fork(ctx, source, node, edits)
}

// warnInvalid tells of flows of the user's own that cannot run, and of what in
// the others may not have been meant. None of them keeps the daemon from
// starting but those of the phases.
func (a *App) warnInvalid(c *flows.Catalog) {
	for _, e := range c.List() {
		if len(e.Problems) > 0 {
			a.Log.Warn("flow is invalid and cannot run", "flow", e.Name, "file", e.File, "source", e.Source, "problems", e.Problems.Error())
		}
		for _, note := range e.Notes {
			a.Log.Warn("flow may not be meant so", "flow", e.Name, "file", e.File, "note", note)
		}
	}
}

// Named implements handoff.Flows.
func (p phaseFlows) Named(name string) (*flows.Flow, error) { return p.catalog.Get(name) }
