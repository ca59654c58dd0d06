package forge

// RepoEvent is an entry of the event logs of all issues of a repository.
type RepoEvent struct {
	IssueEvent
	// Number is the issue's, 0 when it is gone.
	Number int `json:"number"`
}

// RepoComment is a comment on any issue of a repository.
type RepoComment struct {
	Comment
	// Number is the issue's.
	Number int `json:"number"`
}

// Recent is the newest part of a listing, newest first.
type Recent[T any] struct {
	// Unchanged means that it is what was read last, at no cost; Items is
	// empty then.
	Unchanged bool
	Items     []T
	// More means that the listing goes on with older entries.
	More bool
}
