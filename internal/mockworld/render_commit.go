package mockworld

import (
	"fmt"
	"strings"
)

func person(name, email string, at any) obj { return obj{"name": name, "email": email, "date": at} }

// gitCommitJSON is the part that both the commit and the git/commits routes
// show.
func (w *World) gitCommitJSON(r *repository, c *gitCommit) obj {
	return obj{
		"url":    w.apiURL(r, "/git/commits/"+c.sha),
		"author": person(c.authorName, c.authorEmail, stamp(c.authorDate)), "committer": person(c.committerName, c.committerEmail, stamp(c.committerDate)),
		"message": c.message, "tree": obj{"url": w.apiURL(r, "/git/trees/"+c.tree), "sha": c.tree}, "comment_count": 0,
		"verification": obj{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil},
	}
}

// commitJSON is a commit of a list. Its accounts are null, as for any e-mail
// address that belongs to no account.
func (w *World) commitJSON(r *repository, c *gitCommit) obj {
	u := w.apiURL(r, "/commits/"+c.sha)
	return obj{"url": u, "sha": c.sha, "node_id": nodeID("Commit", int64(len(c.message))) + c.sha[:8],
		"html_url": w.html("/" + r.full() + "/commit/" + c.sha), "comments_url": u + "/comments", "commit": w.gitCommitJSON(r, c),
		"author": nil, "committer": nil, "parents": w.parentsJSON(r, c)}
}

func (w *World) parentsJSON(r *repository, c *gitCommit) []any {
	list := []any{}
	for _, p := range c.parents {
		list = append(list, obj{"url": w.apiURL(r, "/commits/"+p), "html_url": w.html("/" + r.full() + "/commit/" + p), "sha": p})
	}
	return list
}

// pushCommitJSON is a commit of a push payload.
func (w *World) pushCommitJSON(r *repository, c *gitCommit) obj {
	who := func(name, email string) obj { return obj{"name": name, "email": email} }
	return obj{"id": c.sha, "tree_id": c.tree, "distinct": true, "message": c.message, "timestamp": stamp(c.authorDate),
		"url": w.html("/" + r.full() + "/commit/" + c.sha), "author": who(c.authorName, c.authorEmail), "committer": who(c.committerName, c.committerEmail),
		"added": strs(c.added), "removed": strs(c.removed), "modified": strs(c.mod)}
}

func strs(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func (w *World) checkJSON(r *repository, c *checkRun) obj {
	u := w.apiURL(r, fmt.Sprintf("/check-runs/%d", c.id))
	page := w.html(fmt.Sprintf("/%s/runs/%d", r.full(), c.id))
	details := c.detailsURL
	if details == "" {
		details = page
	}
	pulls := []any{}
	for _, n := range issueNumbers(r) {
		i := r.issues[n]
		if i.pull == nil || !i.open || i.pull.headSHA != c.sha {
			continue
		}
		ref := func(branch, sha string) obj {
			return obj{"ref": branch, "sha": sha, "repo": obj{"id": r.id, "url": w.apiURL(r, ""), "name": r.name}}
		}
		pulls = append(pulls, obj{"url": w.apiURL(r, fmt.Sprintf("/pulls/%d", n)), "id": i.pull.id, "number": n,
			"head": ref(i.pull.head, i.pull.headSHA), "base": ref(i.pull.base, w.baseOf(i))})
	}
	return obj{"id": c.id, "node_id": nodeID("CheckRun", c.id), "name": c.name, "head_sha": c.sha, "external_id": c.externalID,
		"url": u, "html_url": page, "details_url": details, "status": c.status, "conclusion": orNull(c.conclusion),
		"started_at": stamp(c.started), "completed_at": stamp(c.completed), "app": w.appJSON(c.app), "check_suite": obj{"id": c.suite},
		"output":        obj{"title": c.title, "summary": c.summary, "text": c.text, "annotations_count": c.annotations, "annotations_url": u + "/annotations"},
		"pull_requests": pulls}
}

// suites are the check suites of a commit: one an app, whose state is that of
// its runs together.
func (w *World) suites(r *repository, sha string) []any {
	list := []any{}
	seen := map[int64]bool{}
	for _, c := range r.checks {
		if c.sha != sha || seen[c.suite] {
			continue
		}
		seen[c.suite] = true
		list = append(list, w.suiteJSON(r, c.suite, sha, c.app))
	}
	return list
}

func (w *World) suiteJSON(r *repository, id int64, sha string, a *app) obj {
	status, conclusion, n := "completed", "success", 0
	var created, updated any
	for _, c := range r.checks {
		if c.suite != id {
			continue
		}
		n++
		created, updated = stamp(c.started), stamp(c.started)
		if c.status != "completed" {
			status, conclusion = "in_progress", ""
		} else if !oneOf(c.conclusion, "success", "neutral", "skipped") && conclusion == "success" {
			conclusion = c.conclusion
		}
	}
	branch := any(nil)
	for _, ref := range sortedKeys(r.refs) {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && r.refs[ref] == sha && branch == nil {
			branch = name
		}
	}
	u := w.apiURL(r, fmt.Sprintf("/check-suites/%d", id))
	var head any = obj{"id": sha, "tree_id": sha, "message": "", "timestamp": created, "author": nil, "committer": nil}
	if list, err := r.git.log(w.ctx, 1, sha); err == nil && len(list) == 1 {
		c := list[0]
		head = obj{"id": sha, "tree_id": c.tree, "message": c.message, "timestamp": stamp(c.authorDate),
			"author": obj{"name": c.authorName, "email": c.authorEmail}, "committer": obj{"name": c.committerName, "email": c.committerEmail}}
	}
	return obj{"id": id, "node_id": nodeID("CheckSuite", id), "head_branch": branch, "head_sha": sha, "status": status, "conclusion": orNull(conclusion),
		"url": u, "before": nil, "after": sha, "pull_requests": []any{}, "app": w.appJSON(a), "repository": w.repoJSON(r, nil), "created_at": created,
		"updated_at": updated, "head_commit": head, "latest_check_runs_count": n, "check_runs_url": u + "/check-runs"}
}

func (w *World) statusJSON(r *repository, s *status) obj {
	return obj{"url": w.apiURL(r, "/statuses/"+s.sha), "avatar_url": nil, "id": s.id, "node_id": nodeID("StatusContext", s.id), "state": s.state,
		"description": s.description, "target_url": s.targetURL, "context": s.context, "created_at": stamp(s.created), "updated_at": stamp(s.created)}
}
