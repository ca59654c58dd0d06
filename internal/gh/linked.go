package gh

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-github/v66/github"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// maxLinked is how many linked pull requests are read, the newest first.
const maxLinked = 30

// closing are the words of
// https://docs.github.com/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue
// in front of "#7", "owner/name#7" or the issue's address.
var closing = regexp.MustCompile(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:([\w.-]+/[\w.-]+)?#(\d+)|https?://[^\s/]+(?:/[^\s/]+)*?/([\w.-]+/[\w.-]+)/issues/(\d+))\b`)

// LinkedPulls implements forge.Pulls: those that the issue's timeline names,
// and those whose text says that they close it; newest first.
func (c *Client) LinkedPulls(ctx context.Context, ref forge.Ref) ([]forge.Pull, error) {
	numbers, err := c.fromTimeline(ctx, ref)
	if err != nil {
		return nil, err
	}
	recent, err := c.recentPulls(ctx, ref.Repo)
	if err != nil {
		return nil, err
	}
	known := map[int]forge.Pull{}
	for _, p := range recent {
		known[p.Ref.Number] = p
		if closes(p.Body, ref) {
			numbers = append(numbers, p.Ref.Number)
		}
	}
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(b, a) })
	numbers = slices.Compact(numbers)
	out := []forge.Pull{}
	for _, n := range numbers[:min(len(numbers), maxLinked)] {
		p, ok := known[n]
		if !ok {
			if p, err = c.Pull(ctx, forge.Ref{Repo: ref.Repo, Number: n}); forge.IsKind(err, forge.KindNotFound) {
				continue // deleted, or it never was one
			} else if err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// fromTimeline finds pull requests of the same repository that mention the
// issue or were connected to it by hand.
func (c *Client) fromTimeline(ctx context.Context, ref forge.Ref) ([]int, error) {
	all, err := listAll[github.Timeline](ctx, c, request{op: "reading the timeline of " + ref.String(), path: issuePath(ref, "timeline") + "?per_page=100", repo: ref.Repo}, plain)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range all {
		src := e.GetSource().GetIssue()
		if kind := e.GetEvent(); kind != "cross-referenced" && kind != "connected" || src == nil || !src.IsPullRequest() {
			continue
		}
		from := repoOf(forge.Repo{}, src.GetRepositoryURL())
		if full, err := forge.ParseRepo(src.GetRepository().GetFullName()); err == nil {
			from = full
		}
		if sameRepo(from, ref.Repo) && src.GetNumber() != ref.Number {
			out = append(out, src.GetNumber())
		}
	}
	return out, nil
}

// recentPulls is one page, the last updated first: a link older than that is
// in the timeline.
func (c *Client) recentPulls(ctx context.Context, r forge.Repo) ([]forge.Pull, error) {
	q := url.Values{"state": {"all"}, "sort": {"updated"}, "direction": {"desc"}, "per_page": {"100"}}
	var all []github.PullRequest
	if err := c.get(ctx, request{op: fmt.Sprintf("listing the pull requests of %s", r), path: repoPath(r, "pulls") + "?" + q.Encode(), repo: r}, &all); err != nil {
		return nil, err
	}
	return mapped(all, func(p *github.PullRequest) forge.Pull { return pull(r, p) }), nil
}

func closes(body string, ref forge.Ref) bool {
	for _, m := range closing.FindAllStringSubmatch(body, -1) {
		repo, number := m[1]+m[3], m[2]+m[4]
		n, err := strconv.Atoi(number)
		if err == nil && n == ref.Number && (repo == "" || strings.EqualFold(repo, ref.Repo.String())) {
			return true
		}
	}
	return false
}
