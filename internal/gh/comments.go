package gh

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

type bodyOnly struct {
	Body string `json:"body"`
}

// Comments implements forge.Comments.
func (c *Client) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	all, err := listAll[github.IssueComment](ctx, c, request{op: "reading the comments of " + ref.String(), path: issuePath(ref, "comments") + "?per_page=100", repo: ref.Repo}, plain)
	if err != nil {
		return nil, err
	}
	return mapped(all, comment), nil
}

// AddComment implements forge.Comments. A body over 65,536 characters is
// KindInvalid; the 2,501st comment of an issue KindDenied.
func (c *Client) AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error) {
	var out github.IssueComment
	err := c.exchange(ctx, request{
		op: "commenting on " + ref.String(), method: http.MethodPost,
		path: issuePath(ref, "comments"), repo: ref.Repo, body: bodyOnly{body},
	}, &out)
	if err != nil {
		return forge.Comment{}, err
	}
	return comment(&out), nil
}

// EditComment implements forge.Comments.
func (c *Client) EditComment(ctx context.Context, r forge.Repo, id int64, body string) (forge.Comment, error) {
	var out github.IssueComment
	err := c.exchange(ctx, request{
		op: fmt.Sprintf("editing comment %d of %s", id, r), method: http.MethodPatch,
		path: repoPath(r, "issues", "comments", strconv.FormatInt(id, 10)), repo: r, body: bodyOnly{body}, safe: true,
	}, &out)
	if err != nil {
		return forge.Comment{}, err
	}
	return comment(&out), nil
}
