package scenario

// Expect is what must be true at the end. Whatever a field does not mention
// is not claimed, except that nothing may ask the world or the model for
// something that does not exist (see Violations).
type Expect struct {
	Issues   []IssueWant      `json:"issues"`
	Pulls    []PullWant       `json:"pulls"`
	Branches []RefWant        `json:"branches"`
	Refs     []RefWant        `json:"refs"` // outside heads and pulls, e.g. refs/pipelinebot/…
	Labels   []RepoLabelWant  `json:"repo_labels"`
	Checks   []CheckWant      `json:"checks"`
	Runs     []RunWant        `json:"runs"`
	Model    map[string]Count `json:"model"` // requests by prompt without version
	Spend    *SpendWant       `json:"spend"`
	Requests []RequestWant    `json:"requests"`
	// Deliveries counts webhook deliveries and their answers.
	Deliveries []DeliveryWant `json:"deliveries"`
	// Starts is how often the bot was started, restarts included.
	Starts *Count `json:"bot_starts"`
	// Never lists what must not have happened at any time.
	Never []NeverWant `json:"never"`
	// Violations are texts that must each be part of some violation; every
	// violation must contain one of them.
	Violations []string `json:"violations"`
}

// IssueWant is about one issue.
type IssueWant struct {
	Repo   string `json:"repo"`   // the first one when empty
	Number int    `json:"number"` // 1 when zero
	// Labels is the exact set, without regard to order; Has and Lacks are
	// parts of it.
	Labels *[]string `json:"labels"`
	Has    []string  `json:"has_labels"`
	Lacks  []string  `json:"lacks_labels"`
	State  string    `json:"state"` // open, closed
	// Comments are claims about the comments other than the status comment.
	Comments []CommentWant `json:"comments"`
	// Status is about the bot's one status comment.
	Status *StatusWant `json:"status"`
}

// CommentWant counts the comments that match.
type CommentWant struct {
	// By is a login; "bot" is the bot's. Empty is anyone.
	By string `json:"by"`
	// Contains lists texts that a comment must all contain to match.
	Contains []string `json:"contains"`
	// Count is how many match; at least one when absent.
	Count *Count `json:"count"`
}

// StatusWant is about the status comment. There must be Count of them, one
// when absent.
type StatusWant struct {
	Contains []string `json:"contains"`
	Excludes []string `json:"excludes"`
	Count    *Count   `json:"count"`
}

// PullWant is about the pull requests that match By, Head and Title.
type PullWant struct {
	Repo string `json:"repo"`
	// By is who opened it; "bot" is the bot. Head is contained in its branch.
	By   string `json:"by"`
	Head string `json:"head"`
	// Count is how many match; one when absent. The claims below are about
	// every one of them.
	Count    *Count   `json:"count"`
	State    string   `json:"state"` // open, closed, merged
	Base     string   `json:"base"`
	Title    []string `json:"title_contains"`
	Body     []string `json:"body_contains"`
	Excludes []string `json:"body_excludes"`
	// Files is the exact set of changed files.
	Files *[]string `json:"files"`
	// Commits counts the commits of the pull request.
	Commits *Count       `json:"commits"`
	Reviews []ReviewWant `json:"reviews"`
	// Content claims what files contain at the head, by path.
	Content map[string]string `json:"content"`
}

// ReviewWant counts the reviews that match.
type ReviewWant struct {
	By       string   `json:"by"`
	State    string   `json:"state"` // APPROVED, CHANGES_REQUESTED, COMMENTED
	Contains []string `json:"contains"`
	Count    *Count   `json:"count"`
}

// RefWant counts branches or references whose name contains a text.
type RefWant struct {
	Repo  string `json:"repo"`
	Name  string `json:"name"`
	Count *Count `json:"count"`
}

// RepoLabelWant counts labels of the repository with a name, case ignored.
type RepoLabelWant struct {
	Repo  string `json:"repo"`
	Name  string `json:"name"`
	Count *Count `json:"count"`
}

// CheckWant counts check runs.
type CheckWant struct {
	Repo       string `json:"repo"`
	Name       string `json:"name"`
	Conclusion string `json:"conclusion"`
	Count      *Count `json:"count"`
}

// RunWant counts the runs that match Issue, Phase, Round, Status, Result and
// Code, and, of those, how often Nodes were completed in total.
type RunWant struct {
	Issue  int    `json:"issue"`
	Phase  string `json:"phase"`
	Round  int    `json:"round"`
	Status string `json:"status"`
	Result string `json:"result"`
	Code   string `json:"code"`
	// Reason is contained in the run's reason.
	Reason string           `json:"reason_contains"`
	Count  *Count           `json:"count"`
	Nodes  map[string]Count `json:"nodes"`
}

// SpendWant bounds what all runs cost together, by the bot's own books.
type SpendWant struct {
	MaxUSD *float64 `json:"max_usd"`
	Tokens *Count   `json:"tokens"`

	flipped bool // claims the opposite; see Mutate
}

// RequestWant counts requests that reached the world.
type RequestWant struct {
	Method string `json:"method"`
	Path   string `json:"path"` // regular expression
	Body   string `json:"body_contains"`
	Status int    `json:"status"`
	Count  *Count `json:"count"`
}

// DeliveryWant counts webhook deliveries.
type DeliveryWant struct {
	Event  string `json:"event"`  // "issues" or "issues.labeled"
	Status int    `json:"status"` // of the answer; 0 is any
	Count  *Count `json:"count"`
}

// NeverWant is one thing that must not have happened; exactly one field is
// set.
type NeverWant struct {
	// Label was put on any issue by the bot, case ignored.
	Label string `json:"label"`
	// Comment was contained in a comment, review or pull request body of the
	// bot.
	Comment string `json:"comment"`
	// Request was made.
	Request *RequestWant `json:"request"`
	// Branch is contained in a branch's name.
	Branch string `json:"branch"`
	// Event is in the log of an issue, made by the bot, e.g. closed.
	Event string `json:"event"`

	flipped bool // claims the opposite; see Mutate
}
