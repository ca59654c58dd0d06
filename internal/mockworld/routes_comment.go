package mockworld

import (
	"net/http"
	"sort"
	"time"
)

func commentRoutes() []*route {
	const list, one = repoPath + "/issues/{number}/comments", repoPath + "/issues/comments/{id}"
	return []*route{
		{method: "GET", pattern: list, list: true, query: []string{"since"}, handle: listComments},
		{method: "POST", pattern: list, body: []string{"body"}, handle: createComment},
		{method: "GET", pattern: repoPath + "/issues/comments", list: true, perm: "issues", query: []string{"sort", "direction", "since"}, handle: repoComments},
		{method: "GET", pattern: one, handle: getComment},
		{method: "PATCH", pattern: one, body: []string{"body"}, handle: patchComment},
		{method: "DELETE", pattern: one, handle: deleteComment},
	}
}

func (c *call) since() (time.Time, error) {
	s := c.query.Get("since")
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, invalid("IssueComment", "since", "invalid")
	}
	return t, nil
}

func listComments(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		since, err := c.since()
		if err != nil {
			return nil, err
		}
		var list []*comment
		for _, x := range i.comments {
			if !x.updated.Before(since) {
				list = append(list, x)
			}
		}
		return all(c, list, w.commentJSON)
	})
}

func (c *call) bodyText(resource string) (string, error) {
	var in struct {
		Body *string `json:"body"`
	}
	if err := c.decode(&in); err != nil {
		return "", err
	}
	if in.Body == nil {
		return "", invalid(resource, "body", "missing_field")
	}
	return *in.Body, nil
}

func createComment(w *World, c *call) (*reply, error) {
	return withIssue(w, c, func(i *issue) (*reply, error) {
		body, err := c.bodyText("IssueComment")
		if err != nil {
			return nil, err
		}
		x, err := w.addComment(i, c.by, body)
		if err != nil {
			return nil, err
		}
		out := jsonReply(http.StatusCreated, w.commentJSON(x))
		out.set("Location", w.commentJSON(x)["url"].(string))
		return out, nil
	})
}

func repoComments(w *World, c *call) (*reply, error) {
	since, err := c.since()
	if err != nil {
		return nil, err
	}
	var list []*comment
	for _, x := range c.repo.comments {
		if !x.updated.Before(since) && (x.issue.pull == nil || w.need(c, "pull_requests", "read") == nil) {
			list = append(list, x)
		}
	}
	byUpdate, desc := c.query.Get("sort") == "updated", c.query.Get("direction") == "desc" && c.query.Has("sort")
	sort.Slice(list, func(a, b int) bool {
		if desc {
			a, b = b, a
		}
		if byUpdate && !list[a].updated.Equal(list[b].updated) {
			return list[a].updated.Before(list[b].updated)
		}
		return list[a].id < list[b].id
	})
	return all(c, list, w.commentJSON)
}

// comment finds the comment of a route and checks the permission for it.
func (w *World) comment(c *call) (*comment, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	x := c.repo.comments[id]
	perm := "issues"
	if x != nil && x.issue.pull != nil {
		perm = "pull_requests"
	}
	if err := w.need(c, perm, c.route.level); err != nil {
		return nil, err
	}
	if x == nil || x.issue.gone {
		return nil, notFound()
	}
	return x, nil
}

func getComment(w *World, c *call) (*reply, error) {
	x, err := w.comment(c)
	if err != nil {
		return nil, err
	}
	return ok(w.commentJSON(x))
}

func patchComment(w *World, c *call) (*reply, error) {
	x, err := w.comment(c)
	if err != nil {
		return nil, err
	}
	body, err := c.bodyText("IssueComment")
	if err != nil {
		return nil, err
	}
	if err := w.editComment(x, c.by, body); err != nil {
		return nil, err
	}
	return ok(w.commentJSON(x))
}

func deleteComment(w *World, c *call) (*reply, error) {
	x, err := w.comment(c)
	if err != nil {
		return nil, err
	}
	if err := w.mayEditComment(x, c.by); err != nil {
		return nil, err
	}
	w.deleteComment(x, c.by)
	return noContent()
}
