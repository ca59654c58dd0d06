package flows

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// Errors about definitions; test with errors.Is.
var (
	// ErrNoRoute means that no edge took a node's outcome.
	ErrNoRoute = errors.New("no edge matched")
	// ErrDrift means that a frozen definition does not fit this program any
	// more: an action is gone or has another version.
	ErrDrift = errors.New("the frozen definition does not fit this version")
	// ErrCorrupt means that a frozen definition or its run is unreadable.
	ErrCorrupt = errors.New("the frozen definition is corrupt")
	// ErrInvalidState means that a value does not fit the state schema.
	ErrInvalidState = errors.New("invalid state")
)

// Flow is a validated definition; immutable.
type Flow struct {
	name    string
	version int
	phase   string
	entry   string
	sink    string
	stop    bool
	limits  FlowLimits
	fields  []Field
	nodes   []Node
	edges   []Edge
	finally []string
	one     Concurrency
	// children are the flows that the subflow nodes name; depth is how many
	// levels of them there are.
	children map[string]*Flow
	depth    int

	// fanoutOf is the fanout of a branch.
	fanoutOf map[string]string
	// spends are the nodes whose action asks the meter.
	spends     map[string]bool
	byKey      map[string]*Field
	byID       map[string]*Node
	out        map[string][]*Edge
	actions    map[string]string
	definition []byte
	hash       string
}

// FlowLimits bound a whole run of a flow. Zero means no limit, but MaxSteps,
// which always has one.
type FlowLimits struct {
	// MaxSteps is the most nodes a run may complete.
	MaxSteps int
	// Wall is working time: time parked or halted does not count.
	Wall      time.Duration
	Tokens    int64
	ToolCalls int64
	MicroUSD  int64
	// WarnAt is the share of a limit at which people are told.
	WarnAt float64
}

// NodeBudget bounds one visit of a node. Zero means no limit.
type NodeBudget struct {
	Tokens    int64
	ToolCalls int64
	MicroUSD  int64
	Wall      time.Duration
}

// RetryPolicy is for typed errors (Retry) within one process.
type RetryPolicy struct {
	// Max is how many times the action is called again.
	Max int
	// On are the causes it applies to.
	On []string
	// Backoff is the first delay, multiplied by Factor each time up to
	// MaxBackoff.
	Backoff    time.Duration
	Factor     float64
	MaxBackoff time.Duration
	// Jitter is "full" (a random part of the delay) or "none".
	Jitter string
}

// Node is one node of a flow.
type Node struct {
	ID   string
	Kind Kind
	// Uses, With, In and Writes belong to kinds that run an action. In and
	// Writes are complete: what the file leaves out is the action's.
	Uses    string
	With    json.RawMessage
	In      []string
	Writes  []string
	Budget  NodeBudget
	Timeout time.Duration
	Idle    time.Duration
	Retry   RetryPolicy
	// BackTo and Max belong to loops.
	BackTo string
	Max    int
	// Optional is `required: false`: a fanout's branch without which the merge
	// goes on.
	Optional bool
	// Cache is "" or "run": the result of an equal visit of this node in this
	// run is used again. Only over actions that are ReadOnly.
	Cache string
	// Event, Match, Take (state key → event field), Expires and OnExpire
	// belong to waits and approvals, whose Event is ApprovalEvent. Take is
	// also a command's (state key → "output" or "code") and a subflow's (state
	// key → the child's state key). A subflow that waits may have Expires.
	Event    string
	Match    *Guard
	Take     map[string]string
	Expires  time.Duration
	OnExpire Outcome
	// Message and Approvers belong to approvals: a template, and
	// "role:admin|maintain|write|triage" or "user:LOGIN", at least one.
	Message   string
	Approvers []string
	// Argv, Env and Accept belong to commands: what is run, without
	// templates, what it finds in its environment, with templates, and the
	// commands that must exit with 0 afterwards. Uses is CommandAction and With
	// holds the three as its action gets them, templates still unexpanded.
	Argv   []string
	Env    map[string]string
	Accept [][]string
	// Branches, Join and MaxParallel belong to fanouts. MaxParallel is 0 for
	// all at once.
	Branches    []string
	Join        string
	MaxParallel int
	// Of and Report belong to merges: the branches in the order in which what
	// they changed is applied, and the list of texts in the state, or "", that
	// gets a line a branch.
	Of     []string
	Report string
	// Child (`flow` in the file), ChildKey (`key`, a template), Give (the
	// child's input key → state key), Await (`wait`) and Close belong to
	// subflows. Close is "cancel" or "abandon".
	Child    string
	ChildKey string
	Give     map[string]string
	Await    bool
	Close    string
}

// CommandAction is the action that command nodes run. It gets With as
// {"argv": […], "env": {…}, "accept": [[…]]}, ends with ok, failed or timeout,
// and its delta may have the keys OutputKey (an artifact) and CodeKey (int).
const (
	CommandAction = "command.run"
	OutputKey     = "output"
	CodeKey       = "code"
)

// ApprovalEvent is the kind of event for which approvals wait. Its data has
// "by", "role", "outcome" and maybe "note", all texts.
const ApprovalEvent = "approval"

// Concurrency says what happens when a run starts while another of the same
// key is open. The zero value is for flows whose runs don't mind each other.
type Concurrency struct {
	// Key is a template over state and run, see ExpandText.
	Key string
	// OnConflict is "queue", "replace" or "reject".
	OnConflict string
}

// Edge leads from a node to the next. It takes the outcomes On, if When is
// nil or true, and then sets the literals Set.
type Edge struct {
	From, To string
	On       []Outcome
	When     *Guard
	Set      map[string]json.RawMessage
}

// Takes reports that the edge is for an outcome.
func (e Edge) Takes(o Outcome) bool { return slices.Contains(e.On, o) }

// Name is the flow's name.
func (f *Flow) Name() string { return f.name }

// Version is the author's version number.
func (f *Flow) Version() int { return f.version }

// Phase is the phase within which the flow runs.
func (f *Flow) Phase() string { return f.phase }

// Entry is the id of the first node.
func (f *Flow) Entry() string { return f.entry }

// Sink is the id of the only node in which a run completes.
func (f *Flow) Sink() string { return f.sink }

// Stops reports that the shared stop edge to the sink is there.
func (f *Flow) Stops() bool { return f.stop }

// Limits are the bounds of a run.
func (f *Flow) Limits() FlowLimits { return f.limits }

// Fields are the state's fields in the order of the file.
func (f *Flow) Fields() []Field { return slices.Clone(f.fields) }

// Field returns a state field.
func (f *Flow) Field(key string) (Field, bool) {
	fd, ok := f.byKey[key]
	if !ok {
		return Field{}, false
	}
	return *fd, true
}

// Nodes are the nodes in the order of the file. What they point to must not
// be changed.
func (f *Flow) Nodes() []Node { return slices.Clone(f.nodes) }

// Node returns a node by id. What it points to must not be changed.
func (f *Flow) Node(id string) (Node, bool) {
	n, ok := f.byID[id]
	if !ok {
		return Node{}, false
	}
	return *n, true
}

// Edges are the edges in the order of the file, without the stop edges.
func (f *Flow) Edges() []Edge { return slices.Clone(f.edges) }

// From are the edges that leave a node, in the order in which they are
// looked at.
func (f *Flow) From(id string) []Edge {
	edges := make([]Edge, len(f.out[id]))
	for i, e := range f.out[id] {
		edges[i] = *e
	}
	return edges
}

// Out are the edges that leave a node, in the order in which they are looked
// at. Neither the list nor the edges may be changed; nothing is copied.
func (f *Flow) Out(id string) []*Edge { return f.out[id] }

// Lookup returns a node by id without copying it, nil when there is none. It
// must not be changed.
func (f *Flow) Lookup(id string) *Node { return f.byID[id] }

// FanoutOf is the fanout of which a node is a branch, "" for other nodes.
func (f *Flow) FanoutOf(id string) string { return f.fanoutOf[id] }

// FieldRef returns a state field without copying it, nil when there is none.
// It must not be changed.
func (f *Flow) FieldRef(key string) *Field { return f.byKey[key] }

// Concurrency says how runs with an equal key get on; zero when they don't
// mind.
func (f *Flow) Concurrency() Concurrency { return f.one }

// Child is the definition of a flow that a subflow node names, frozen
// together with this one.
func (f *Flow) Child(name string) (*Flow, bool) {
	c, ok := f.children[name]
	return c, ok
}

// Children are the names of all flows that subflow nodes name, sorted.
func (f *Flow) Children() []string { return slices.Sorted(maps.Keys(f.children)) }

// Finally are the actions run on every ending, in order.
func (f *Flow) Finally() []string { return slices.Clone(f.finally) }

// Actions are the versions of the actions used, by name, those of children
// included.
func (f *Flow) Actions() map[string]string { return maps.Clone(f.actions) }

// Definition is the canonical form, a JSON document that is a flow file too:
// equal for files that differ only in layout, comments or defaults.
func (f *Flow) Definition() []byte { return slices.Clone(f.definition) }

// Hash is the sha256 of Definition in hex.
func (f *Flow) Hash() string { return f.hash }
