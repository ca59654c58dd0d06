package mockworld

import (
	"net/http"
	"strings"
)

// The operations below are what both people and the API do. The lock is held.

func (w *World) atLeast(r *repository, by *account, min Role) bool {
	return rank(w.role(r, by)) >= rank(min)
}

// role is what an account may do, by the collaborator list or, for an app's
// account, by its installation.
func (w *World) role(r *repository, by *account) Role {
	if by == nil || by.deleted {
		return NoRole
	}
	if by == r.owner {
		return RoleAdmin
	}
	if role, ok := r.roles[key(by.login)]; ok {
		return role
	}
	if by.login == "github-actions[bot]" {
		return RoleWrite
	}
	for _, a := range w.apps {
		if a.account == by && a.repos[r.id] {
			return RoleWrite
		}
	}
	if r.private {
		return NoRole
	}
	return NoRole
}

// canSee says whether an account may read a repository at all.
func (w *World) canSee(r *repository, by *account) bool {
	return !r.private || w.atLeast(r, by, RoleRead)
}

func (w *World) openIssue(r *repository, by *account, title string, body *string, labels []string) (*issue, error) {
	if !w.canSee(r, by) {
		return nil, notFound()
	}
	if r.archived {
		return nil, refuse(http.StatusForbidden, "Repository was archived so is read-only.")
	}
	i, err := w.newIssue(r, by, title, body)
	if err != nil {
		return nil, err
	}
	w.emitIssue(i, "opened", by, nil)
	w.crossReference(i, text(body), by)
	// Labels of someone without the role for it are dropped in silence.
	if len(labels) > 0 && w.atLeast(r, by, RoleTriage) {
		return i, w.addLabels(i, by, labels)
	}
	return i, nil
}

func (w *World) newIssue(r *repository, by *account, title string, body *string) (*issue, error) {
	if strings.TrimSpace(title) == "" {
		return nil, invalid("Issue", "title", "missing_field")
	}
	if len([]rune(title)) > maxTitle {
		return nil, invalidWhy("Issue", "title", "title is too long (maximum is 256 characters)")
	}
	if err := checkBody("Issue", text(body)); err != nil {
		return nil, err
	}
	now := w.now()
	i := &issue{id: next(&w.ids.issue), number: r.nextNumber, repo: r, title: title, body: body,
		author: by, open: true, created: now, updated: now}
	r.nextNumber++
	r.issues[i.number] = i
	return i, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (w *World) addEvent(i *issue, kind string, by *account) *event {
	e := &event{id: next(&w.ids.event), kind: kind, actor: by, at: w.now()}
	i.events = append(i.events, e)
	return e
}

func (w *World) bump(i *issue) { i.updated = w.now() }

func (w *World) addLabels(i *issue, by *account, names []string) error {
	for _, n := range names {
		if strings.TrimSpace(n) == "" {
			return invalid("Label", "name", "missing_field")
		}
		if len([]rune(n)) > maxLabelName {
			return invalidWhy("Label", "name", "name is too long (maximum is 50 characters)")
		}
	}
	for _, n := range names {
		l := i.repo.label(n)
		if l == nil {
			var err error
			if l, err = w.newLabel(i.repo, LabelSpec{Name: n}); err != nil {
				return err
			}
			w.emit(i.repo, "label", "created", by, obj{"label": w.labelJSON(i.repo, l)})
		}
		if i.has(n) != nil {
			continue
		}
		i.labels = append(i.labels, l)
		copied := *l
		w.addEvent(i, "labeled", by).label = &copied
		w.labelBump(i)
		w.emitIssue(i, "labeled", by, obj{"label": w.labelJSON(i.repo, l)})
	}
	return nil
}

func (w *World) labelBump(i *issue) {
	if w.opts.LabelBumpsUpdated {
		w.bump(i)
	}
}

func (w *World) removeLabel(i *issue, by *account, name string) error {
	for k, l := range i.labels {
		if !strings.EqualFold(l.name, name) {
			continue
		}
		i.labels = append(i.labels[:k:k], i.labels[k+1:]...)
		copied := *l
		w.addEvent(i, "unlabeled", by).label = &copied
		w.labelBump(i)
		w.emitIssue(i, "unlabeled", by, obj{"label": w.labelJSON(i.repo, l)})
		return nil
	}
	return refuse(http.StatusNotFound, "Label does not exist")
}

func (w *World) editIssue(i *issue, by *account, title, body *string) error {
	changes := obj{}
	if title != nil {
		if strings.TrimSpace(*title) == "" {
			return invalid("Issue", "title", "missing_field")
		}
		if len([]rune(*title)) > maxTitle {
			return invalidWhy("Issue", "title", "title is too long (maximum is 256 characters)")
		}
	}
	if body != nil {
		if err := checkBody("Issue", *body); err != nil {
			return err
		}
	}
	if title != nil && *title != i.title {
		changes["title"] = obj{"from": i.title}
		e := w.addEvent(i, "renamed", by)
		e.from, e.to = i.title, *title
		i.title = *title
	}
	if body != nil && *body != text(i.body) {
		changes["body"] = obj{"from": text(i.body)}
		i.body = body
		w.crossReference(i, *body, by)
	}
	if len(changes) > 0 {
		w.bump(i)
		w.emitIssue(i, "edited", by, obj{"changes": changes})
	}
	return nil
}

// setOpen closes or reopens; commit is the commit that closed it, if one did.
func (w *World) setOpen(i *issue, by *account, open bool, reason, commit string) error {
	if i.open == open {
		return nil
	}
	if p := i.pull; p != nil && open {
		if p.merged {
			return invalidWhy("PullRequest", "state", "state cannot be changed. The pull request was merged.")
		}
		if !p.fork && i.repo.refs["refs/heads/"+p.head] == "" {
			return invalidWhy("PullRequest", "state", "state cannot be changed. The "+p.head+" branch was deleted.")
		}
		if !p.fork && w.openPullFor(i.repo, p.head, p.base) != nil {
			return invalidWhy("PullRequest", "state", "state cannot be changed. There is already an open pull request from "+p.head+" to "+p.base+".")
		}
	}
	i.open = open
	w.bump(i)
	if open {
		i.closedBy, i.stateReason = nil, "reopened"
		w.addEvent(i, "reopened", by)
		w.emitIssue(i, "reopened", by, nil)
		return nil
	}
	if reason == "" {
		reason = "completed"
	}
	i.closedAt, i.closedBy = w.now(), by
	e := w.addEvent(i, "closed", by)
	e.commit = commit
	if i.pull == nil {
		i.stateReason = reason
		e.stateReason = reason
	}
	w.emitIssue(i, "closed", by, nil)
	return nil
}

func (w *World) setLocked(i *issue, by *account, locked bool, reason string) {
	if i.locked == locked {
		return
	}
	i.locked, i.lockReason = locked, reason
	kind := "unlocked"
	if locked {
		kind = "locked"
	}
	w.addEvent(i, kind, by).lockReason = reason
	w.bump(i)
	w.emitIssue(i, kind, by, nil)
}

func (w *World) convert(i *issue, by *account) {
	w.addEvent(i, "converted_to_discussion", by)
	i.open, i.locked, i.converted = false, true, true
	i.closedAt, i.closedBy = w.now(), by
	w.bump(i)
	w.emit(i.repo, "discussion", "created", by, obj{"discussion": w.discussionJSON(i)})
	w.emitIssue(i, "closed", by, nil)
}

// transfer moves an issue; its old self redirects.
func (w *World) transfer(i *issue, by *account, to *repository) *issue {
	moved := *i
	moved.id = next(&w.ids.issue)
	moved.repo, moved.number, moved.labels, moved.comments, moved.events = to, to.nextNumber, nil, nil, nil
	to.nextNumber++
	to.issues[moved.number] = &moved
	for _, l := range i.labels {
		if same := to.label(l.name); same != nil {
			moved.labels = append(moved.labels, same)
		}
	}
	for _, c := range i.comments {
		copied := *c
		copied.id, copied.issue = next(&w.ids.comment), &moved
		moved.comments = append(moved.comments, &copied)
		to.comments[copied.id] = &copied
		delete(i.repo.comments, c.id)
	}
	w.addEvent(&moved, "transferred", by)
	w.bump(&moved)
	w.emitIssue(i, "transferred", by, obj{"changes": obj{
		"new_issue": w.issueJSON(&moved), "new_repository": w.repoJSON(to, nil)}})
	i.movedTo = &moved
	w.emitIssue(&moved, "opened", by, nil)
	return &moved
}

// deleteLabel takes a label from the repository and all issues. GitHub sends
// no unlabeled events for it.
func (w *World) deleteLabel(r *repository, by *account, name string) error {
	l := r.label(name)
	if l == nil {
		return notFound()
	}
	drop := func(ls []*label) []*label {
		var kept []*label
		for _, x := range ls {
			if x != l {
				kept = append(kept, x)
			}
		}
		return kept
	}
	r.labels = drop(r.labels)
	for _, i := range r.issues {
		i.labels = drop(i.labels)
	}
	w.emit(r, "label", "deleted", by, obj{"label": w.labelJSON(r, l)})
	return nil
}

func (w *World) editLabel(r *repository, by *account, l *label, name, color, description *string) error {
	changes := obj{}
	if name != nil && *name != l.name {
		if *name == "" || len([]rune(*name)) > maxLabelName {
			return invalid("Label", "name", "invalid")
		}
		if other := r.label(*name); other != nil && other != l {
			return invalid("Label", "name", "already_exists")
		}
		changes["name"] = obj{"from": l.name}
		l.name = *name
	}
	if color != nil && *color != l.color {
		changes["color"] = obj{"from": l.color}
		l.color = *color
	}
	if description != nil && *description != l.description {
		changes["description"] = obj{"from": l.description}
		l.description = *description
	}
	if len(changes) > 0 {
		w.emit(r, "label", "edited", by, obj{"label": w.labelJSON(r, l), "changes": changes})
	}
	return nil
}
