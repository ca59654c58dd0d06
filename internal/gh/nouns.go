package gh

import (
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// The conversions in this file take whatever the API may leave out or null:
// deleted accounts, empty bodies, vanished forks.

func actor(u *github.User) forge.Actor {
	if u == nil || u.GetLogin() == "" && u.GetID() == 0 {
		return forge.Actor{Login: "ghost"}
	}
	return forge.Actor{ID: u.GetID(), Login: u.GetLogin(), Bot: isBot(u.GetType(), u.GetLogin())}
}

func isBot(kind, login string) bool { return kind == "Bot" || strings.HasSuffix(login, "[bot]") }

func repository(r *github.Repository) forge.Repository {
	name := forge.Repo{Owner: r.GetOwner().GetLogin(), Name: r.GetName()}
	if full, err := forge.ParseRepo(r.GetFullName()); err == nil {
		name = full
	}
	return forge.Repository{
		Repo: name, ID: r.GetID(), DefaultBranch: r.GetDefaultBranch(),
		CloneURL: r.GetCloneURL(), HTMLURL: r.GetHTMLURL(),
		Private: r.GetPrivate(), Archived: r.GetArchived(),
	}
}

// issue takes the repository's name from the answer, which knows its present
// name and its case; asked stands in when the answer does not say.
func issue(asked forge.Repo, i *github.Issue) forge.Issue {
	labels := make([]string, 0, len(i.Labels))
	for _, l := range i.Labels {
		if l.GetName() != "" {
			labels = append(labels, l.GetName())
		}
	}
	return forge.Issue{
		Ref: forge.Ref{Repo: repoOf(asked, i.GetRepositoryURL()), Number: i.GetNumber()},
		ID:  i.GetID(), Title: i.GetTitle(), Body: i.GetBody(), Author: actor(i.User),
		Open: i.GetState() == "open", Locked: i.GetLocked(), Pull: i.IsPullRequest(),
		Labels: labels, HTMLURL: i.GetHTMLURL(),
		Created: i.GetCreatedAt().UTC(), Updated: i.GetUpdatedAt().UTC(),
	}
}

// repoOf reads the end of ".../repos/OWNER/NAME".
func repoOf(asked forge.Repo, address string) forge.Repo {
	parts := strings.Split(strings.TrimSuffix(address, "/"), "/")
	if n := len(parts); n >= 3 && parts[n-3] == "repos" {
		if r, err := forge.ParseRepo(parts[n-2] + "/" + parts[n-1]); err == nil {
			return r
		}
	}
	return asked
}

func comment(c *github.IssueComment) forge.Comment {
	return forge.Comment{
		ID: c.GetID(), Author: actor(c.User), Body: c.GetBody(), HTMLURL: c.GetHTMLURL(),
		Created: c.GetCreatedAt().UTC(), Updated: c.GetUpdatedAt().UTC(),
	}
}

func issueEvent(e *github.IssueEvent) forge.IssueEvent {
	return forge.IssueEvent{
		ID: e.GetID(), Kind: e.GetEvent(), Label: e.GetLabel().GetName(),
		Actor: actor(e.Actor), At: e.GetCreatedAt().UTC(),
	}
}

func label(l *github.Label) forge.Label {
	return forge.Label{Name: l.GetName(), Color: l.GetColor(), Description: l.GetDescription()}
}

func pull(asked forge.Repo, p *github.PullRequest) forge.Pull {
	in := asked
	if full, err := forge.ParseRepo(p.GetBase().GetRepo().GetFullName()); err == nil {
		in = full
	}
	return forge.Pull{
		Ref: forge.Ref{Repo: in, Number: p.GetNumber()}, Title: p.GetTitle(), Body: p.GetBody(),
		Author: actor(p.User), Open: p.GetState() == "open",
		// Listings have no "merged"; they have the time of it.
		Merged: p.GetMerged() || p.MergedAt != nil, Draft: p.GetDraft(),
		Head: p.GetHead().GetRef(), HeadSHA: p.GetHead().GetSHA(),
		Base: p.GetBase().GetRef(), BaseSHA: p.GetBase().GetSHA(), HTMLURL: p.GetHTMLURL(),
	}
}

func review(r *github.PullRequestReview) forge.Review {
	return forge.Review{ID: r.GetID(), Author: actor(r.User), State: r.GetState(), Body: r.GetBody(), SHA: r.GetCommitID()}
}

// mapped converts a listing.
func mapped[A, B any](in []A, f func(*A) B) []B {
	out := make([]B, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}
