// Package checkpoints is the contract of the durable store: runs and their
// positions, node history, spend, effects done, stops, and the inbox.
//
// One transaction a call. A call that returns an error has changed nothing.
// Every write that belongs to a claimed run carries a Lease and fails with
// ErrLost once another owner has claimed the run.
//
// It must not know flows, GitHub, models or any database, and imports only
// the standard library and internal/queue. Drivers live in
// checkpoints/{memory,sqlite}; the suite they pass in checkpoints/storetest.
package checkpoints

import (
	"encoding/json"
	"errors"
	"time"
)

// Status is where a run stands in its life.
type Status string

// The statuses. A run moves (queued →) ready → running → (waiting → ready →)*
// ending → done|failed|cancelled; halted is left by Wake only.
const (
	// Queued means that an earlier run of its concurrency key is open: not
	// claimable, made Ready when that one is final. Cancel works on it.
	Queued Status = "queued"
	// Ready means that a worker may claim it.
	Ready Status = "ready"
	// Running means claimed: Owner and LeaseUntil are set.
	Running Status = "running"
	// Waiting means parked for an event or an instant; no worker is held.
	Waiting Status = "waiting"
	// Halted means that a stop ended the work in flight; resumable by Wake.
	Halted Status = "halted"
	// Ending means that the flow is over (Result is set) and the phase must
	// still finish: labels, status comment, hand-off. Claimable like Ready.
	Ending Status = "ending"
	// Done, Failed and Cancelled are final.
	Done      Status = "done"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Final reports that the run will never move again.
func (s Status) Final() bool { return s == Done || s == Failed || s == Cancelled }

// Errors that callers decide by; test with errors.Is.
var (
	// ErrLost means that the lease is no longer the caller's: stop at once,
	// somebody else has the run.
	ErrLost = errors.New("lease lost")
	// ErrBusy means that the run is claimed, or not claimable with this epoch.
	ErrBusy = errors.New("run is claimed")
	// ErrNotFound means no such row.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that an open run or a used trigger stands in the way.
	ErrConflict = errors.New("conflict")
	// ErrNewer means that the database was written by a newer version.
	ErrNewer = errors.New("database is from a newer version")
	// ErrBudget means that a reservation would pass a limit.
	ErrBudget = errors.New("budget exhausted")
	// ErrInUse means that another process has the database; the text says who.
	ErrInUse = errors.New("database is in use")
)

// Run is one phase of one issue.
type Run struct {
	// ID is unique for ever, sortable by time.
	ID string
	// Key is the business key, e.g. "acme/widgets#7"; at most one open run
	// (not Final) has it, but for runs that one concurrency key lines up.
	Key string
	// Trigger is what caused the run, e.g. "label-event/123"; unique for
	// ever when not empty, so that one event starts at most one run.
	Trigger string
	// Lineage is the id of the first run of the issue's pipeline, its own id
	// for that one. Runs of later phases and review rounds share it.
	Lineage string
	// Repo is "owner/name", Issue its number, Phase and Flow their names.
	Repo  string
	Issue int
	Phase string
	Flow  string
	// Round counts from 1: how often this phase ran in the lineage.
	Round int

	// Parent is the run that spawned this one at its node ParentNode; "" for
	// a run of its own. A parent has one run a Key for ever.
	Parent, ParentNode string
	// Close says what becomes of a child that is open when its parent is
	// final: CloseCancel or CloseAbandon; "" without a parent.
	Close string
	// Counted means that the parent waits: what the child spends counts for
	// the parent too, and so on upwards.
	Counted bool
	// Forked is the run of which this one is a fork, from its node ForkedAt.
	Forked, ForkedAt string
	// Mode is "" or ModeShadow.
	Mode string
	// Concurrency is the expanded concurrency key, "" is none; OnConflict what
	// to do while another run of that key is open: OnConflictQueue,
	// OnConflictReplace or OnConflictReject.
	Concurrency, OnConflict string
	// Replaces is the run that this one is to take the place of, as its
	// policy says; whoever starts this one cancels that one. "" is none.
	Replaces string

	Status Status
	// Epoch rises with every claim and sweep; it is the fence.
	Epoch      int64
	Owner      string
	LeaseUntil time.Time
	// Starts counts claims since the last committed node; a run that is
	// claimed again and again without a commit is poison. A claim that ended
	// in Progress.Park (a back-off) is not counted: an outage of GitHub makes
	// no run poison.
	Starts int

	// Seq counts commits; Next is the node to run; Node the one committed
	// last.
	Seq  int64
	Node string
	Next string
	// State is the flow's state, a JSON object.
	State json.RawMessage
	// Initial is the state at the start, which never changes. Nil in runs that
	// were under way before it was recorded.
	Initial json.RawMessage
	// Visits counts entries a node.
	Visits map[string]int
	// Wait is set while Status is Waiting, and kept until the next commit,
	// park or end, so that whoever claims the run knows what was awaited and
	// until when.
	Wait *Wait

	// Definition is the frozen canonical flow, DefinitionHash its sha256 in
	// hex, Actions the versions of the actions it uses by name.
	Definition     []byte
	DefinitionHash string
	Actions        map[string]string

	// Result is the flow's result once Ending or later; Code and Reason say
	// why in words.
	Result string
	Code   string
	Reason string
	// Spent is the settled use plus what is reserved, of the run and of the
	// children that are counted for it.
	Spent Usage

	Created time.Time
	Updated time.Time
}

// Wait says what a parked run waits for.
type Wait struct {
	// Node is the wait node.
	Node string `json:"node"`
	// Event is the kind of event awaited, e.g. "approval"; "" when only Until
	// wakes the run (a back-off).
	Event string `json:"event,omitempty"`
	// Since is when the run parked.
	Since time.Time `json:"since"`
	// Until is the deadline after which the run wakes by itself; zero = never.
	Until time.Time `json:"until,omitzero"`
	// Looks says that the run only waits to look again at something outside, so
	// that news of it may end a back-off by Nudge.
	Looks bool `json:"looks,omitempty"`
	// Why is for people.
	Why string `json:"why,omitempty"`
}

// Nudged reports that news may end the wait, if it is the one that began at
// since; that of nobody is none.
func (w *Wait) Nudged(since time.Time) bool {
	return w != nil && w.Looks && w.Event == "" && w.Since.Equal(since)
}

// Event is what resolves a wait.
type Event struct {
	// Key makes it unique within the run, e.g. "comment/991".
	Key string `json:"key"`
	// Kind is matched with Wait.Event, e.g. "approval".
	Kind string `json:"kind"`
	// Data is a flat JSON object that the wait node's `take` reads.
	Data json.RawMessage `json:"data"`
	At   time.Time       `json:"at"`
}

// Usage is what work cost. The zero value is nothing.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens"` // part of InputTokens
	ToolCalls    int64 `json:"tool_calls"`
	ModelCalls   int64 `json:"model_calls"`
	// MicroUSD is money in millionths of a US dollar.
	MicroUSD int64 `json:"micro_usd"`
}

// Tokens is input plus output.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens,
		u.CachedTokens + v.CachedTokens, u.ToolCalls + v.ToolCalls,
		u.ModelCalls + v.ModelCalls, u.MicroUSD + v.MicroUSD,
	}
}

// Artifact is content kept outside the state, by reference.
type Artifact struct {
	// Path is relative to the artifact folder.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// NodeRecord is one completed node, as history.
type NodeRecord struct {
	Seq     int64  `json:"seq"`
	Node    string `json:"node"`
	Kind    string `json:"kind"`
	Visit   int    `json:"visit"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	Next    string `json:"next"`
	// Delta is what the node changed in the state.
	Delta json.RawMessage `json:"delta,omitempty"`
	// Guards is every guard looked at and its value, for "why this edge".
	Guards []Guard `json:"guards,omitempty"`
	// EventKey is the event that resolved a wait.
	EventKey string `json:"event_key,omitempty"`
	// Note is one line for people, e.g. a stop's reason.
	Note string `json:"note,omitempty"`
	// InputHash identifies what the node's action was given; "" when the
	// engine has no use for it.
	InputHash string        `json:"input_hash,omitempty"`
	Usage     Usage         `json:"usage"`
	Began     time.Time     `json:"began"`
	Took      time.Duration `json:"took"`
}

// Guard is one edge that was looked at.
type Guard struct {
	To    string `json:"to"`
	When  string `json:"when,omitempty"`
	Taken bool   `json:"taken"`
}

// Stop is a latched stop.
type Stop struct {
	// Scope is "owner/name" for a repository or "owner/name#7" for an issue.
	Scope  string
	By     string
	Reason string
	At     time.Time
}

// InboxEvent is something that happened on GitHub, durable before it is
// answered.
type InboxEvent struct {
	ID string
	// Delivery is the webhook's GUID, "" for the poller; unique when set.
	Delivery string
	// Key is the semantic key, e.g. "comment/991" or "label-event/123",
	// unique when set; two sources that saw the same thing give the same key.
	Key string
	// Kind and Body are the encoded event (forge.Event as JSON).
	Kind string
	Body json.RawMessage
	At   time.Time
	// Decision and Explanation are set by Decided; empty while pending.
	Decision    string
	Explanation string
}
