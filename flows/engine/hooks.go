package engine

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// Hooks connect a walk with its surroundings; nil is off. OnNode, OnRoute and
// OnBudget only tell: what they do, even a panic, never changes the run. They
// and BeforeEffect may be called by several branches of a fanout at once.
type Hooks struct {
	// KillSwitch is asked before every node. An error or a panic counts as
	// on. The run's maps are valid during the call.
	KillSwitch func(ctx context.Context, run checkpoints.Run) (on bool, reason string, err error)
	// BeforeEffect is asked before an outside write is looked for or done.
	// flows.ErrLabelGone cancels the run, flows.ErrHalted halts it, any other
	// error is the action's.
	BeforeEffect func(ctx context.Context, run checkpoints.Run) error
	OnNode       func(ctx context.Context, ev NodeEvent)
	OnRoute      func(ctx context.Context, ev RouteEvent)
	OnBudget     func(ctx context.Context, ev BudgetEvent)
}

// Stage says what a NodeEvent tells.
type Stage string

// The stages of a node.
const (
	Start Stage = "start"
	End   Stage = "end"
	Retry Stage = "retry"
	Beat  Stage = "beat"
)

// NodeEvent tells of a node at work. Run is as it was before the node.
type NodeEvent struct {
	Run            checkpoints.Run
	Node           string
	Kind           flows.Kind
	Visit, Attempt int
	Stage          Stage
	// Outcome and Took are set at the end, Err when the node failed, Usage
	// what it cost.
	Outcome flows.Outcome
	Note    string
	Took    time.Duration
	Usage   checkpoints.Usage
	Err     error
}

// RouteEvent tells which edge was taken and what was looked at.
type RouteEvent struct {
	Run      checkpoints.Run
	From, To string
	Outcome  flows.Outcome
	Guards   []checkpoints.Guard
}

// BudgetEvent tells that a limit comes near, or is reached.
type BudgetEvent struct {
	Run  checkpoints.Run
	Node string
	// Scope is "node" or "run"; Unit "tokens", "tool calls", "micro-USD".
	Scope, Unit string
	Used, Limit int64
	Exhausted   bool
}

// tell calls a telemetry hook and survives it.
func (w *walk) tell(what string, hook func()) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("hook panicked", "hook", what, "panic", fmt.Sprint(p))
		}
	}()
	hook()
}

func (w *walk) onNode(ctx context.Context, ev NodeEvent) {
	if hook := w.e.Hooks.OnNode; hook != nil {
		if ev.Run.ID == "" {
			ev.Run = w.told()
		}
		w.tell("OnNode", func() { hook(ctx, ev) })
	}
}

func (w *walk) onRoute(ctx context.Context, ev RouteEvent) {
	if hook := w.e.Hooks.OnRoute; hook != nil {
		ev.Run = w.told()
		w.tell("OnRoute", func() { hook(ctx, ev) })
	}
}

func (w *walk) onBudget(ctx context.Context, ev BudgetEvent) {
	if hook := w.e.Hooks.OnBudget; hook != nil {
		if ev.Run.ID == "" {
			ev.Run = w.told()
		}
		w.tell("OnBudget", func() { hook(ctx, ev) })
	}
}

// told is the run for a hook, which may keep it. Branches ask as well, while
// the walk counts what they have spent.
func (w *walk) told() checkpoints.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.run
	run.Visits = maps.Clone(run.Visits)
	return run
}

// killed asks the kill switch.
func (w *walk) killed(ctx context.Context) (on bool, reason string) {
	if w.e.Hooks.KillSwitch == nil {
		return false, ""
	}
	defer func() {
		if p := recover(); p != nil {
			on, reason = true, fmt.Sprintf("the stop could not be read: %v", p)
		}
	}()
	on, reason, err := w.e.Hooks.KillSwitch(ctx, w.run)
	if err != nil {
		return true, fmt.Sprintf("the stop could not be read: %v", err)
	}
	return on, reason
}

// permitted asks whether an outside write may happen.
func (w *walk) permitted(ctx context.Context, run checkpoints.Run) (err error) {
	if w.e.Hooks.BeforeEffect == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("asking before an outside write: panic: %v", p)
		}
	}()
	return w.e.Hooks.BeforeEffect(ctx, run)
}
