package mockworld

import (
	"strings"
	"time"
)

// account is a user, bot or organisation.
type account struct {
	id      int64
	login   string
	typ     UserType
	deleted bool
}

// label is a label of a repository; issues point at it, so that a rename
// shows on all of them.
type label struct {
	id          int64
	name        string
	color       string
	description string
}

// comment is an issue comment.
type comment struct {
	id               int64
	issue            *issue
	author           *account
	body             string
	created, updated time.Time
	edits            int
}

// event is an entry of an issue's log. The timeline shows more kinds than
// the event list does.
type event struct {
	id           int64
	kind         string
	actor        *account
	at           time.Time
	label        *label // a copy: the name at the time
	from, to     string // renamed
	commit       string
	lockReason   string
	stateReason  string
	source       *issue   // cross-referenced
	comment      *comment // commented
	review       *review  // reviewed
	reviewer     *account // review_requested
	timelineOnly bool
}

// issue is an issue, or a pull request when pull is set.
type issue struct {
	id               int64
	number           int
	repo             *repository
	title            string
	body             *string
	author           *account
	open             bool
	stateReason      string
	locked           bool
	lockReason       string
	labels           []*label
	comments         []*comment
	events           []*event
	created, updated time.Time
	closedAt         time.Time
	closedBy         *account
	pull             *pull
	gone             bool   // deleted: 410
	movedTo          *issue // transferred: 301
	converted        bool
}

// pull is what a pull request has beyond an issue.
type pull struct {
	id           int64
	head, base   string // branch names
	fork         bool   // head is a branch of the author's fork
	headSHA      string
	baseSHA      string
	draft        bool
	merged       bool
	mergedAt     time.Time
	mergedBy     *account
	mergeSHA     string
	mergeChecked string // "base..head" for which mergeable has been asked once
	reviews      []*review
	requested    []*account // to review it
	lineComments []*lineComment
}

// review is a review of a pull request.
type review struct {
	id     int64
	author *account
	state  string
	body   string
	sha    string
	at     time.Time
}

// lineComment is a review comment on the diff.
type lineComment struct {
	id       int64
	review   *review
	author   *account
	path     string
	line     int
	start    int // of several lines, else 0
	side     string
	position int
	hunk     string
	body     string
	sha      string
	at       time.Time
	edited   time.Time
	replyTo  int64
}

// checkRun is a check run of a commit.
type checkRun struct {
	id, suite          int64
	app                *app
	name, sha          string
	status, conclusion string
	externalID         string
	detailsURL         string
	title, summary     *string
	text               *string
	annotations        int
	started, completed time.Time
}

// status is a commit status.
type status struct {
	id                     int64
	sha, context, state    string
	description, targetURL *string
	creator                *account
	created                time.Time
}

// hookEntry is a webhook with its queue.
type hookEntry struct {
	id    int64
	spec  HookSpec
	queue []*delivery
	wake  chan struct{}
	late  *delivery // reordered: goes out after the next

	created  time.Time
	inactive bool
}

// repository is a repository.
type repository struct {
	id            int64
	owner         *account
	name          string
	private       bool
	archived      bool
	defaultBranch string
	created       time.Time
	pushed        time.Time
	nextNumber    int
	issues        map[int]*issue
	comments      map[int64]*comment
	labels        []*label
	roles         map[string]Role // by lower-case login
	refs          map[string]string
	checks        []*checkRun
	statuses      []*status
	git           *gitRepo
}

func (r *repository) full() string { return r.owner.login + "/" + r.name }

func key(s string) string { return strings.ToLower(s) }

func (r *repository) label(name string) *label {
	for _, l := range r.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

func (i *issue) has(name string) *label {
	for _, l := range i.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

// app is a GitHub App and its installation.
type app struct {
	id       int64
	clientID string
	slug     string
	account  *account
	perms    map[string]string
	key      any // *rsa.PublicKey
	install  int64
	repos    map[int64]bool
	created  time.Time

	suspendedBy *account // nil: it is not
	suspendedAt time.Time
}

// token is anything that a request may present as a bearer.
type token struct {
	secret  string
	account *account
	app     *app // of an installation token
	classic bool
	scopes  []string
	perms   map[string]string
	repos   map[int64]bool // nil: all
	expires time.Time
	revoked bool
}
