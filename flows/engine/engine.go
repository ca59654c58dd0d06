// Package engine walks a flow: one pointer from node to node, a commit a
// node, and a stop at every moment.
//
// It knows only flows, checkpoints and clock. It must not know labels,
// GitHub, models, phases or any database, does no I/O but through its store
// and the actions it calls, and imports nothing beyond those and the standard
// library.
package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Store is what the engine needs of the durable store.
type Store interface {
	checkpoints.Runs
	checkpoints.Leases
	checkpoints.Progress
	checkpoints.Events
	checkpoints.Ledger
	checkpoints.Effects
}

// Options are the parts of an Engine. Store and Registry are required.
type Options struct {
	Store     Store
	Registry  *flows.Registry
	Artifacts checkpoints.ArtifactStore
	// Clock tells the time; nil means the machine's.
	Clock clock.Clock
	Hooks Hooks
	// Limits are the spend limits of a run beside its flow's own; nil means
	// none.
	Limits func(checkpoints.Run) checkpoints.Limits
	// Log gets what people who run the program should know; nil drops it.
	Log *slog.Logger
	// Scrub takes secrets out of texts before they are stored; nil changes
	// nothing.
	Scrub func(string) string
}

// Engine walks runs. It is safe for concurrent use and holds nothing of a run
// between walks but the flows it has thawed.
type Engine struct {
	Options
	scrubs    bool
	plans     *plans
	drain     chan struct{}
	drainOnce sync.Once
}

// New returns an engine.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	scrubs := o.Scrub != nil
	if !scrubs {
		o.Scrub = func(s string) string { return s }
	}
	if o.Registry == nil {
		o.Registry = &flows.Registry{}
	}
	return &Engine{Options: o, scrubs: scrubs, plans: newPlans(), drain: make(chan struct{})}
}

// Drain makes every walk end before its next node: the node in work may end,
// its run is then released. To cut the node as well, cancel the walk's
// context with ErrShutdown.
func (e *Engine) Drain() { e.drainOnce.Do(func() { close(e.drain) }) }

func (e *Engine) draining() bool {
	select {
	case <-e.drain:
		return true
	default:
		return false
	}
}

// Freeze completes a request to start a run: the flow's name, entry,
// definition, hash and action versions, and the state made of its defaults
// and the input. The fields issue and repo are taken from the request where
// the flow asks for them and the input has none. A flow's concurrency key is
// expanded, but not for children, which their parent lets run. The error is
// flows.ErrInvalidState when the input does not fit.
func (e *Engine) Freeze(f *flows.Flow, r checkpoints.StartReq, input flows.State) (checkpoints.StartReq, error) {
	known, err := flows.StateOf(map[string]any{"issue": r.Issue, "repo": r.Repo})
	if err != nil {
		return r, fmt.Errorf("freezing flow %s: %w", f.Name(), err)
	}
	for _, key := range known.Keys() {
		if fd, ok := f.Field(key); ok && (fd.Input || fd.Required) && !input.Has(key) {
			input = input.With(known.Only([]string{key}).Values())
		}
	}
	state, err := f.Initial(input)
	if err != nil {
		return r, fmt.Errorf("freezing flow %s: %w", f.Name(), err)
	}
	raw, err := state.MarshalJSON()
	if err != nil {
		return r, fmt.Errorf("freezing flow %s: %w", f.Name(), err)
	}
	r.Flow, r.Entry, r.State = f.Name(), f.Entry(), raw
	r.Definition, r.DefinitionHash, r.Actions = f.Definition(), f.Hash(), f.Actions()
	if r.Phase == "" {
		r.Phase = f.Phase()
	}
	if one := f.Concurrency(); one.Key != "" && r.Parent == "" && r.Concurrency == "" {
		about := infoOf(&checkpoints.Run{Key: r.Key, Lineage: r.Lineage, Repo: r.Repo, Issue: r.Issue, Phase: r.Phase, Flow: r.Flow, Round: max(r.Round, 1)})
		if r.Concurrency, err = flows.ExpandText(one.Key, state, about); err != nil {
			return r, fmt.Errorf("freezing flow %s: its concurrency key: %w", f.Name(), err)
		}
		r.OnConflict = one.OnConflict
	}
	return r, nil
}

// Errors with which runs end, beside those of flows; test with errors.Is.
var (
	// ErrMaxSteps means that the run has completed as many nodes as it may.
	ErrMaxSteps = errors.New("too many steps")
	// ErrMaxEvents means that a node has waited over as many events that were
	// not for it as it may.
	ErrMaxEvents = errors.New("too many other events")
	// ErrTimeout means that a node took too long, or was silent too long.
	ErrTimeout = errors.New("node timed out")
	// ErrNoResult means that a flow ended, or wanted to, without a result.
	ErrNoResult = errors.New("the flow has no result")
	// ErrShutdown, as the cause of a cancelled context, ends a walk so that
	// it can be resumed: the node in work is cut, the run released.
	ErrShutdown = errors.New("shutting down")
)

// Halt, as the cause of a cancelled context, ends a walk because a stop is in
// force; the run can be woken.
type Halt struct{ Reason string }

// Error implements error.
func (h Halt) Error() string { return "halted: " + h.Reason }

// Cancel, as the cause of a cancelled context, ends a run for good. Result
// and Code are "cancelled" when empty.
type Cancel struct{ Result, Code, Reason string }

// Error implements error.
func (c Cancel) Error() string { return "cancelled: " + c.Reason }

// PanicError is a panic of an action.
type PanicError struct{ Value any }

// Error implements error.
func (p *PanicError) Error() string { return fmt.Sprintf("the action panicked: %v", p.Value) }

// The values of Outcome.How.
const (
	// Parked: the run waits for an event or an instant.
	Parked = "parked"
	// Ended: the flow is over, with a result or with an error; the run is
	// Ending, the lease kept.
	Ended = "ended"
	// Halted: a stop ended the walk; the run can be woken.
	Halted = "halted"
	// Cancelled: the run was ended from outside; it is Ending, the lease
	// kept.
	Cancelled = "cancelled"
	// Released: the program shuts down; somebody else may go on.
	Released = "released"
	// Lost: somebody else has the run already.
	Lost = "lost"
)

// Outcome is how a walk ended.
type Outcome struct {
	How string
	// Result is the flow's, "error" or "cancelled"; Code is a stable word,
	// Reason for people.
	Result, Code, Reason string
	// Path is the nodes completed by this walk, in order.
	Path []string
	// Err is why a run ended with result "error", or how the lease was lost.
	Err error
	// Finally is what went wrong in the flow's `finally` actions.
	Finally error
	// Run is the run as this walk left it.
	Run checkpoints.Run
}
