package mockworld

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

func (w *World) addComment(i *issue, by *account, body string) (*comment, error) {
	if !w.canSee(i.repo, by) {
		return nil, notFound()
	}
	if i.repo.archived {
		return nil, refuse(http.StatusForbidden, "Repository was archived so is read-only.")
	}
	if strings.TrimSpace(body) == "" {
		return nil, invalid("IssueComment", "body", "missing_field")
	}
	if err := checkBody("IssueComment", body); err != nil {
		return nil, err
	}
	if i.locked && !w.atLeast(i.repo, by, RoleWrite) {
		return nil, refuse(http.StatusForbidden, "Unable to create comment because issue is locked.")
	}
	if len(i.comments) >= maxComments {
		return nil, refuse(http.StatusForbidden, "Commenting is disabled on issues with more than 2500 comments")
	}
	now := w.now()
	c := &comment{id: next(&w.ids.comment), issue: i, author: by, body: body, created: now, updated: now}
	i.comments = append(i.comments, c)
	i.repo.comments[c.id] = c
	e := w.addEvent(i, "commented", by)
	e.comment, e.timelineOnly = c, true
	w.bump(i)
	w.emitComment(c, "created", by, nil)
	w.crossReference(i, body, by)
	return c, nil
}

func (w *World) mayEditComment(c *comment, by *account) error {
	if c.author != by && !w.atLeast(c.issue.repo, by, RoleWrite) {
		return refuse(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	return nil
}

func (w *World) editComment(c *comment, by *account, body string) error {
	if err := w.mayEditComment(c, by); err != nil {
		return err
	}
	if strings.TrimSpace(body) == "" {
		return invalid("IssueComment", "body", "missing_field")
	}
	if err := checkBody("IssueComment", body); err != nil {
		return err
	}
	old := c.body
	if old == body {
		return nil
	}
	c.body, c.updated = body, w.now()
	c.edits++
	w.bump(c.issue)
	w.emitComment(c, "edited", by, obj{"changes": obj{"body": obj{"from": old}}})
	return nil
}

func (w *World) deleteComment(c *comment, by *account) {
	i := c.issue
	for k, x := range i.comments {
		if x == c {
			i.comments = append(i.comments[:k:k], i.comments[k+1:]...)
			break
		}
	}
	for k, e := range i.events {
		if e.comment == c {
			i.events = append(i.events[:k:k], i.events[k+1:]...)
			break
		}
	}
	delete(i.repo.comments, c.id)
	w.addEvent(i, "comment_deleted", by)
	w.bump(i)
	w.emitComment(c, "deleted", by, nil)
}

// closers finds GitHub's closing keywords, mentions finds #7 and owner/name#7.
var (
	closers  = regexp.MustCompile(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?[ \t]+(?:([\w.-]+/[\w.-]+))?#(\d+)\b`)
	mentions = regexp.MustCompile(`(?:^|[\s(\[,:])([\w.-]+/[\w.-]+)?#(\d+)\b`)
)

// closing are the issues of the repository that the text says it closes.
func (w *World) closing(r *repository, body string) []*issue {
	var found []*issue
	for _, m := range closers.FindAllStringSubmatch(body, -1) {
		if m[1] != "" && !strings.EqualFold(m[1], r.full()) {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		if i := r.issues[n]; i != nil && i.pull == nil && !i.gone && i.movedTo == nil {
			found = append(found, i)
		}
	}
	return found
}

// crossReference puts a cross-referenced entry on the timeline of each issue
// that a text mentions as #7 or owner/name#7, once a source.
func (w *World) crossReference(from *issue, body string, by *account) {
	for _, m := range mentions.FindAllStringSubmatch(body, -1) {
		r := from.repo
		if m[1] != "" {
			if r = w.repos[key(m[1])]; r == nil {
				continue
			}
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		target := r.issues[n]
		if target == nil || target == from || target.gone || target.movedTo != nil {
			continue
		}
		known := false
		for _, e := range target.events {
			known = known || (e.kind == "cross-referenced" && e.source == from)
		}
		if known {
			continue
		}
		e := w.addEvent(target, "cross-referenced", by)
		e.source, e.timelineOnly = from, true
	}
}
