package checkpoints

import (
	"encoding/json"
	"time"
)

// What becomes of open children when their parent is final.
const (
	CloseCancel  = "cancel"
	CloseAbandon = "abandon"
)

// ModeShadow marks a run that changes nothing outside.
const ModeShadow = "shadow"

// What a start does while another run of its concurrency key is open. A child
// never waits for the run that spawned it: an ancestor that holds the key
// holds it for its children as well.
const (
	// OnConflictQueue starts the run as Queued.
	OnConflictQueue = "queue"
	// OnConflictReplace starts the run as Queued and names the open one in
	// Replaces; runs that were queued before it are cancelled.
	OnConflictReplace = "replace"
	// OnConflictReject starts nothing: ErrConflict, and the open run.
	OnConflictReject = "reject"
)

// Replaced is the code with which a queued run ends when a newer one of its
// concurrency key replaces it.
const Replaced = "replaced"

// BranchRecord is one finished branch of a fanout, stored at once so that
// only unfinished branches run again after a crash.
type BranchRecord struct {
	// Fanout is the fanout's node, Visit its visit, Branch the branch's node.
	Fanout  string `json:"fanout"`
	Visit   int    `json:"visit"`
	Branch  string `json:"branch"`
	Outcome string `json:"outcome"`
	// Delta is what the branch wants changed in the state.
	Delta   json.RawMessage `json:"delta,omitempty"`
	Note    string          `json:"note,omitempty"`
	Attempt int             `json:"attempt"`
	Usage   Usage           `json:"usage"`
	Began   time.Time       `json:"began"`
	Took    time.Duration   `json:"took"`
}

// FlowVersion is a definition that some run of a flow was started with.
type FlowVersion struct {
	Flow string
	// N counts from 1 in the order in which the definitions first ran.
	N int
	// Hash is the runs' DefinitionHash.
	Hash       string
	Definition []byte
	// First is when a run was first started with it.
	First time.Time
}

// AuditLine is one thing that an operator did to a run.
type AuditLine struct {
	RunID string
	// By is who, What a stable word such as "approve" or "accept-drift", Why
	// for people.
	By, What, Why string
	At            time.Time
}

// AcceptDrift is AuditLine.What of Runs.Accept.
const AcceptDrift = "accept-drift"
