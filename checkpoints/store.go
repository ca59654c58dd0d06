package checkpoints

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Lease is the right to advance a run. Fence is the run's epoch after the
// claim; every write under the lease is a compare-and-set on it.
type Lease struct {
	RunID string
	Owner string
	Fence int64
}

// StartReq describes a run to create. Fields are as in Run.
type StartReq struct {
	Key, Trigger, Lineage string
	Repo                  string
	Issue                 int
	Phase, Flow           string
	Round                 int
	// Close is CloseCancel when it is empty and Parent is not; OnConflict is
	// OnConflictQueue when it is empty and Concurrency is not.
	Parent, ParentNode      string
	Close                   string
	Counted                 bool
	Forked, ForkedAt        string
	Mode                    string
	Concurrency, OnConflict string

	Entry          string
	State          json.RawMessage
	Definition     []byte
	DefinitionHash string
	Actions        map[string]string
}

// Commit is one completed node.
type Commit struct {
	Record NodeRecord
	// Seq must be the run's Seq + 1.
	Seq int64
	// Next is the node to run next; "" together with Ending.
	Next   string
	State  json.RawMessage
	Visits map[string]int
	// EventKey marks an event as consumed in the same transaction.
	EventKey string
	// Park, when set, makes the run Waiting at Next and gives up the lease. A
	// matching event that was delivered before makes it Ready at once, with a
	// token.
	Park *Wait
	// Ending, when set, makes the run Ending; the lease is kept.
	Ending *Ended
}

// Ended is how a flow ended.
type Ended struct {
	// Result is the flow's result, Code a stable word, Reason for people.
	Result, Code, Reason string
}

// Filter selects runs; zero fields select all.
type Filter struct {
	Repo    string
	Issue   int
	Phase   string
	Lineage string
	Parent  string
	// Roots leaves children out.
	Roots    bool
	Statuses []Status
	// Limit is the most rows, newest first; 0 means 100.
	Limit int
}

// Limits are spend limits checked by Reserve. A nil limit is none; zero means
// zero.
type Limits struct {
	// Run and Issue bound the life of the run and of the issue, Day all runs
	// since 00:00 UTC.
	Run, Issue, Day Limit
	// Ancestors are the Run limits of the runs for which this one is counted,
	// by run id. A run that is not counted for one of them is not bound by it.
	Ancestors map[string]Limit
}

// Limit bounds tokens (input + output), money and tool calls.
type Limit struct {
	Tokens    *int64
	MicroUSD  *int64
	ToolCalls *int64
}

// Reservation is money set aside before a call.
type Reservation struct {
	ID    string
	RunID string
	Node  string
}

// Retention says what Prune keeps.
type Retention struct {
	// Before is the instant before which final runs are deleted, and inbox
	// rows that were decided.
	Before time.Time
	// Keep is how many of the newest final runs stay whatever their age.
	// Children stay with their parents and are not counted.
	Keep int
}

// Runs is the life of runs outside a lease.
type Runs interface {
	Records
	// Start creates a run, Ready, with its token, in one transaction. When
	// the trigger was used before, or an open run has the key, or any run of
	// the same parent has it, it returns that run and ErrConflict. While
	// another run of the concurrency key is open it does what OnConflict says.
	Start(ctx context.Context, r StartReq) (Run, error)
	// Get returns a run. ErrNotFound.
	Get(ctx context.Context, id string) (Run, error)
	// List returns runs, newest first.
	List(ctx context.Context, f Filter) ([]Run, error)
	// IDs returns the ids of all runs, oldest first; f.Limit is of no
	// account. It is for the many: a run is some kilobytes.
	IDs(ctx context.Context, f Filter) ([]string, error)
	// History returns the completed nodes of a run in order of Seq.
	History(ctx context.Context, id string) ([]NodeRecord, error)
	// Wake makes a Halted run Ready, with a token; others give ErrConflict.
	Wake(ctx context.Context, id string) error
	// Nudge does so with a run that backs off to look again (Wait.Looks), if
	// it still stands in the wait that began at since; others give ErrConflict,
	// so that news that come twice end one wait only.
	Nudge(ctx context.Context, id string, since time.Time) error
	// Deliver records an event for a run. fresh is false when its key was
	// seen before. A run Waiting for that kind becomes Ready, with a token,
	// in the same transaction; otherwise the event is kept for a later wait.
	Deliver(ctx context.Context, id string, e Event) (fresh bool, err error)
	// Branches returns the finished branches of a run's fanouts in the order
	// in which they were stored.
	Branches(ctx context.Context, runID string) ([]BranchRecord, error)
	// Cancel makes a run that nobody has claimed (Queued, Ready, Waiting,
	// Halted) Ending with the given result, with a token, so that a worker
	// finishes it. A Running run gives ErrBusy: cancel the worker first.
	Cancel(ctx context.Context, id string, e Ended) error
	// Accept lets a run go on with other versions of its actions: it replaces
	// Actions and appends an audit line, in one transaction. The definition
	// stays. ErrBusy when the run is claimed, ErrConflict when it is over.
	Accept(ctx context.Context, runID string, actions map[string]string, by string) error
	// Prune deletes final runs with all that hangs on them (EffectsOf
	// included), children after their parents, and returns how many; and inbox
	// rows. What runs have cost, their triggers, the effects of issues and the
	// versions of flows stay. So as to hold nobody up it may take several transactions: with an error it returns
	// how many runs it has deleted before.
	Prune(ctx context.Context, r Retention) (int, error)
}

// Records is what is kept about flows and about operators.
type Records interface {
	// Versions returns the definitions a flow was run with, oldest first.
	Versions(ctx context.Context, flow string) ([]FlowVersion, error)
	// AddAudit records what an operator did to a run. ErrNotFound.
	AddAudit(ctx context.Context, a AuditLine) error
	// Audits returns the audit lines of a run, oldest first.
	Audits(ctx context.Context, runID string) ([]AuditLine, error)
}

// Leases is the mutual exclusion of runs.
type Leases interface {
	// Claim takes a Ready or Ending run, or a Running one whose lease is
	// over, if its epoch is still the given one; the epoch rises by one. A
	// Waiting run whose deadline is past is claimable as well. ErrBusy
	// otherwise, ErrNotFound for no such run.
	Claim(ctx context.Context, id string, epoch int64, owner string, ttl time.Duration) (Run, Lease, error)
	// Renew prolongs the lease.
	Renew(ctx context.Context, l Lease, ttl time.Duration) error
	// Release gives the run back: Ready (or Ending, when Result is set) with
	// a new token.
	Release(ctx context.Context, l Lease) error
	// Sweep finds runs whose lease is over and waiting runs whose deadline is
	// past, raises their epochs and inserts tokens, in one transaction; it
	// also inserts tokens anew for Ready and Ending runs and pending inbox
	// rows older than age, whose token may be lost. It returns how many.
	Sweep(ctx context.Context, age time.Duration) (int, error)
	// ExpireAll ends every lease; for the start of the only process.
	ExpireAll(ctx context.Context) error
}

// Progress is what a lease holder writes.
type Progress interface {
	// Commit records a completed node.
	Commit(ctx context.Context, l Lease, c Commit) error
	// Park makes the run Waiting without completing a node (a back-off) and
	// gives up the lease.
	Park(ctx context.Context, l Lease, w Wait) error
	// Halt makes the run Halted, keeps its position, gives up the lease.
	Halt(ctx context.Context, l Lease, code, reason string) error
	// End makes the run Ending without completing a node (an error, a
	// cancel); the lease is kept.
	End(ctx context.Context, l Lease, e Ended) error
	// PutBranch stores a finished branch of a fanout that is under way; a
	// second of the same fanout, visit and branch changes nothing.
	PutBranch(ctx context.Context, l Lease, b BranchRecord) error
	// Finish makes an Ending run final, makes the oldest run that was queued
	// behind it Ready, and starts next, if any, in one transaction. The
	// returned run is next's.
	Finish(ctx context.Context, l Lease, final Status, next *StartReq) (*Run, error)
}

// Events is what is known of a run's delivered events.
type Events interface {
	// Pending returns the oldest delivered, unconsumed event of a kind.
	// ErrNotFound when there is none.
	Pending(ctx context.Context, runID, kind string) (Event, error)
}

// Ledger is the money.
type Ledger interface {
	// Reserve sets est aside for the run's node if no limit would be passed;
	// ErrBudget (naming the scope and the limit) otherwise. A reservation
	// that is never settled counts in full.
	Reserve(ctx context.Context, l Lease, node string, est Usage, lim Limits) (Reservation, error)
	// Settle replaces the reservation by what was used. It works without a
	// lease: the money is spent whoever has the run now.
	Settle(ctx context.Context, r Reservation, used Usage) error
	// Spent sums the use of a run and of the children counted for it, of an
	// issue over all its runs, and of all runs since a given instant.
	Spent(ctx context.Context, runID, repo string, issue int, since time.Time) (run, issueTotal, day Usage, err error)
}

// Effects is what was already done in the outside world. A key that begins
// with one of EffectsOf a run is deleted with the run; others stay for ever.
type Effects interface {
	// Effect returns the recorded value of a done effect. ErrNotFound.
	Effect(ctx context.Context, key string) (json.RawMessage, error)
	// RecordEffect records it; recording an equal key again replaces the
	// value.
	RecordEffect(ctx context.Context, key string, value json.RawMessage) error
}

// Stops is the latched kill switch.
type Stops interface {
	// SetStop latches; latching twice keeps the first.
	SetStop(ctx context.Context, s Stop) error
	// LiftStop removes the latch; false when there was none.
	LiftStop(ctx context.Context, scope string) (bool, error)
	// StopFor returns the stop that holds for an issue, its repository's
	// included. ok is false when none does.
	StopFor(ctx context.Context, repo string, issue int) (s Stop, ok bool, err error)
	// ListStops returns all latched stops.
	ListStops(ctx context.Context) ([]Stop, error)
}

// Inbox is what came in from outside.
type Inbox interface {
	// Receive stores an event with its token in one transaction. fresh is
	// false when its delivery or key is known already; then nothing is stored.
	Receive(ctx context.Context, e InboxEvent) (fresh bool, err error)
	// Received returns an inbox row. ErrNotFound.
	Received(ctx context.Context, id string) (InboxEvent, error)
	// Decided records what became of it; it is not pending any more.
	Decided(ctx context.Context, id, decision, explanation string) error
	// Inbox lists rows, newest first, at most limit.
	Inbox(ctx context.Context, limit int) ([]InboxEvent, error)
	// Cursor and SetCursor keep a reader's place, e.g. a poller's last event
	// id. An unknown cursor is "".
	Cursor(ctx context.Context, name string) (string, error)
	SetCursor(ctx context.Context, name, value string) error
}

// Store is everything a driver implements. Code takes the parts it uses.
type Store interface {
	Runs
	Leases
	Progress
	Events
	Ledger
	Effects
	Stops
	Inbox
	// Close ends the use of the store.
	Close() error
}

// ArtifactStore keeps content by its hash.
type ArtifactStore interface {
	// Put stores content; equal content is stored once.
	Put(ctx context.Context, content io.Reader) (Artifact, error)
	// Open reads an artifact and fails on a read that does not match its
	// hash. ErrNotFound.
	Open(ctx context.Context, a Artifact) (io.ReadCloser, error)
}
