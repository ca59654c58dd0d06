package mockworld

import "time"

// UserType is the kind of an account, as in the field "type" of users.
type UserType string

// The types of accounts.
const (
	User         UserType = "User"
	Bot          UserType = "Bot"
	Organization UserType = "Organization"
)

// Role is what an account may do in a repository.
type Role string

// The roles, weakest first. NoRole on a public repository still reads,
// comments and opens issues.
const (
	NoRole       Role = "none"
	RoleRead     Role = "read"
	RoleTriage   Role = "triage"
	RoleWrite    Role = "write"
	RoleMaintain Role = "maintain"
	RoleAdmin    Role = "admin"
)

// RepoSpec describes a repository to add.
type RepoSpec struct {
	Owner string
	Name  string
	// Private repositories answer 404 to those without a role.
	Private bool
	// DefaultBranch is "main" when empty.
	DefaultBranch string
	// Files is the content of one first commit, path to content. With
	// Commits too, it comes first.
	Files map[string]string
	// Commits are further commits, oldest first. An empty Branch is the
	// default branch.
	Commits []CommitSpec
	// Labels are the labels the repository starts with.
	Labels []LabelSpec
	// Roles gives roles by login; accounts that are missing are added as
	// User.
	Roles map[string]Role
}

// CommitSpec describes a commit. Author, committer and dates are fixed by the
// world, so that equal histories have equal SHAs on each run.
type CommitSpec struct {
	// Actor is the login that pushes; the owner of the repository if empty.
	Actor string
	// Branch is the branch to move or create; the default branch if empty.
	Branch string
	// From is where a new branch starts (branch or SHA); the default branch
	// if empty. With Force it is also where an existing branch is moved.
	From  string
	Force bool
	// Message is "Update files" when empty.
	Message string
	// Files are written (path to content), Executable ones with mode 755.
	Files      map[string]string
	Executable map[string]string
	// Symlinks maps a path to its target, Submodules a path to a commit SHA.
	Symlinks   map[string]string
	Submodules map[string]string
	// Delete lists paths to remove.
	Delete []string
}

// LabelSpec is a label of a repository; Color is six hex digits, "ededed"
// when empty.
type LabelSpec struct {
	Name        string
	Color       string
	Description string
}

// TokenSpec is a personal access token.
type TokenSpec struct {
	// Token is the secret text.
	Token string
	// Login is the account that acts.
	Login string
	// Permissions makes it fine-grained: name ("issues", "contents",
	// "pull_requests", "checks", "statuses", "workflows", "administration",
	// "metadata") to "read" or "write". Nil is a classic token: all that the
	// role of the account allows, workflow files only with Scopes "workflow".
	Permissions map[string]string
	// Scopes are a classic token's scopes, "repo" when nil.
	Scopes []string
	// Repos limits a fine-grained token to "owner/name" repositories; nil is
	// all.
	Repos []string
	// Expires is when it stops working; never when zero.
	Expires time.Time
}

// AppSpec is a GitHub App with one installation.
type AppSpec struct {
	ID       int64
	ClientID string
	// Slug names the app; its account is Slug + "[bot]".
	Slug string
	// PublicKeyPEM is the RSA public key (PKIX or PKCS#1) that its JWTs are
	// verified with.
	PublicKeyPEM string
	// Permissions is what the installation grants, as in TokenSpec.
	Permissions map[string]string
	// InstallationID names the installation.
	InstallationID int64
	// Repos are the "owner/name" repositories it is installed on.
	Repos []string
}

// HookSpec is a webhook.
type HookSpec struct {
	// Repo is "owner/name", or empty for all repositories (an app's hook).
	Repo   string
	URL    string // loopback only
	Secret string
	// Events limits it to names such as "issues"; nil is all.
	Events []string
	// AppID, when set, makes it the hook of an app: its payloads carry the
	// installation, and it sees only the repositories of the installation.
	AppID int64
}

// IssueSpec is an issue that someone opens.
type IssueSpec struct {
	Repo   string // "owner/name"
	Author string
	Title  string
	Body   string
	// NoBody makes the body null, as GitHub has it when none was written.
	NoBody bool
	Labels []string
}

// PullSpec is a pull request that someone opens from a branch of the
// repository.
type PullSpec struct {
	Repo   string
	Author string
	Title  string
	Body   string
	Head   string // branch
	Base   string // the default branch when empty
	Draft  bool
	// ForkFiles makes it a pull request from the author's fork: Head is then a
	// branch there, with one commit of these files on top of Base. In the
	// repository the commit is only below refs/pull.
	ForkFiles map[string]string
}

// IssueEdit changes an issue or pull request; nil leaves a field.
type IssueEdit struct {
	Title *string
	Body  *string
}

// CheckSpec is a check run as CI reports it. A run of the same name and App
// at the same SHA is updated.
type CheckSpec struct {
	// SHA is a commit, or a branch whose head is meant.
	SHA  string
	Name string
	// App is the slug of the app that reports, "github-actions" when empty.
	App string
	// Status is queued, in_progress or completed; completed when empty and
	// Conclusion is set.
	Status string
	// Conclusion is success, failure, neutral, cancelled, skipped,
	// timed_out, action_required or stale.
	Conclusion string
	Title      string
	Summary    string
}

// StatusSpec is a commit status.
type StatusSpec struct {
	SHA         string // commit or branch
	Actor       string
	Context     string // "default" when empty
	State       string // error, failure, pending, success
	Description string
	TargetURL   string
}

// ReviewSpec is a review by a person.
type ReviewSpec struct {
	Actor    string
	Event    string // APPROVE, REQUEST_CHANGES, COMMENT
	Body     string
	Comments []LineComment
}

// LineComment is a review comment on a line of the new side of the diff.
type LineComment struct {
	Path string
	Line int
	Body string
}
