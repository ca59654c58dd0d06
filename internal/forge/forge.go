// Package forge holds the nouns of a code forge (GitHub) and the few
// interfaces through which the product acts on it.
//
// It must not know HTTP, go-github or the pipeline, and imports only the
// standard library. The driver is internal/gh.
package forge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Repo names a repository.
type Repo struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// String is "owner/name".
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// ParseRepo reads "owner/name".
func ParseRepo(s string) (Repo, error) {
	owner, name, ok := strings.Cut(s, "/")
	if !ok || owner == "" || name == "" || strings.ContainsAny(s, " \t\n#?%\\") || strings.Contains(name, "/") {
		return Repo{}, fmt.Errorf("repository %q: want owner/name", s)
	}
	return Repo{owner, name}, nil
}

// Ref names an issue or pull request of a repository.
type Ref struct {
	Repo   Repo `json:"repo"`
	Number int  `json:"number"`
}

// String is "owner/name#7"; it is the business key of a run.
func (r Ref) String() string { return r.Repo.String() + "#" + strconv.Itoa(r.Number) }

// ParseRef reads "owner/name#7".
func ParseRef(s string) (Ref, error) {
	repo, num, ok := strings.Cut(s, "#")
	n, err := strconv.Atoi(num)
	if !ok || err != nil || n <= 0 {
		return Ref{}, fmt.Errorf("issue %q: want owner/name#number", s)
	}
	r, err := ParseRepo(repo)
	return Ref{r, n}, err
}

// IssueRef is the reference to an issue of the repository "owner/name".
func IssueRef(repo string, number int) (Ref, error) {
	r, err := ParseRepo(repo)
	if err == nil && number <= 0 {
		err = fmt.Errorf("issue %s#%d: want a number above 0", repo, number)
	}
	return Ref{r, number}, err
}

// Actor is who did something. A deleted account has ID 0 and Login "ghost".
type Actor struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	// Bot is true for accounts of type Bot (and logins ending in "[bot]").
	Bot bool `json:"bot"`
}

// Permission is what a person may do in a repository, ordered.
type Permission int

// The permissions, weakest first, as the collaborator-permission API gives
// them in role_name (a custom role counts as its base permission).
const (
	None Permission = iota
	Read
	Triage
	Write
	Maintain
	Admin
)

var permissionNames = [...]string{"none", "read", "triage", "write", "maintain", "admin"}

// String is the API's word.
func (p Permission) String() string {
	if p < 0 || int(p) >= len(permissionNames) {
		return "permission(" + strconv.Itoa(int(p)) + ")"
	}
	return permissionNames[p]
}

// ParsePermission reads the API's word.
func ParsePermission(s string) (Permission, error) {
	for i, n := range permissionNames {
		if n == s {
			return Permission(i), nil
		}
	}
	return None, fmt.Errorf("permission %q: want one of %s", s, strings.Join(permissionNames[:], ", "))
}

// Repository is what is known of a repository.
type Repository struct {
	Repo          Repo   `json:"repo"`
	ID            int64  `json:"id"`
	DefaultBranch string `json:"default_branch"`
	// CloneURL is the HTTPS address without credentials.
	CloneURL string `json:"clone_url"`
	HTMLURL  string `json:"html_url"`
	Private  bool   `json:"private"`
	Archived bool   `json:"archived"`
}

// Issue is an issue or, when Pull, a pull request seen as one.
type Issue struct {
	Ref     Ref       `json:"ref"`
	ID      int64     `json:"id"`
	Title   string    `json:"title"`
	Body    string    `json:"body"`
	Author  Actor     `json:"author"`
	Open    bool      `json:"open"`
	Locked  bool      `json:"locked"`
	Pull    bool      `json:"pull"`
	Labels  []string  `json:"labels"`
	HTMLURL string    `json:"html_url"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Comment is a comment on an issue.
type Comment struct {
	ID      int64     `json:"id"`
	Author  Actor     `json:"author"`
	Body    string    `json:"body"`
	HTMLURL string    `json:"html_url"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// IssueEvent is one entry of an issue's event log.
type IssueEvent struct {
	ID int64 `json:"id"`
	// Kind is GitHub's word: labeled, unlabeled, closed, reopened, locked,
	// unlocked, transferred, converted_to_discussion, renamed …
	Kind  string    `json:"kind"`
	Label string    `json:"label,omitempty"`
	Actor Actor     `json:"actor"`
	At    time.Time `json:"at"`
}

// Label is a label of a repository.
type Label struct {
	Name        string `json:"name"`
	Color       string `json:"color"` // six hex digits
	Description string `json:"description"`
}

// Pull is a pull request.
type Pull struct {
	Ref     Ref    `json:"ref"`
	Title   string `json:"title"`
	Body    string `json:"body"`
	Author  Actor  `json:"author"`
	Open    bool   `json:"open"`
	Merged  bool   `json:"merged"`
	Draft   bool   `json:"draft"`
	Head    string `json:"head"`     // branch name
	HeadSHA string `json:"head_sha"` // commit
	Base    string `json:"base"`     // branch name
	BaseSHA string `json:"base_sha"`
	HTMLURL string `json:"html_url"`
}

// NewPull asks for a pull request inside one repository.
type NewPull struct {
	Title, Body, Head, Base string
	Draft                   bool
}

// Review is a review of a pull request.
type Review struct {
	ID     int64  `json:"id"`
	Author Actor  `json:"author"`
	State  string `json:"state"` // APPROVED, CHANGES_REQUESTED, COMMENTED
	Body   string `json:"body"`
	SHA    string `json:"sha"`
}

// NewReview asks for a review. Event is APPROVE, REQUEST_CHANGES or COMMENT;
// an author may only COMMENT on their own pull request.
type NewReview struct {
	SHA, Event, Body string
	Comments         []LineComment
}

// LineComment sits on a line of the new side of the diff.
type LineComment struct {
	Path string
	Line int
	Body string
}

// Check is the state of one CI result at a commit: a check run or a status.
type Check struct {
	Name string `json:"name"`
	// Done is false while it runs or waits.
	Done bool `json:"done"`
	// Conclusion is GitHub's word: success, failure, neutral, cancelled,
	// skipped, timed_out, action_required; statuses map to success/failure.
	Conclusion string `json:"conclusion"`
	// Own is true for the bot's own check run.
	Own bool `json:"own"`
}

// EventKind is what happened on the forge, as the pipeline sees it.
type EventKind string

// The event kinds.
const (
	Labeled       EventKind = "labeled"
	Unlabeled     EventKind = "unlabeled"
	IssueClosed   EventKind = "closed"
	IssueReopened EventKind = "reopened"
	IssueEdited   EventKind = "edited"
	IssueLocked   EventKind = "locked"
	IssueGone     EventKind = "gone" // transferred, deleted, converted
	Commented     EventKind = "commented"
	CommentEdited EventKind = "comment_edited"
	PullClosed    EventKind = "pull_closed"
	// IssueOpened is a new issue (or one transferred in).
	IssueOpened EventKind = "opened"
	// Reviewed is a review, or a comment on a line, of a pull request: Pull,
	// SHA and Head are set.
	Reviewed EventKind = "reviewed"
	// ChecksChanged is a check run, a check suite or a status that changed:
	// SHA is set, Pull and Head when the source names them.
	ChecksChanged EventKind = "checks_changed"
	// Pushed is a push to a branch (Head, SHA), or a pull request that got
	// new commits (Pull as well).
	Pushed EventKind = "pushed"
	// LabelChanged is a label of the repository that was created, edited or
	// deleted: Label is its present name, Was the one before, Action says
	// which.
	LabelChanged EventKind = "label_changed"
	// RepoChanged is a repository that was renamed, transferred, archived,
	// deleted …: Issue.Repo is its present name, Was the one before.
	RepoChanged EventKind = "repo_changed"
	// InstallationChanged is an App's installation that was made, suspended,
	// deleted, or whose repositories or permissions changed.
	InstallationChanged EventKind = "installation_changed"
	// MemberChanged is a collaborator who came, went or changed.
	MemberChanged EventKind = "member_changed"
	// ManualRun, ManualCancel, ManualResume and ManualFork are an operator's
	// commands at the bot's own machine: `pipelinebot run`, `runs cancel`,
	// `runs resume`, `runs fork`.
	ManualRun    EventKind = "manual_run"
	ManualCancel EventKind = "manual_cancel"
	ManualResume EventKind = "manual_resume"
	ManualFork   EventKind = "manual_fork"
)

// Event is one thing that happened, from a webhook, the poller or an operator.
type Event struct {
	Kind EventKind `json:"kind"`
	// Issue has the number 0 when the event names none: it concerns a commit,
	// a branch or the repository as a whole. A pull request's events name it
	// in Pull, too.
	Issue Ref   `json:"issue"`
	Actor Actor `json:"actor"`
	// Label is set for Labeled, Unlabeled and ManualRun.
	Label string `json:"label,omitempty"`
	// Comment is set for Commented and CommentEdited.
	Comment *Comment `json:"comment,omitempty"`
	// Merged is set for PullClosed.
	Merged bool `json:"merged,omitempty"`
	// Action is the forge's own word for what happened, for the kinds that
	// hold several: "synchronize", "completed", "renamed", "suspend" …
	Action string `json:"action,omitempty"`
	// Pull is the number of the pull request that the event concerns, Head
	// its (or the push's) branch, SHA the commit; each empty when unknown.
	Pull int    `json:"pull,omitempty"`
	Head string `json:"head,omitempty"`
	SHA  string `json:"sha,omitempty"`
	// RepoID is the repository's id, which stays when its name changes; 0
	// when unknown. Was is the name before, for what was renamed: a label's,
	// or a repository's as "owner/name".
	RepoID int64  `json:"repo_id,omitempty"`
	Was    string `json:"was,omitempty"`
	// Installation is the App's installation, 0 when unknown.
	Installation int64 `json:"installation,omitempty"`
	// LogID is the issue event's id when the source knows it (the poller
	// does, webhooks do not).
	LogID int64     `json:"log_id,omitempty"`
	At    time.Time `json:"at"`
	// Source is "webhook", "poll" or "cli".
	Source string `json:"source"`
	// Order is set for an operator's commands.
	Order *Order `json:"order,omitempty"`
}

// Order is what an operator's command says beyond its kind.
type Order struct {
	// By is the operator's name at the machine.
	By string `json:"by,omitempty"`
	// Run is the run that is cancelled or forked; "" is the issue's open one.
	Run string `json:"run,omitempty"`
	// Flow is the flow to start instead of the phase's own, Shadow that it
	// runs without any outside write.
	Flow   string `json:"flow,omitempty"`
	Shadow bool   `json:"shadow,omitempty"`
	// Node is where a fork begins, Set what is changed in its state.
	Node string                     `json:"node,omitempty"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
}
