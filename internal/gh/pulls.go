package gh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// PullsByHead implements forge.Pulls.
func (c *Client) PullsByHead(ctx context.Context, r forge.Repo, branch string) ([]forge.Pull, error) {
	q := url.Values{"head": {r.Owner + ":" + branch}, "state": {"all"}, "per_page": {"100"}}
	all, err := listAll[github.PullRequest](ctx, c, request{op: fmt.Sprintf("listing pull requests of branch %s in %s", branch, r), path: repoPath(r, "pulls") + "?" + q.Encode(), repo: r}, plain)
	if err != nil {
		return nil, err
	}
	out := make([]forge.Pull, 0, len(all))
	for i := range all {
		if p := pull(r, &all[i]); p.Head == branch { // an older server ignores an unknown head
			out = append(out, p)
		}
	}
	return out, nil
}

// Pull implements forge.Pulls.
func (c *Client) Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error) {
	var out github.PullRequest
	if err := c.get(ctx, request{op: "reading pull request " + ref.String(), path: pullPath(ref), repo: ref.Repo}, &out); err != nil {
		return forge.Pull{}, err
	}
	return pull(ref.Repo, &out), nil
}

// OpenPull implements forge.Pulls.
func (c *Client) OpenPull(ctx context.Context, r forge.Repo, p forge.NewPull) (forge.Pull, error) {
	op := fmt.Sprintf("opening a pull request of %s in %s", p.Head, r)
	var out github.PullRequest
	err := c.exchange(ctx, request{
		op: op, method: http.MethodPost, path: repoPath(r, "pulls"), repo: r,
		body: struct {
			Title string `json:"title"`
			Head  string `json:"head"`
			Base  string `json:"base"`
			Body  string `json:"body"`
			Draft bool   `json:"draft"`
		}{p.Title, p.Head, p.Base, p.Body, p.Draft},
	}, &out)
	if forge.IsKind(err, forge.KindInvalid) {
		// GitHub says "already exists" in prose only: look.
		if open, lookErr := c.openFor(ctx, r, p.Head); lookErr == nil && open != 0 {
			return forge.Pull{}, &forge.Error{Kind: forge.KindConflict, Op: op, Status: http.StatusUnprocessableEntity, Err: fmt.Errorf("#%d is open for it", open)}
		}
	}
	if err != nil {
		return forge.Pull{}, err
	}
	return pull(r, &out), nil
}

func (c *Client) openFor(ctx context.Context, r forge.Repo, branch string) (int, error) {
	all, err := c.PullsByHead(ctx, r, branch)
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.Open {
			return p.Ref.Number, nil
		}
	}
	return 0, nil
}

// PullFile is one file that a pull request changes.
type PullFile struct {
	Path string `json:"path"`
	// Previous is the path before a rename.
	Previous string `json:"previous,omitempty"`
	// Status is GitHub's word: added, removed, modified, renamed …
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	// Patch is "" for binary files and for big ones, which GitHub leaves out.
	Patch string `json:"patch,omitempty"`
}

// PullFiles lists the files of a pull request; GitHub tells 3,000 at most.
func (c *Client) PullFiles(ctx context.Context, ref forge.Ref) ([]PullFile, error) {
	all, err := listAll[github.CommitFile](ctx, c, request{op: "listing the files of " + ref.String(), path: pullPath(ref, "files") + "?per_page=100", repo: ref.Repo}, plain)
	if err != nil {
		return nil, err
	}
	return mapped(all, func(f *github.CommitFile) PullFile {
		return PullFile{
			Path: f.GetFilename(), Previous: f.GetPreviousFilename(), Status: f.GetStatus(),
			Additions: f.GetAdditions(), Deletions: f.GetDeletions(), Patch: f.GetPatch(),
		}
	}), nil
}

// Reviews implements forge.Reviews.
func (c *Client) Reviews(ctx context.Context, ref forge.Ref) ([]forge.Review, error) {
	all, err := listAll[github.PullRequestReview](ctx, c, request{op: "listing the reviews of " + ref.String(), path: pullPath(ref, "reviews") + "?per_page=100", repo: ref.Repo}, plain)
	if err != nil {
		return nil, err
	}
	return mapped(all, review), nil
}

type reviewComment struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Side string `json:"side"`
	Body string `json:"body"`
}

// AddReview implements forge.Reviews.
func (c *Client) AddReview(ctx context.Context, ref forge.Ref, n forge.NewReview) (forge.Review, error) {
	comments := make([]reviewComment, len(n.Comments))
	for i, l := range n.Comments {
		comments[i] = reviewComment{l.Path, l.Line, "RIGHT", l.Body}
	}
	var out github.PullRequestReview
	err := c.exchange(ctx, request{
		op: "reviewing " + ref.String(), method: http.MethodPost, path: pullPath(ref, "reviews"), repo: ref.Repo,
		body: struct {
			CommitID string          `json:"commit_id,omitempty"`
			Event    string          `json:"event"`
			Body     string          `json:"body"`
			Comments []reviewComment `json:"comments,omitempty"`
		}{n.SHA, n.Event, n.Body, comments},
	}, &out)
	if err == nil {
		return review(&out), nil
	}
	var e *forge.Error
	if errors.As(err, &e) && e.Kind == forge.KindInvalid && (n.Event != "COMMENT" || len(comments) > 0) {
		e.Err = fmt.Errorf("%w (an author can't %s their own pull request, and comments must sit on lines of the diff)", e.Err, n.Event)
	}
	return forge.Review{}, err
}

func pullPath(ref forge.Ref, segments ...string) string {
	return repoPath(ref.Repo, append([]string{"pulls", strconv.Itoa(ref.Number)}, segments...)...)
}
