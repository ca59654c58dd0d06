package gh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// Repository implements forge.Reader. The name in the answer is the present
// one, after a rename too.
func (c *Client) Repository(ctx context.Context, r forge.Repo) (forge.Repository, error) {
	op := "reading repository " + r.String()
	var out github.Repository
	if err := c.get(ctx, request{op: op, path: repoPath(r), repo: r}, &out); err != nil {
		return forge.Repository{}, err
	}
	got := repository(&out)
	if got.Repo.Name == "" {
		got.Repo = r
	}
	return got, nil
}

// Issue implements forge.Reader. A redirect is followed when the repository
// was renamed, and is KindNotFound when the issue was transferred.
func (c *Client) Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error) {
	op := "reading issue " + ref.String()
	var out github.Issue
	if err := c.get(ctx, request{op: op, path: issuePath(ref), repo: ref.Repo}, &out); err != nil {
		return forge.Issue{}, err
	}
	if out.Labels == nil {
		return forge.Issue{}, noLabels(op)
	}
	got := issue(ref.Repo, &out)
	if sameRef(got.Ref, ref) {
		return got, nil
	}
	if got.Ref.Number == ref.Number {
		now, err := c.Repository(ctx, ref.Repo)
		if err != nil {
			return forge.Issue{}, err
		}
		if sameRepo(now.Repo, got.Ref.Repo) {
			return got, nil
		}
	}
	return forge.Issue{}, &forge.Error{Kind: forge.KindNotFound, Op: op, Status: http.StatusMovedPermanently, Err: fmt.Errorf("it was transferred to %s", got.Ref)}
}

// noLabels refuses an answer cut short: no list is not an empty list.
func noLabels(op string) error {
	return &forge.Error{Kind: forge.KindTransient, Op: op, Status: http.StatusOK, Err: errors.New("the answer holds no list of labels")}
}

// IssuesByLabel lists the open issues of r that have the label, pull requests
// left out, those updated last first.
func (c *Client) IssuesByLabel(ctx context.Context, r forge.Repo, name string) ([]forge.Issue, error) {
	op := fmt.Sprintf("listing issues of %s labelled %s", r, name)
	q := url.Values{"labels": {name}, "state": {"open"}, "sort": {"updated"}, "direction": {"desc"}, "per_page": {"100"}}
	all, err := listAll[github.Issue](ctx, c, request{op: op, path: repoPath(r, "issues") + "?" + q.Encode(), repo: r}, plain)
	if err != nil {
		return nil, err
	}
	out := make([]forge.Issue, 0, len(all))
	for i := range all {
		if all[i].Labels == nil {
			return nil, noLabels(op)
		}
		if got := issue(r, &all[i]); !got.Pull {
			out = append(out, got)
		}
	}
	return out, nil
}

// Events implements forge.Reader.
func (c *Client) Events(ctx context.Context, ref forge.Ref) ([]forge.IssueEvent, error) {
	all, err := listAll[github.IssueEvent](ctx, c, request{op: "reading the events of " + ref.String(), path: issuePath(ref, "events") + "?per_page=100", repo: ref.Repo}, plain)
	if err != nil {
		return nil, err
	}
	out := mapped(all, issueEvent)
	slices.SortStableFunc(out, func(a, b forge.IssueEvent) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Permission implements forge.Reader. A custom role counts as its base
// permission.
func (c *Client) Permission(ctx context.Context, r forge.Repo, login string) (forge.Permission, error) {
	if login == "" {
		return forge.None, nil
	}
	op := fmt.Sprintf("reading the permission of %s in %s", login, r)
	var out github.RepositoryPermissionLevel
	err := c.get(ctx, request{op: op, path: repoPath(r, "collaborators", login, "permission"), repo: r}, &out)
	if forge.IsKind(err, forge.KindNotFound) {
		return forge.None, nil // no such account, or nobody who may know of it
	}
	if err != nil {
		return forge.None, err
	}
	for _, word := range []string{out.GetRoleName(), out.GetPermission()} {
		if p, err := forge.ParsePermission(word); err == nil {
			return p, nil
		}
	}
	return forge.None, &forge.Error{Kind: forge.KindInvalid, Op: op, Status: http.StatusOK,
		Err: fmt.Errorf("the role %q with permission %q is unknown", out.GetRoleName(), out.GetPermission())}
}

// Self implements forge.Reader. An App acts as "slug[bot]".
func (c *Client) Self(ctx context.Context) (forge.Actor, error) {
	c.mu.Lock()
	known := c.self
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	op, path := "reading the bot's own account", "user"
	if a, ok := c.auth.(*appAuth); ok {
		var app github.App
		if err := c.get(ctx, request{op: "reading the App", path: "app", cred: &a.self}, &app); err != nil {
			return forge.Actor{}, err
		}
		path = "users/" + url.PathEscape(app.GetSlug()+"[bot]")
	}
	var out github.User
	if err := c.get(ctx, request{op: op, path: path}, &out); err != nil {
		return forge.Actor{}, err
	}
	self := actor(&out)
	if self.ID == 0 {
		return forge.Actor{}, &forge.Error{Kind: forge.KindTransient, Op: op, Err: errors.New("the answer holds no account")}
	}
	c.mu.Lock()
	c.self = &self
	c.mu.Unlock()
	return self, nil
}

func issuePath(ref forge.Ref, segments ...string) string {
	return repoPath(ref.Repo, append([]string{"issues", strconv.Itoa(ref.Number)}, segments...)...)
}

func sameRepo(a, b forge.Repo) bool { return strings.EqualFold(a.String(), b.String()) }

func sameRef(a, b forge.Ref) bool { return a.Number == b.Number && sameRepo(a.Repo, b.Repo) }
