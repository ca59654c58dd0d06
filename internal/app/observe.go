package app

import (
	"context"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// Observer is told what happens. Calls come from several goroutines; they must
// return at once.
type Observer interface {
	// Node is told of a node's start and end.
	Node(ev NodeEvent)
	// RunEnded is told of a phase's end.
	RunEnded(run checkpoints.Run, status checkpoints.Status)
}

// NodeEvent is one node's start or end.
type NodeEvent struct {
	Run     string            `json:"run"`
	Issue   string            `json:"issue"`
	Phase   string            `json:"phase"`
	Node    string            `json:"node"`
	Kind    string            `json:"kind"`
	Visit   int               `json:"visit"`
	Stage   string            `json:"stage"` // start, end, retry, beat
	Outcome string            `json:"outcome,omitempty"`
	Note    string            `json:"note,omitempty"`
	Took    time.Duration     `json:"took_ns,omitempty"`
	Usage   checkpoints.Usage `json:"usage,omitzero"`
}

// hooks let the engine ask the worker before each node and effect. The worker
// walks with the engine, so that there is none yet.
func (a *App) hooks() engine.Hooks {
	return engine.Hooks{
		KillSwitch: func(ctx context.Context, run checkpoints.Run) (on bool, reason string, err error) {
			return a.worker.KillSwitch(ctx, run)
		},
		BeforeEffect: func(ctx context.Context, run checkpoints.Run) error { return a.worker.CheckEffect(ctx, run) },
		OnNode:       a.onNode,
	}
}

func (a *App) onNode(ctx context.Context, ev engine.NodeEvent) {
	switch ev.Stage {
	case engine.Retry:
		a.Log.InfoContext(ctx, "node will be tried again", "run", ev.Run.ID, "issue", ev.Run.Key, "node", ev.Node, "attempt", ev.Attempt, "why", ev.Note)
	case engine.End:
		a.Log.InfoContext(ctx, "node done", "run", ev.Run.ID, "issue", ev.Run.Key, "node", ev.Node, "attempt", ev.Attempt,
			"outcome", string(ev.Outcome), "took", ev.Took, "note", ev.Note)
	case engine.Start, engine.Beat:
	}
	if (ev.Stage == engine.Start || ev.Stage == engine.End) && ev.Run.Parent == "" && ev.Run.Mode == "" {
		a.reporter.Moved(ev.Run.ID, a.clock.Now())
	}
	if a.Observer != nil {
		a.Observer.Node(NodeEvent{
			Run: ev.Run.ID, Issue: ev.Run.Key, Phase: ev.Run.Phase, Node: ev.Node, Kind: string(ev.Kind), Visit: ev.Visit,
			Stage: string(ev.Stage), Outcome: string(ev.Outcome), Note: ev.Note, Took: ev.Took, Usage: ev.Usage,
		})
	}
}

// releaseTime bounds the removal of a worktree.
const releaseTime = time.Minute

const (
	// liveEvery is how often the status comment of a run at work is brought up
	// to date at most, liveGap how far apart those of all runs are: 30 a
	// minute of the 80 writes that GitHub allows an installation.
	liveEvery = 15 * time.Second
	liveGap   = 2 * time.Second
)

// live keeps status comments up to date until ctx ends.
func (a *App) live(ctx context.Context) { a.reporter.Live(ctx, a.clock, a.Log, liveEvery, liveGap) }

// ended gives up the worktree of a run that is over: flows of users' own need
// not do so themselves.
func (a *App) ended(run checkpoints.Run, status checkpoints.Status) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := a.trees.Release(ctx, run.ID); err != nil {
		a.Log.WarnContext(ctx, "the worktree of a run that is over is left on the disk", "run", run.ID, "error", err)
	}
	if a.Observer != nil {
		a.Observer.RunEnded(run, status)
	}
}
