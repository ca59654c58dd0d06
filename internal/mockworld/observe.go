package mockworld

import "time"

// Stage tells when a Hook is called.
type Stage string

// The stages of a request.
const (
	// Before: the request has arrived and changed nothing.
	Before Stage = "before"
	// After: the world has changed, the client has no answer yet.
	After Stage = "after"
)

// Request is one request that reached the world.
type Request struct {
	Seq    int       `json:"seq"` // from 1
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	// Path is the unescaped path without prefix and /api/v3, e.g.
	// "/repos/acme/shop/issues/7/labels" or "/git/acme/shop.git/info/refs".
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Actor is the login of the token, "" for anonymous.
	Actor string `json:"actor,omitempty"`
	// Body is the request body of a REST call.
	Body string `json:"body,omitempty"`
	// Status is what was answered, 0 in the stage Before and for a cut
	// connection that was never handled.
	Status int `json:"status"`
	// Fault names the kind of fault that struck it.
	Fault FaultKind `json:"fault,omitempty"`
	// Route is the operation's pattern, e.g. "/repos/{owner}/{repo}", "" when
	// the world knows none. It, Accept (the header) and Response (the answer's
	// body) are only kept with Options.KeepBodies, and not of what a fault
	// answered.
	Route    string `json:"route,omitempty"`
	Accept   string `json:"accept,omitempty"`
	Response string `json:"response,omitempty"`
}

// Hook watches requests. It is called synchronously and without the world's
// lock, so that it may use the world, or end the process that asked.
type Hook func(stage Stage, r Request)

// Delivery is one attempt to deliver a webhook.
type Delivery struct {
	// ID names the attempt; GUID the delivery, which a redelivery keeps.
	ID         int64     `json:"id"`
	GUID       string    `json:"guid"`
	HookID     int64     `json:"hook_id"`
	Repo       string    `json:"repo"`
	Event      string    `json:"event"`
	Action     string    `json:"action,omitempty"`
	Redelivery bool      `json:"redelivery"`
	At         time.Time `json:"at"`
	Payload    string    `json:"payload"`
	// Done is false while it is queued. Status is the receiver's answer, 0
	// when there was none, and Err then says why.
	Done     bool   `json:"done"`
	Status   int    `json:"status"`
	Response string `json:"response,omitempty"`
	Err      string `json:"err,omitempty"`
}

// Snapshot is the world as it stands, for people and for expectations.
type Snapshot struct {
	At time.Time `json:"at"`
	// Repos is by "owner/name".
	Repos map[string]RepoState `json:"repos"`
	// PendingDeliveries counts webhooks that have not been tried yet.
	PendingDeliveries int `json:"pending_deliveries"`
	// Requests counts requests so far, Violations those of them that asked
	// for something that the world does not know.
	Requests   int      `json:"requests"`
	Violations []string `json:"violations"`
}

// RepoState is a repository in a Snapshot.
type RepoState struct {
	DefaultBranch string                 `json:"default_branch"`
	Labels        []string               `json:"labels"`
	Issues        []IssueState           `json:"issues"` // without pull requests
	Pulls         []PullState            `json:"pulls"`
	Branches      map[string]BranchState `json:"branches"`
	// Refs are the references outside heads and pull, name to SHA.
	Refs     map[string]string `json:"refs"`
	Checks   []CheckState      `json:"checks"`
	Statuses []StatusState     `json:"statuses"`
}

// IssueState is an issue in a Snapshot.
type IssueState struct {
	Number      int            `json:"number"`
	Title       string         `json:"title"`
	Body        string         `json:"body"`
	Author      string         `json:"author"`
	State       string         `json:"state"`                  // open, closed
	StateReason string         `json:"state_reason,omitempty"` // completed, not_planned, reopened
	Locked      bool           `json:"locked"`
	Labels      []string       `json:"labels"`
	Comments    []CommentState `json:"comments"`
	Events      []EventState   `json:"events"`
}

// CommentState is a comment in a Snapshot.
type CommentState struct {
	ID     int64  `json:"id"`
	Author string `json:"author"`
	Body   string `json:"body"`
	// Edits counts how often the body was changed.
	Edits int `json:"edits"`
}

// EventState is an entry of an issue's event log in a Snapshot.
type EventState struct {
	Event string `json:"event"`
	Actor string `json:"actor"`
	Label string `json:"label,omitempty"`
}

// PullState is a pull request in a Snapshot.
type PullState struct {
	IssueState
	Draft     bool          `json:"draft"`
	Merged    bool          `json:"merged"`
	Head      string        `json:"head"`
	HeadSHA   string        `json:"head_sha"`
	Base      string        `json:"base"`
	Additions int           `json:"additions"`
	Deletions int           `json:"deletions"`
	Files     []string      `json:"files"`
	Commits   int           `json:"commits"`
	Reviews   []ReviewState `json:"reviews"`
}

// ReviewState is a review in a Snapshot.
type ReviewState struct {
	Author   string        `json:"author"`
	State    string        `json:"state"` // APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, PENDING
	Body     string        `json:"body"`
	SHA      string        `json:"sha"`
	Comments []LineComment `json:"comments"`
}

// BranchState is a branch in a Snapshot.
type BranchState struct {
	SHA string `json:"sha"`
	// Commits counts the commits reachable from it.
	Commits int `json:"commits"`
}

// CheckState is a check run in a Snapshot.
type CheckState struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	App        string `json:"app"`
	SHA        string `json:"sha"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion,omitempty"`
	Title      string `json:"title,omitempty"`
}

// StatusState is a commit status in a Snapshot, the latest of its context.
type StatusState struct {
	SHA     string `json:"sha"`
	Context string `json:"context"`
	State   string `json:"state"`
	Creator string `json:"creator"`
}
