package mockworld

import "fmt"

// eventJSON is an entry of the issue event list.
func (w *World) eventJSON(i *issue, e *event, withIssue bool) obj {
	o := obj{
		"id": e.id, "node_id": nodeID("IssueEvent", e.id), "url": w.apiURL(i.repo, fmt.Sprintf("/issues/events/%d", e.id)),
		"actor": w.userJSON(e.actor), "event": e.kind, "commit_id": nil, "commit_url": nil, "created_at": stamp(e.at),
		"performed_via_github_app": w.via(e.actor),
	}
	if e.commit != "" {
		o["commit_id"] = e.commit
		o["commit_url"] = w.apiURL(i.repo, "/commits/"+e.commit)
	}
	if e.label != nil {
		o["label"] = obj{"name": e.label.name, "color": e.label.color}
	}
	if e.kind == "renamed" {
		o["rename"] = obj{"from": e.from, "to": e.to}
	}
	if e.kind == "locked" {
		o["lock_reason"] = orNull(e.lockReason)
	}
	if e.kind == "closed" {
		o["state_reason"] = orNull(e.stateReason)
	}
	if e.reviewer != nil {
		o["review_requester"], o["requested_reviewer"] = w.userJSON(e.actor), w.userJSON(e.reviewer)
	}
	if withIssue {
		o["issue"] = w.issueJSON(i)
	}
	return o
}

// timelineJSON is an entry of the timeline, where some kinds have shapes of
// their own.
func (w *World) timelineJSON(i *issue, e *event) obj {
	switch {
	case e.comment != nil:
		o := w.commentJSON(e.comment)
		o["event"], o["actor"] = "commented", w.userJSON(e.actor)
		return o
	case e.source != nil:
		src := w.issueJSON(e.source)
		src["repository"] = w.repoJSON(e.source.repo, nil)
		return obj{"event": "cross-referenced", "actor": w.userJSON(e.actor), "created_at": stamp(e.at), "updated_at": stamp(e.at),
			"source": obj{"type": "issue", "issue": src}}
	case e.review != nil:
		o := w.reviewJSON(i, e.review)
		o["event"] = "reviewed"
		return o
	}
	return w.eventJSON(i, e, false)
}
