package scenario

import "time"

// Step is one thing that happens. It waits until After holds, then does one
// action; a step without an action only waits. Steps run one after another.
type Step struct {
	After When `json:"after"`
	// Who acts; Repo (the first one if empty) and Issue (1 if zero) say where.
	Who   string `json:"who"`
	Repo  string `json:"repo"`
	Issue int    `json:"issue"`
	// Pull makes the action concern the newest pull request instead of Issue.
	Pull bool `json:"pull"`

	Do Act `json:"do"`
}

// Act is an action; at most one field is set.
type Act struct {
	// Label and Unlabel name a label.
	Label   string `json:"label"`
	Unlabel string `json:"unlabel"`
	Comment string `json:"comment"`
	// Approve reads the hash from the newest plan comment of the bot and
	// comments "/pipeline approve HASH", as a person would.
	Approve     bool         `json:"approve_plan"`
	EditComment *EditComment `json:"edit_comment"`
	// DeleteComment deletes the first comment that contains the text.
	DeleteComment string     `json:"delete_comment"`
	EditIssue     *EditIssue `json:"edit_issue"`
	// Close gives the reason: completed, not_planned or duplicate.
	Close    string    `json:"close"`
	Reopen   bool      `json:"reopen"`
	Lock     bool      `json:"lock"`
	Convert  bool      `json:"convert_to_discussion"`
	Open     *Issue    `json:"open_issue"`
	Push     *Push     `json:"push"`
	OpenPull *OpenPull `json:"open_pull"`
	// Merge merges the newest pull request.
	Merge  bool      `json:"merge"`
	Review *Review   `json:"review"`
	Check  *CheckRun `json:"check_run"`
	// SetRole gives roles by login.
	SetRole map[string]string `json:"set_role"`
	// SetPermissions replaces the app's permissions.
	SetPermissions map[string]string `json:"set_permissions"`
	DeleteLabel    string            `json:"delete_label"`
	RenameLabel    *Rename           `json:"rename_label"`
	// DeleteBranch deletes the first branch that contains the text.
	DeleteBranch string      `json:"delete_branch"`
	Redeliver    *Redeliver  `json:"redeliver"`
	Forge        *RawWebhook `json:"send_webhook"`
	// Release lets the requests held by the fault of that name go on.
	Release string `json:"release"`
	// StopBot is kill (SIGKILL) or term (SIGTERM); the step ends when the
	// process is gone.
	StopBot  string `json:"stop_bot"`
	StartBot bool   `json:"start_bot"`
	// SecondBot starts another process on the same data; it must refuse, with
	// a message that contains the text.
	SecondBot string `json:"second_bot"`
	// Advance moves the world's clock (not the bot's), e.g. 61m.
	Advance time.Duration `json:"advance_clock"`
	// DeleteUser deletes an account: what it wrote stays, by nobody.
	DeleteUser string `json:"delete_user"`
	// DeleteIssue deletes the issue, Transfer moves it to another repository
	// of the world, RenameRepo gives the repository another name.
	DeleteIssue bool   `json:"delete_issue"`
	Transfer    string `json:"transfer"`
	RenameRepo  string `json:"rename_repo"`
	// RevokeToken makes the tokens in use answer 401.
	RevokeToken bool `json:"revoke_token"`
}

// EditComment changes the first comment that contains Find.
type EditComment struct {
	Find string `json:"find"`
	Body string `json:"body"`
	// Append is added to what is there instead.
	Append string `json:"append"`
}

// EditIssue changes an issue's title or body.
type EditIssue struct {
	Title *string `json:"title"`
	Body  *string `json:"body"`
}

// Push is a commit by a person.
type Push struct {
	Branch  string            `json:"branch"` // the default branch when empty
	From    string            `json:"from"`
	Message string            `json:"message"`
	Files   map[string]string `json:"files"`
	Delete  []string          `json:"delete"`
	Force   bool              `json:"force"`
}

// OpenPull is a pull request by a person.
type OpenPull struct {
	Head  string `json:"head"`
	Title string `json:"title"`
	Body  string `json:"body"`
	// ForkFiles makes it come from the author's fork: Head is a branch there,
	// with one commit of these files upon the default branch.
	ForkFiles map[string]string `json:"fork_files"`
}

// Review is a review of the newest pull request by a person.
type Review struct {
	Event string `json:"event"` // APPROVE, REQUEST_CHANGES, COMMENT
	Body  string `json:"body"`
}

// CheckRun is CI's word about the head of the newest pull request.
type CheckRun struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
}

// Rename renames a label of the repository.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Redeliver sends the newest delivery of an event again, Times at once.
type Redeliver struct {
	Event string `json:"event"` // e.g. issues.labeled
	Times int    `json:"times"`
}

// RawWebhook is a delivery that does not come from GitHub.
type RawWebhook struct {
	Event string `json:"event"`
	Body  string `json:"body"`
	// Bytes fills the body up to a size.
	Bytes int `json:"bytes"`
	// Secret signs it; empty sends no signature, "right" uses the bot's.
	Secret string `json:"secret"`
	// Replay takes event and body of the newest delivery of this event, with
	// a GUID of its own.
	Replay string `json:"replay"`
	// Status is what must be answered.
	Status int `json:"status"`
}

// When is a condition on the world; all fields that are set must hold. The
// zero value holds at once.
type When struct {
	// Label is on the issue, NoLabel is not.
	Label   string `json:"label"`
	NoLabel string `json:"no_label"`
	// Comment is contained in a comment of the issue that is not the status
	// comment, Status in the bot's status comment.
	Comment string `json:"comment"`
	Status  string `json:"status"`
	// Pull is the state of the newest pull request: open, closed, merged.
	Pull string `json:"pull"`
	// Branch is contained in the name of a branch.
	Branch string `json:"branch"`
	// Reviews is how many reviews the newest pull request has, at least.
	Reviews int        `json:"reviews"`
	Model   *ModelWhen `json:"model"`
	Run     *RunWhen   `json:"run"`
	Request *ReqWhen   `json:"request"`
	// Elapsed is real time since the step before.
	Elapsed time.Duration `json:"elapsed"`
	// BotExited holds when the process has ended by itself.
	BotExited bool `json:"bot_exited"`
	// Quiet holds when neither a write nor a model call came for that long.
	Quiet time.Duration `json:"quiet"`
}

// ModelWhen holds when a prompt was asked Nth (1 if zero) times, and, with
// InFlight, while that request waits for its answer.
type ModelWhen struct {
	Prompt   string `json:"prompt"`
	Nth      int    `json:"nth"`
	InFlight bool   `json:"in_flight"`
}

// RunWhen holds when a run of the phase has the status.
type RunWhen struct {
	Phase  string `json:"phase"`
	Status string `json:"status"`
	// Node, when set, was completed.
	Node string `json:"node"`
}

// ReqWhen holds when at least Count (1 if zero) matching requests came.
type ReqWhen struct {
	Method string `json:"method"`
	Path   string `json:"path"` // regular expression
	Count  int    `json:"count"`
}

// Fault is one thing that goes wrong, from the start.
type Fault struct {
	// Name is for release steps.
	Name  string `json:"name"`
	Match Match  `json:"match"`
	// Kind is hold, delay, drop-request, drop-response or refuse for
	// requests, duplicate, reorder, lose, hold or delay for deliveries.
	Kind string `json:"kind"`
	// Times is how many are struck; 1 when zero, -1 is all.
	Times int `json:"times"`
	// After makes a hold come after handling.
	After bool          `json:"after_handling"`
	Delay time.Duration `json:"delay"`
	// Status, Headers and Body are refuse's answer.
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// KillBot kills the process (SIGKILL) instead of striking the request:
	// "before" it is handled or "after" that. It is started again at once,
	// unless StayDown is set.
	KillBot  string `json:"kill_bot"`
	StayDown bool   `json:"stay_down"`
}

// Match says what a fault strikes; empty fields match everything.
type Match struct {
	Method string `json:"method"`
	// Path is a regular expression on the path without prefix and /api/v3.
	Path string `json:"path"`
	// Event is a delivery, e.g. issues.labeled.
	Event string `json:"event"`
	// Nth is the first to be struck, from 1.
	Nth int `json:"nth"`
}
