package mockworld

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

const repoPath = "/repos/{owner}/{repo}"

func issueRoutes() []*route {
	const one = repoPath + "/issues/{number}"
	return []*route{
		{method: "GET", pattern: repoPath + "/issues", list: true, perm: "issues", handle: listIssues,
			query: []string{"milestone", "state", "assignee", "creator", "mentioned", "labels", "sort", "direction", "since", "after"}},
		{method: "POST", pattern: repoPath + "/issues", perm: "issues", body: []string{"title", "body", "labels", "assignee", "assignees", "milestone"}, handle: createIssue},
		{method: "GET", pattern: one, handle: getIssue},
		{method: "PATCH", pattern: one, body: []string{"title", "body", "state", "state_reason", "labels", "assignee", "assignees", "milestone"}, handle: patchIssue},
		{method: "PUT", pattern: one + "/lock", body: []string{"lock_reason"}, role: RoleWrite, handle: lockIssue},
		{method: "DELETE", pattern: one + "/lock", role: RoleWrite, handle: unlockIssue},
		{method: "GET", pattern: one + "/events", list: true, handle: issueEvents},
		{method: "GET", pattern: one + "/timeline", list: true, handle: issueTimeline},
		{method: "GET", pattern: repoPath + "/issues/events", list: true, perm: "issues", handle: repoEvents},
	}
}

// issue finds the issue of a route and checks the permission for it: that of
// pull requests when it is one.
func (w *World) issue(c *call) (*issue, *reply, error) {
	n, err := c.number("number")
	if err != nil {
		return nil, nil, err
	}
	i := c.repo.issues[int(n)]
	perm := "issues"
	if i != nil && i.pull != nil {
		perm = "pull_requests"
	}
	if err := w.need(c, perm, c.route.level); err != nil {
		return nil, nil, err
	}
	switch {
	case i == nil:
		return nil, nil, notFound()
	case i.gone:
		return nil, nil, refuse(http.StatusGone, "This issue was deleted")
	case i.movedTo != nil:
		to := i.movedTo
		if !w.visible(c, to.repo) {
			return nil, nil, notFound()
		}
		_, rest, _ := strings.Cut(c.path, "/issues/"+c.vars["number"])
		return nil, w.redirect(c, to.repo, fmt.Sprintf("/issues/%d%s", to.number, rest)), nil
	}
	return i, nil, nil
}

// withIssue wraps the handler of an issue's route.
func withIssue(w *World, c *call, fn func(i *issue) (*reply, error)) (*reply, error) {
	i, out, err := w.issue(c)
	if out != nil || err != nil {
		return out, err
	}
	return fn(i)
}

func getIssue(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) { return ok(w.fullIssueJSON(i)) })
}

func listIssues(w *World, c *call) (*reply, error) {
	q := c.query
	for _, name := range []string{"milestone", "assignee", "mentioned"} {
		if q.Has(name) && q.Get(name) != "*" && q.Get(name) != "" {
			return nil, w.violation(c, "query parameter %s=%q not known", name, q.Get(name))
		}
	}
	if s := q.Get("state"); !oneOf(s, "", "open", "closed", "all") {
		return nil, invalid("Issue", "state", "invalid")
	}
	if s := q.Get("sort"); !oneOf(s, "", "created", "updated", "comments") {
		return nil, invalid("Issue", "sort", "invalid")
	}
	if s := q.Get("direction"); !oneOf(s, "", "asc", "desc") {
		return nil, invalid("Issue", "direction", "invalid")
	}
	var since time.Time
	if s := q.Get("since"); s != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, s); err != nil {
			return nil, invalid("Issue", "since", "invalid")
		}
	}
	var list []*issue
	for _, n := range issueNumbers(c.repo) {
		if i := c.repo.issues[n]; w.listed(c, i, since) {
			list = append(list, i)
		}
	}
	sortIssues(list, q.Get("sort"), q.Get("direction"))
	return w.cursorPage(c, list)
}

func (w *World) listed(c *call, i *issue, since time.Time) bool {
	q := c.query
	if i.gone || i.movedTo != nil || i.updated.Before(since) {
		return false
	}
	if s := q.Get("state"); i.open != (s != "closed") && s != "all" {
		return false
	}
	if who := q.Get("creator"); who != "" && key(login(i.author)) != key(who) {
		return false
	}
	// Pull requests are listed only to those who may read them.
	if i.pull != nil && w.need(c, "pull_requests", "read") != nil {
		return false
	}
	if names := q.Get("labels"); names != "" {
		for n := range strings.SplitSeq(names, ",") {
			if i.has(strings.TrimSpace(n)) == nil {
				return false
			}
		}
	}
	return true
}

func sortIssues(list []*issue, by, direction string) {
	less := func(a, b *issue) bool {
		switch {
		case by == "updated" && !a.updated.Equal(b.updated):
			return a.updated.Before(b.updated)
		case by == "comments" && len(a.comments) != len(b.comments):
			return len(a.comments) < len(b.comments)
		}
		return a.number < b.number
	}
	sort.SliceStable(list, func(x, y int) bool {
		if direction == "asc" {
			return less(list[x], list[y])
		}
		return less(list[y], list[x])
	})
}

// maxDeepPage is how many issues deep numbered pages go.
const maxDeepPage = 10_000

// cursorPage pages as issue lists do: the next page is named by a cursor
// (after), never by a number, though a number is still taken as a start.
func (w *World) cursorPage(c *call, list []*issue) (*reply, error) {
	per := atoi(c.query.Get("per_page"), 30)
	if per < 1 {
		per = 30
	}
	per = min(per, 100)
	from := 0
	if n := atoi(c.query.Get("page"), 1); n > 1 {
		if n*per > maxDeepPage {
			return nil, refuse(http.StatusUnprocessableEntity, "Pagination with the page parameter is not supported for large datasets, please use cursor based pagination (after/before)")
		}
		from = min((n-1)*per, len(list))
	}
	if after := c.query.Get("after"); after != "" {
		raw, err := base64.StdEncoding.DecodeString(after)
		n, ok := strings.CutPrefix(string(raw), "cursor:v2:")
		at, nerr := strconv.Atoi(n)
		if err != nil || !ok || nerr != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "The cursor is invalid")
		}
		from = len(list)
		for k, i := range list {
			if i.number == at {
				from = k + 1
			}
		}
	}
	to := min(from+per, len(list))
	if to < len(list) {
		q := url.Values{}
		for k, v := range c.query {
			if k != "page" {
				q[k] = v
			}
		}
		q.Set("after", base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "cursor:v2:%d", list[to-1].number)))
		c.hdr.Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, c.selfURL(), q.Encode()))
	}
	out := []any{}
	for _, i := range list[from:to] {
		out = append(out, w.issueJSON(i))
	}
	return ok(out)
}

func createIssue(w *World, c *call) (*reply, error) {
	var in struct {
		Title     any      `json:"title"`
		Body      *string  `json:"body"`
		Labels    []string `json:"labels"`
		Assignees []string `json:"assignees"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if len(in.Assignees) > 0 {
		return nil, w.violation(c, "assignees are not known")
	}
	title := ""
	if in.Title != nil {
		title = fmt.Sprint(in.Title)
	}
	i, err := w.openIssue(c.repo, c.by, title, in.Body, in.Labels)
	if err != nil {
		return nil, err
	}
	return created(w.fullIssueJSON(i))
}

func patchIssue(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		var in struct {
			Title       *string   `json:"title"`
			Body        *string   `json:"body"`
			State       *string   `json:"state"`
			StateReason *string   `json:"state_reason"`
			Labels      *[]string `json:"labels"`
			Assignees   []string  `json:"assignees"`
		}
		if err := c.decode(&in); err != nil {
			return nil, err
		}
		if i.author != c.by && !w.atLeast(c.repo, c.by, RoleTriage) {
			return nil, refuse(http.StatusForbidden, "Must have admin rights to Repository.")
		}
		if (in.Title != nil || in.Body != nil) && i.author != c.by && !w.atLeast(c.repo, c.by, RoleWrite) {
			return nil, refuse(http.StatusForbidden, "Must have admin rights to Repository.")
		}
		if len(in.Assignees) > 0 {
			return nil, w.violation(c, "assignees are not known")
		}
		if in.State != nil && !oneOf(*in.State, "open", "closed") {
			return nil, invalid("Issue", "state", "invalid")
		}
		if in.StateReason != nil && !oneOf(*in.StateReason, "", "completed", "not_planned", "duplicate", "reopened") {
			return nil, invalid("Issue", "state_reason", "invalid")
		}
		if err := w.editIssue(i, c.by, in.Title, in.Body); err != nil {
			return nil, err
		}
		if in.Labels != nil && w.atLeast(c.repo, c.by, RoleTriage) {
			if err := w.replaceLabels(i, c.by, *in.Labels); err != nil {
				return nil, err
			}
		}
		if in.State != nil {
			if err := w.setOpen(i, c.by, *in.State == "open", text(in.StateReason), ""); err != nil {
				return nil, err
			}
		}
		return ok(w.fullIssueJSON(i))
	})
}

func lockIssue(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		var in struct {
			Reason string `json:"lock_reason"`
		}
		if err := c.decode(&in); err != nil {
			return nil, err
		}
		if !oneOf(in.Reason, "", "off-topic", "too heated", "resolved", "spam") {
			return nil, invalid("Issue", "lock_reason", "invalid")
		}
		w.setLocked(i, c.by, true, in.Reason)
		return noContent()
	})
}

func unlockIssue(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		w.setLocked(i, c.by, false, "")
		return noContent()
	})
}

func issueEvents(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		var list []*event
		for _, e := range i.events {
			if !e.timelineOnly {
				list = append(list, e)
			}
		}
		return all(c, list, func(e *event) obj { return w.eventJSON(i, e, false) })
	})
}

func issueTimeline(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		return all(c, i.events, func(e *event) obj { return w.timelineJSON(i, e) })
	})
}

func repoEvents(w *World, c *call) (*reply, error) {
	type pair struct {
		i *issue
		e *event
	}
	var list []pair
	for _, n := range issueNumbers(c.repo) {
		i := c.repo.issues[n]
		for _, e := range i.events {
			if !e.timelineOnly && !i.gone && i.movedTo == nil {
				list = append(list, pair{i, e})
			}
		}
	}
	sort.Slice(list, func(a, b int) bool { return list[a].e.id > list[b].e.id })
	return all(c, list, func(p pair) obj { return w.eventJSON(p.i, p.e, true) })
}
