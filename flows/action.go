// Package flows is the definition of a flow: the typed graph that one phase
// walks, its strict YAML form, its validation, its guards, and the registry of
// the Go actions that its nodes name.
//
// It must not know how a flow is walked (flows/engine), nor GitHub, models or
// stores beyond the nouns of checkpoints. It may import checkpoints,
// internal/strictyaml, the YAML and expression libraries.
package flows

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Kind is what a node is. It never routes; edges do.
type Kind string

// The kinds of node.
const (
	Step     Kind = "step"
	Gate     Kind = "gate"
	Loop     Kind = "loop"
	Wait     Kind = "wait"
	Approval Kind = "approval"
	Command  Kind = "command"
	Merge    Kind = "merge"
	Subflow  Kind = "subflow"
	Fanout   Kind = "fanout"
	Sink     Kind = "sink"
)

// Outcome is how a node ended; edges take outcomes.
type Outcome string

// The outcomes. Skipped is never success.
const (
	OK        Outcome = "ok"
	Failed    Outcome = "failed"
	Timeout   Outcome = "timeout"
	Budget    Outcome = "budget-exhausted"
	Denied    Outcome = "denied"
	Exhausted Outcome = "exhausted"
	Skipped   Outcome = "skipped"
	Stopped   Outcome = "stopped"
)

// Action is what a node does, registered in Go; YAML only names it.
type Action struct {
	// Name is "package.verb", e.g. "triage.classify". Version changes when
	// its meaning does; a run frozen with another version is not resumed.
	Name    string
	Version string
	// ReadOnly is a property of the action, never of the YAML; only such
	// actions may be fan-out branches.
	ReadOnly bool
	// Effects says that it writes to the outside world, always through
	// Call.Effects.
	Effects bool
	// Spends says that it asks the Meter for model or tool calls. What a run can
	// use at most (WorstCase) counts only such actions; the budgets hold for
	// every action, whatever it says here.
	Spends bool
	// Reads and Writes are the state keys it needs and may change; the loader
	// checks them against the node's `in` and `writes`, and those against the
	// flow's state. Nil means: whatever the node declares.
	Reads, Writes []string
	// Outcomes it may return besides OK. A returned error is Failed, Timeout
	// or Budget and needs no mention.
	Outcomes []Outcome
	// CheckWith refuses a bad `with` at load; nil means that `with` must be
	// absent. See With for the usual implementation.
	CheckWith func(raw json.RawMessage) error
	// CheckNode, when set, tells what is wrong with a node beyond its `with`:
	// how that fits the node's keys and the flow's state.
	CheckNode func(n NodeFacts) []NodeProblem
	// Ends, when set, are the results with which it may end the flow by a Stop,
	// for a node's `with`. Sets are those that it sets without one. The loader
	// wants them among the flow's, and a `stop` for the first.
	Ends func(with json.RawMessage) []string
	Sets []string
	// Types are the types of the state keys that it reads or writes, as far as
	// it cares; a text may be kept in an enum.
	Types map[string]FieldType
	Run   func(ctx context.Context, c Call) (Result, error)
}

// Call is what an action gets.
type Call struct {
	Run RunInfo
	// Node is the node's id, Visit counts its entries from 1, Attempt its
	// retries from 1.
	Node           string
	Visit, Attempt int
	// Key is stable over retries and resumes of this visit:
	// "run/<run>/<node>/<visit>". Effect keys begin with it.
	Key string
	// In holds only the keys the node declares in `in`, which are Sees.
	In   State
	Sees []string
	// With is the node's `with` as JSON, checked by CheckWith.
	With json.RawMessage
	// Meter must be asked before each model or tool call.
	Meter     Meter
	Artifacts checkpoints.ArtifactStore
	Effects   Effects
	// Beat tells that the action is alive, for idle timeouts, with one line
	// for people; never nil.
	Beat func(note string)
	Log  *slog.Logger
	// Ended is set for `finally` actions: how the run ended.
	Ended *Ended
}

// RunInfo is what an action may know of its run.
type RunInfo struct {
	ID      string
	Key     string
	Lineage string
	Repo    string // owner/name
	Issue   int
	Phase   string
	Flow    string
	Round   int
	// Created is the run's start, for content that must be equal on a repeat.
	Created time.Time
}

// Ended tells a `finally` action how the run ended.
type Ended struct {
	// How is "sink", "error", "halted" or "cancelled".
	How string
	// Result is set for "sink"; Reason is for people.
	Result, Reason string
}

// Result is what an action returns. The zero Result is OK without changes.
type Result struct {
	// Delta holds the changed state keys; values must survive JSON.
	Delta Delta
	// Outcome is OK when empty.
	Outcome Outcome
	// Stop ends the flow early through the shared `_stop` edge.
	Stop *Stop
	// Note is one line for people, kept in history.
	Note string
}

// Delta is a set of changed state keys.
type Delta map[string]any

// Stop is a planned early end. The same delta must set the flow's result.
type Stop struct {
	// Code is a stable word, e.g. "no-progress".
	Code string `json:"code"`
	// Reason is for people.
	Reason string `json:"reason"`
}

// Usage and Artifact are the store's.
type (
	Usage    = checkpoints.Usage
	Artifact = checkpoints.Artifact
)

// Meter is the node's part of the budgets. It is durable: a resume does not
// refill it.
type Meter interface {
	// Reserve sets est aside before a call. The error wraps ErrBudget when a
	// limit (node, run, issue, day) would be passed; it names which.
	Reserve(ctx context.Context, est Usage) (Reservation, error)
	// Left is what remains of the node's own budget; a field is -1 when it
	// has no limit.
	Left() Usage
}

// Reservation is what was set aside.
type Reservation interface {
	// Settle replaces it by what was used; call it exactly once, on failure
	// too.
	Settle(ctx context.Context, used Usage) error
}

// Effects performs outside writes exactly once.
type Effects interface {
	// Once: recorded → return it; found in the world → adopt it; else do it;
	// then record. Before finding or doing it re-reads the issue's label and
	// the stops; the error is ErrLabelGone or ErrHalted then. name is
	// appended to Call.Key, unless it begins with "/", when it is used as an
	// absolute key (for effects that outlive the run, e.g.
	// "/issue/acme/w#7/status").
	Once(ctx context.Context, name string, find checkpoints.Find, do checkpoints.Do) (json.RawMessage, error)
}

// Errors that actions return or get; test with errors.Is.
var (
	ErrBudget    = checkpoints.ErrBudget
	ErrLabelGone = errors.New("the phase label is gone")
	ErrHalted    = errors.New("a stop is in force")
)

// Retry wraps an error that may go away: the node's retry policy applies, then
// the run parks until the delay is over instead of failing. Cause is
// "rate-limited", "overloaded" or "transient".
type Retry struct {
	Cause string
	After time.Duration // 0: the policy's back-off decides
	// Looks says that the action only looks whether something has changed: news
	// of it may end the delay early.
	Looks bool
	Err   error
}

// Error implements error.
func (r *Retry) Error() string {
	if r.Err == nil {
		return r.Cause
	}
	return r.Cause + ": " + r.Err.Error()
}

// Unwrap returns the wrapped error.
func (r *Retry) Unwrap() error { return r.Err }
