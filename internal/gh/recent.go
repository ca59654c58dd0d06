package gh

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// RecentEvents is the newest hundred entries of the event logs of all issues
// and pull requests of r. Asking again costs no quota while nothing changed.
func (c *Client) RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error) {
	return recent(ctx, c, request{
		op: "reading the newest issue events of " + r.String(), path: repoPath(r, "issues", "events") + "?per_page=100", repo: r,
	}, func(e *github.IssueEvent) forge.RepoEvent {
		return forge.RepoEvent{IssueEvent: issueEvent(e), Number: e.GetIssue().GetNumber()}
	})
}

// RecentComments is the hundred comments of r that were written or edited
// last, on issues and pull requests. Asking again costs no quota while nothing
// changed.
func (c *Client) RecentComments(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoComment], error) {
	return recent(ctx, c, request{
		op: "reading the newest comments of " + r.String(), path: repoPath(r, "issues", "comments") + "?sort=updated&direction=desc&per_page=100", repo: r,
	}, func(e *github.IssueComment) forge.RepoComment {
		_, number, _ := strings.Cut(e.GetIssueURL(), "/issues/")
		n, _ := strconv.Atoi(number)
		return forge.RepoComment{Comment: comment(e), Number: n}
	})
}

func recent[A, B any](ctx context.Context, c *Client, r request, convert func(*A) B) (forge.Recent[B], error) {
	r.forget = true
	a, err := c.send(ctx, r)
	if err != nil {
		return forge.Recent[B]{}, err
	}
	if a.header.Get(unchangedHeader) == forgotten {
		return forge.Recent[B]{Unchanged: true}, nil
	}
	var page []A
	if err := decode(r.op, a.body, &page); err != nil {
		c.tags.unlearn()
		return forge.Recent[B]{}, err
	}
	return forge.Recent[B]{Items: mapped(page, convert), More: nextLink(a.header) != ""}, nil
}
