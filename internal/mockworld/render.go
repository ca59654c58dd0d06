package mockworld

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"
)

// stamp is a time as GitHub writes it; nil for the zero time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func nodeID(kind string, id int64) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%02d:%s%d", len(kind), kind, id))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (w *World) api(path string) string { return w.base + "/api/v3" + path }

func (w *World) apiURL(r *repository, path string) string { return w.api("/repos/" + r.full() + path) }

func (w *World) html(path string) string { return w.base + path }

func (w *World) userJSON(a *account) any {
	if a == nil || a.deleted {
		return nil
	}
	login := url.PathEscape(a.login)
	u := w.api("/users/" + login)
	page := "/" + login
	if slug, ok := strings.CutSuffix(a.login, "[bot]"); ok {
		page = "/apps/" + slug
	}
	return obj{
		"login": a.login, "id": a.id, "node_id": nodeID("User", a.id), "avatar_url": w.html("/avatars/u/" + fmt.Sprint(a.id)),
		"gravatar_id": "", "url": u, "html_url": w.html(page), "followers_url": u + "/followers",
		"following_url": u + "/following{/other_user}", "gists_url": u + "/gists{/gist_id}", "starred_url": u + "/starred{/owner}{/repo}",
		"subscriptions_url": u + "/subscriptions", "organizations_url": u + "/orgs", "repos_url": u + "/repos",
		"events_url": u + "/events{/privacy}", "received_events_url": u + "/received_events", "type": string(a.typ),
		"site_admin": false, "user_view_type": "public",
	}
}

// repoJSON is a repository; with by, his permissions too.
func (w *World) repoJSON(r *repository, by *account) obj {
	u := w.apiURL(r, "")
	page := w.html("/" + r.full())
	open := 0
	for _, i := range r.issues {
		if i.open && !i.gone && i.movedTo == nil {
			open++
		}
	}
	visibility := "public"
	if r.private {
		visibility = "private"
	}
	o := obj{
		"id": r.id, "node_id": nodeID("Repository", r.id), "name": r.name, "full_name": r.full(), "private": r.private,
		"owner": w.userJSON(r.owner), "html_url": page, "description": nil, "fork": false, "url": u,
		"created_at": stamp(r.created), "updated_at": stamp(r.pushed), "pushed_at": stamp(r.pushed),
		"git_url": "git://" + strings.TrimPrefix(w.base, "http://") + "/git/" + r.full() + ".git", "ssh_url": "git@localhost:" + r.full() + ".git",
		"clone_url": w.base + "/git/" + r.full() + ".git", "svn_url": page, "homepage": nil, "size": 0, "stargazers_count": 0,
		"watchers_count": 0, "language": nil, "has_issues": true, "has_projects": false, "has_downloads": true, "has_wiki": false,
		"has_pages": false, "has_discussions": false, "forks_count": 0, "mirror_url": nil, "archived": r.archived, "disabled": false,
		"open_issues_count": open, "license": nil, "allow_forking": true, "is_template": false,
		"web_commit_signoff_required": false, "topics": []any{}, "visibility": visibility, "forks": 0,
		"open_issues": open, "watchers": 0, "default_branch": r.defaultBranch,
	}
	for name, path := range map[string]string{
		"forks_url": "/forks", "keys_url": "/keys{/key_id}", "collaborators_url": "/collaborators{/collaborator}", "teams_url": "/teams",
		"hooks_url": "/hooks", "issue_events_url": "/issues/events{/number}", "events_url": "/events", "assignees_url": "/assignees{/user}",
		"branches_url": "/branches{/branch}", "tags_url": "/tags", "blobs_url": "/git/blobs{/sha}", "git_tags_url": "/git/tags{/sha}",
		"git_refs_url": "/git/refs{/sha}", "trees_url": "/git/trees{/sha}", "statuses_url": "/statuses/{sha}", "languages_url": "/languages",
		"stargazers_url": "/stargazers", "contributors_url": "/contributors", "subscribers_url": "/subscribers",
		"subscription_url": "/subscription", "commits_url": "/commits{/sha}", "git_commits_url": "/git/commits{/sha}",
		"comments_url": "/comments{/number}", "issue_comment_url": "/issues/comments{/number}", "contents_url": "/contents/{+path}",
		"compare_url": "/compare/{base}...{head}", "merges_url": "/merges", "archive_url": "/{archive_format}{/ref}",
		"downloads_url": "/downloads", "issues_url": "/issues{/number}", "pulls_url": "/pulls{/number}",
		"milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
		"labels_url": "/labels{/name}", "releases_url": "/releases{/id}", "deployments_url": "/deployments",
	} {
		o[name] = u + path
	}
	if by != nil {
		n := rank(w.role(r, by))
		o["permissions"] = obj{"admin": n >= rank(RoleAdmin), "maintain": n >= rank(RoleMaintain), "push": n >= rank(RoleWrite),
			"triage": n >= rank(RoleTriage), "pull": n >= rank(RoleRead) || !r.private}
	}
	return o
}

// fullRepoJSON is a repository by itself, which says more than in a list.
func (w *World) fullRepoJSON(r *repository, by *account) obj {
	o := w.repoJSON(r, by)
	o["network_count"], o["subscribers_count"], o["temp_clone_token"] = 0, 0, nil
	if by != nil && w.atLeast(r, by, RoleWrite) {
		for k, v := range map[string]any{"allow_squash_merge": true, "allow_merge_commit": true, "allow_rebase_merge": false,
			"allow_auto_merge": false, "delete_branch_on_merge": false, "allow_update_branch": false} {
			o[k] = v
		}
	}
	return o
}

func (w *World) labelJSON(r *repository, l *label) obj {
	return obj{"id": l.id, "node_id": nodeID("Label", l.id), "url": w.apiURL(r, "/labels/"+url.PathEscape(l.name)),
		"name": l.name, "description": orNull(l.description), "color": l.color, "default": false}
}

func (w *World) labelsJSON(r *repository, ls []*label) []any {
	list := make([]any, 0, len(ls))
	for _, l := range ls {
		list = append(list, w.labelJSON(r, l))
	}
	return list
}

// association is how an account relates to a repository. Members of a private
// organisation may show as NONE, so it is never more than that here.
func (w *World) association(r *repository, a *account) string {
	switch {
	case a == nil || a.deleted:
		return "NONE"
	case a == r.owner:
		return "OWNER"
	case a.typ == Bot:
		return "NONE"
	case w.atLeast(r, a, RoleWrite) && !r.private:
		return "COLLABORATOR"
	}
	return "NONE"
}

func reactions(u string) obj {
	return obj{"url": u + "/reactions", "total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "hooray": 0, "confused": 0, "heart": 0, "rocket": 0, "eyes": 0}
}

func issueNumbers(r *repository) []int {
	ns := make([]int, 0, len(r.issues))
	for n := range r.issues {
		ns = append(ns, n)
	}
	sort.Ints(ns)
	return ns
}

func (w *World) issueJSON(i *issue) obj {
	r := i.repo
	u := w.apiURL(r, fmt.Sprintf("/issues/%d", i.number))
	kind := "issues"
	if i.pull != nil {
		kind = "pull"
	}
	page := w.html(fmt.Sprintf("/%s/%s/%d", r.full(), kind, i.number))
	o := obj{
		"url": u, "repository_url": w.apiURL(r, ""), "labels_url": u + "/labels{/name}", "comments_url": u + "/comments",
		"events_url": u + "/events", "html_url": page, "id": i.id, "node_id": nodeID("Issue", i.id), "number": i.number,
		"title": i.title, "user": w.userJSON(i.author), "labels": w.labelsJSON(r, i.labels), "state": state(i), "locked": i.locked,
		"assignee": nil, "assignees": []any{}, "milestone": nil, "comments": len(i.comments), "created_at": stamp(i.created),
		"updated_at": stamp(i.updated), "closed_at": nil, "author_association": w.association(r, i.author),
		"active_lock_reason": orNull(i.lockReason), "body": i.body, "reactions": reactions(u), "timeline_url": u + "/timeline",
		"performed_via_github_app": w.via(i.author), "state_reason": orNull(i.stateReason),
	}
	if !i.open {
		o["closed_at"] = stamp(i.closedAt)
	}
	if p := i.pull; p != nil {
		o["draft"] = p.draft
		o["pull_request"] = obj{"url": w.apiURL(r, fmt.Sprintf("/pulls/%d", i.number)), "html_url": page,
			"diff_url": page + ".diff", "patch_url": page + ".patch", "merged_at": stamp(p.mergedAt)}
	}
	return o
}

// fullIssueJSON is an issue by itself.
func (w *World) fullIssueJSON(i *issue) obj {
	o := w.issueJSON(i)
	o["closed_by"] = nil
	if !i.open {
		o["closed_by"] = w.userJSON(i.closedBy)
	}
	return o
}

// discussionJSON is what an issue has become. The number stays; discussions
// have no API beside GraphQL.
func (w *World) discussionJSON(i *issue) obj {
	r := i.repo
	u := w.apiURL(r, fmt.Sprintf("/discussions/%d", i.number))
	at := stamp(w.now())
	return obj{"repository_url": w.apiURL(r, ""), "category": obj{"id": r.id + 1, "node_id": nodeID("DiscussionCategory", r.id+1), "repository_id": r.id,
		"emoji": ":speech_balloon:", "name": "General", "description": "", "created_at": stamp(r.created), "updated_at": stamp(r.created), "slug": "general", "is_answerable": false},
		"answer_html_url": nil, "answer_chosen_at": nil, "answer_chosen_by": nil, "html_url": w.html(fmt.Sprintf("/%s/discussions/%d", r.full(), i.number)),
		"id": i.id, "node_id": nodeID("Discussion", i.id), "number": i.number, "title": i.title, "user": w.userJSON(i.author), "state": "open", "state_reason": nil,
		"locked": false, "comments": len(i.comments), "created_at": at, "updated_at": at, "author_association": w.association(r, i.author),
		"active_lock_reason": nil, "body": text(i.body), "reactions": reactions(u), "timeline_url": u + "/timeline", "labels": w.labelsJSON(r, i.labels)}
}

func state(i *issue) string {
	if i.open {
		return "open"
	}
	return "closed"
}

func (w *World) via(a *account) any {
	for _, p := range w.apps {
		if a != nil && p.account == a && p.install != 0 {
			return w.appJSON(p)
		}
	}
	return nil
}

func (w *World) commentJSON(c *comment) obj {
	r := c.issue.repo
	u := w.apiURL(r, fmt.Sprintf("/issues/comments/%d", c.id))
	kind := "issues"
	if c.issue.pull != nil {
		kind = "pull"
	}
	return obj{
		"url": u, "html_url": w.html(fmt.Sprintf("/%s/%s/%d#issuecomment-%d", r.full(), kind, c.issue.number, c.id)),
		"issue_url": w.apiURL(r, fmt.Sprintf("/issues/%d", c.issue.number)), "id": c.id, "node_id": nodeID("IssueComment", c.id),
		"user": w.userJSON(c.author), "created_at": stamp(c.created), "updated_at": stamp(c.updated),
		"author_association": w.association(r, c.author), "body": c.body, "reactions": reactions(u), "performed_via_github_app": w.via(c.author),
	}
}

func (w *World) appJSON(a *app) obj {
	owner := w.account("mockworld", Organization)
	events := []any{"issues", "issue_comment", "pull_request", "push", "check_run", "status", "label"}
	perms := obj{}
	for k, v := range a.perms {
		perms[k] = v
	}
	return obj{"id": a.id, "client_id": a.clientID, "slug": a.slug, "node_id": nodeID("Integration", a.id), "owner": w.userJSON(owner),
		"name": a.slug, "description": nil, "external_url": w.html("/apps/" + a.slug), "html_url": w.html("/apps/" + a.slug),
		"created_at": stamp(a.created), "updated_at": stamp(a.created), "permissions": perms, "events": events}
}
