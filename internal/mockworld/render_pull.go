package mockworld

import (
	"fmt"
	"net/url"
)

// pullJSON is a pull request. full adds what only the single one has: counts
// and mergeable, which is then as given (null at first).
func (w *World) pullJSON(i *issue, mergeable *bool, full bool) obj {
	r, p := i.repo, i.pull
	u := w.apiURL(r, fmt.Sprintf("/pulls/%d", i.number))
	page := w.html(fmt.Sprintf("/%s/pull/%d", r.full(), i.number))
	issueURL := w.apiURL(r, fmt.Sprintf("/issues/%d", i.number))
	base := w.baseOf(i)
	o := obj{
		"url": u, "id": p.id, "node_id": nodeID("PullRequest", p.id), "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch",
		"issue_url": issueURL, "number": i.number, "state": state(i), "locked": i.locked, "title": i.title, "user": w.userJSON(i.author),
		"body": i.body, "created_at": stamp(i.created), "updated_at": stamp(i.updated), "closed_at": nil, "merged_at": stamp(p.mergedAt),
		"merge_commit_sha": orNull(p.mergeSHA), "assignee": nil, "assignees": []any{}, "requested_reviewers": w.usersJSON(p.requested), "requested_teams": []any{},
		"labels": w.labelsJSON(r, i.labels), "milestone": nil, "draft": p.draft, "commits_url": u + "/commits",
		"review_comments_url": u + "/comments", "review_comment_url": w.apiURL(r, "/pulls/comments{/number}"),
		"comments_url": issueURL + "/comments", "statuses_url": w.apiURL(r, "/statuses/"+p.headSHA),
		"head": w.headJSON(i), "base": w.refJSON(r, p.base, base),
		"_links": obj{"self": obj{"href": u}, "html": obj{"href": page}, "issue": obj{"href": issueURL}, "comments": obj{"href": issueURL + "/comments"},
			"review_comments": obj{"href": u + "/comments"}, "review_comment": obj{"href": w.apiURL(r, "/pulls/comments{/number}")},
			"commits": obj{"href": u + "/commits"}, "statuses": obj{"href": w.apiURL(r, "/statuses/"+p.headSHA)}},
		"author_association": w.association(r, i.author), "auto_merge": nil, "active_lock_reason": orNull(i.lockReason),
	}
	if !i.open {
		o["closed_at"] = stamp(i.closedAt)
	}
	if !full {
		return o
	}
	o["merged"], o["merged_by"], o["mergeable"], o["rebaseable"] = p.merged, w.userJSON(p.mergedBy), mergeable, nil
	o["mergeable_state"] = mergeState(i, mergeable)
	o["comments"], o["review_comments"], o["maintainer_can_modify"] = len(i.comments), len(p.lineComments), false
	o["commits"], o["additions"], o["deletions"], o["changed_files"] = 0, 0, 0, 0
	if d, err := w.pullDiff(i); err == nil {
		o["additions"], o["deletions"], o["changed_files"] = d.additions, d.deletions, len(d.files)
	}
	if n, err := w.countOf(r, base+".."+p.headSHA); err == nil {
		o["commits"] = n
	}
	return o
}

func mergeState(i *issue, mergeable *bool) string {
	switch {
	case mergeable == nil:
		return "unknown"
	case !*mergeable:
		return "dirty"
	case i.pull.draft:
		return "draft"
	}
	return "clean"
}

func (w *World) refJSON(r *repository, branch, sha string) obj {
	return obj{"label": r.owner.login + ":" + branch, "ref": branch, "sha": sha, "user": w.userJSON(r.owner), "repo": w.repoJSON(r, nil)}
}

// headJSON is the head, in the author's fork for a pull request from there.
func (w *World) headJSON(i *issue) obj {
	o := w.refJSON(i.repo, i.pull.head, i.pull.headSHA)
	if i.pull.fork {
		copied := *i.repo
		copied.id, copied.owner, copied.issues = -i.repo.id+1<<40, i.author, nil
		fork := w.repoJSON(&copied, nil)
		fork["fork"] = true
		o["label"], o["user"], o["repo"] = login(i.author)+":"+i.pull.head, w.userJSON(i.author), fork
	}
	return o
}

func (w *World) reviewJSON(i *issue, rv *review) obj {
	u := w.apiURL(i.repo, fmt.Sprintf("/pulls/%d", i.number))
	page := w.html(fmt.Sprintf("/%s/pull/%d#pullrequestreview-%d", i.repo.full(), i.number, rv.id))
	o := obj{"id": rv.id, "node_id": nodeID("PullRequestReview", rv.id), "user": w.userJSON(rv.author), "body": rv.body, "state": rv.state,
		"html_url": page, "pull_request_url": u, "author_association": w.association(i.repo, rv.author),
		"_links": obj{"html": obj{"href": page}, "pull_request": obj{"href": u}}, "commit_id": rv.sha}
	if rv.state != "PENDING" {
		o["submitted_at"] = stamp(rv.at)
	}
	return o
}

func (w *World) lineCommentJSON(i *issue, c *lineComment) obj {
	u := w.apiURL(i.repo, fmt.Sprintf("/pulls/comments/%d", c.id))
	pr := w.apiURL(i.repo, fmt.Sprintf("/pulls/%d", i.number))
	page := w.html(fmt.Sprintf("/%s/pull/%d#discussion_r%d", i.repo.full(), i.number, c.id))
	o := obj{"url": u, "pull_request_review_id": c.review.id, "id": c.id, "node_id": nodeID("PullRequestReviewComment", c.id),
		"diff_hunk": c.hunk, "path": c.path, "position": c.position, "original_position": c.position, "commit_id": c.sha,
		"original_commit_id": c.sha, "user": w.userJSON(c.author), "body": c.body, "created_at": stamp(c.at), "updated_at": stamp(c.edited),
		"html_url": page, "pull_request_url": pr, "author_association": w.association(i.repo, c.author),
		"_links": obj{"self": obj{"href": u}, "html": obj{"href": page}, "pull_request": obj{"href": pr}}, "reactions": reactions(u),
		"start_line": nil, "original_start_line": nil, "start_side": nil, "line": c.line, "original_line": c.line, "side": c.side, "subject_type": "line"}
	if c.start > 0 {
		o["start_line"], o["original_start_line"], o["start_side"] = c.start, c.start, c.side
	}
	if c.replyTo != 0 {
		o["in_reply_to_id"] = c.replyTo
	}
	return o
}

// fileJSON is a changed file; patch is missing for binary and big ones.
func (w *World) fileJSON(r *repository, sha string, f *diffFile) obj {
	at := url.PathEscape(f.path)
	o := obj{"sha": f.blob, "filename": f.path, "status": f.status, "additions": f.additions, "deletions": f.deletions,
		"changes": f.additions + f.deletions, "blob_url": w.html("/" + r.full() + "/blob/" + sha + "/" + at),
		"raw_url": w.html("/" + r.full() + "/raw/" + sha + "/" + at), "contents_url": w.apiURL(r, "/contents/"+at+"?ref="+sha)}
	if f.patch != "" && !f.binary {
		o["patch"] = f.patch
	}
	if f.oldPath != "" {
		o["previous_filename"] = f.oldPath
	}
	return o
}
