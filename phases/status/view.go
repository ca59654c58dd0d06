// Package status renders the one status comment of an issue: where it stands,
// why in words, what it cost, and what to do next. Rendering is pure.
//
// It must not know how runs are stored or comments are written. It may import
// checkpoints, labels, internal/forge and phases/markdown.
package status

import (
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Marker is the comment's hidden first line, by which it is found.
const Marker = "<!-- pipelinebot:status -->"

// The states of a View. Those of a run that has not ended are the store's
// statuses; BackingOff is a Waiting run that no event can wake.
const (
	Ready      = string(checkpoints.Ready)
	Running    = string(checkpoints.Running)
	Waiting    = string(checkpoints.Waiting)
	BackingOff = "backing-off"
	Halted     = string(checkpoints.Halted)
	Ended      = "ended"
)

// View is everything that the comment says. Fields hold text as it is; Render
// makes it harmless.
type View struct {
	Ref forge.Ref
	// Phase is the current or last phase, State one of the constants above.
	Phase, State string
	// Result, Code and Reason are the run's once it has ended; Reason also
	// says why a run waits or was halted.
	Result, Code, Reason string
	// Next says what to do next; empty means that Advice says it.
	Next string
	// Cost is that of the whole issue.
	Cost checkpoints.Usage
	// Runs are the phases so far, oldest first.
	Runs  []RunView
	Links []Link
	// Labels are the names that advice speaks of; the zero value means the
	// default ones.
	Labels labels.Names
	// WaitsFor is the kind of event awaited ("approval", "answer"), Until the
	// instant at which the wait or back-off ends by itself; zero = never.
	WaitsFor string
	Until    time.Time
	// PlanHash is the hash of the plan that awaits approval.
	PlanHash string
	// Saved is the branch that holds unfinished work, if any.
	Saved string
	// RunID is the current or last run, for `pipelinebot runs show`.
	RunID string
}

// RunView is one phase's run.
type RunView struct {
	Phase string
	Round int
	// State is as in View; Result and Code are set once it has ended.
	State, Result, Code string
	Nodes               []NodeView
	Cost                checkpoints.Usage
	Took                time.Duration
}

// NodeView is one line of the checklist: a completed node, or the current one.
type NodeView struct {
	Node string
	// Outcome is the node's, "" while it runs or waits.
	Outcome string
	Note    string
	Took    time.Duration
}

// Link is something to look at.
type Link struct {
	Title, URL string
}

// StateOf is the View's state for a run.
func StateOf(r checkpoints.Run) string {
	switch {
	case r.Status == checkpoints.Waiting && r.Wait != nil && r.Wait.Event == "":
		return BackingOff
	case r.Result != "" || r.Status.Final():
		return Ended
	}
	return string(r.Status)
}

// NodesOf are the checklist's lines for a run's history. A node that was
// visited again has one line a visit.
func NodesOf(history []checkpoints.NodeRecord) []NodeView {
	out := make([]NodeView, 0, len(history))
	for _, h := range history {
		if h.Kind == "loop" || h.Kind == "sink" {
			continue // they do nothing that a reader could miss
		}
		out = append(out, NodeView{Node: h.Node, Outcome: h.Outcome, Note: h.Note, Took: h.Took})
	}
	return out
}
