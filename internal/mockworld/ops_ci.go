package mockworld

import (
	"fmt"
	"strings"
)

// appBySlug finds an app, making one without key for CI systems; the lock is
// held.
func (w *World) appBySlug(slug string) *app {
	for _, a := range w.apps {
		if a.slug == slug {
			return a
		}
	}
	a := &app{id: next(&w.ids.other), slug: slug, account: w.account(slug+"[bot]", Bot), created: w.now(),
		perms: map[string]string{"checks": "write", "metadata": "read"}}
	w.apps = append(w.apps, a)
	return a
}

func oneOf(s string, allowed ...string) bool {
	for _, a := range allowed {
		if s == a {
			return true
		}
	}
	return false
}

func validCheck(status, conclusion string) error {
	if !oneOf(status, "queued", "in_progress", "completed", "waiting", "requested", "pending") {
		return invalid("CheckRun", "status", "invalid")
	}
	if conclusion != "" && !oneOf(conclusion, "success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required", "stale") {
		return invalid("CheckRun", "conclusion", "invalid")
	}
	if status == "completed" && conclusion == "" {
		return invalid("CheckRun", "conclusion", "missing_field")
	}
	return nil
}

func (w *World) setCheck(r *repository, s CheckSpec) (*checkRun, error) {
	sha := w.resolve(r, s.SHA)
	if sha == "" {
		return nil, fmt.Errorf("no commit %q", s.SHA)
	}
	if s.App == "" {
		s.App = "github-actions"
	}
	if s.Status == "" {
		s.Status = "completed"
		if s.Conclusion == "" {
			s.Status = "queued"
		}
	}
	if s.Name == "" {
		return nil, invalid("CheckRun", "name", "missing_field")
	}
	if err := validCheck(s.Status, s.Conclusion); err != nil {
		return nil, err
	}
	a := w.appBySlug(s.App)
	var c *checkRun
	for _, x := range r.checks {
		if x.sha == sha && x.name == s.Name && x.app == a {
			c = x
		}
	}
	action := "completed"
	if c == nil {
		c = w.newCheck(r, a, s.Name, sha)
		action = "created"
	}
	w.updateCheck(c, s.Status, s.Conclusion)
	if s.Title != "" {
		c.title = &s.Title
	}
	if s.Summary != "" {
		c.summary = &s.Summary
	}
	w.emitCheck(r, c, action, a.account)
	return c, nil
}

// newCheck adds a check run, in the suite that its app has for the commit.
func (w *World) newCheck(r *repository, a *app, name, sha string) *checkRun {
	c := &checkRun{id: next(&w.ids.other), app: a, name: name, sha: sha, status: "queued", started: w.now()}
	for _, x := range r.checks {
		if x.sha == sha && x.app == a {
			c.suite = x.suite
		}
	}
	if c.suite == 0 {
		c.suite = next(&w.ids.other)
	}
	r.checks = append(r.checks, c)
	return c
}

func (w *World) updateCheck(c *checkRun, status, conclusion string) {
	c.status, c.conclusion = status, conclusion
	if status == "completed" {
		c.completed = w.now()
	}
}

func (w *World) setStatus(r *repository, by *account, s StatusSpec) (*status, error) {
	sha := w.resolve(r, s.SHA)
	if sha == "" {
		return nil, invalidWhy("Status", "sha", "No commit found for SHA: "+s.SHA)
	}
	if !oneOf(s.State, "error", "failure", "pending", "success") {
		return nil, invalid("Status", "state", "invalid")
	}
	if s.Context == "" {
		s.Context = "default"
	}
	if len([]rune(s.Description)) > 140 {
		return nil, invalidWhy("Status", "description", "description is too long (maximum is 140 characters)")
	}
	st := &status{id: next(&w.ids.other), sha: sha, context: s.Context, state: s.State, creator: by, created: w.now()}
	if s.Description != "" {
		st.description = &s.Description
	}
	if s.TargetURL != "" {
		st.targetURL = &s.TargetURL
	}
	r.statuses = append(r.statuses, st)
	list, err := r.git.log(w.ctx, 1, sha)
	if err != nil {
		return nil, err
	}
	w.emit(r, "status", "", by, obj{"commit": w.commitJSON(r, list[0]), "id": st.id, "sha": sha, "name": r.full(), "context": st.context,
		"state": st.state, "description": st.description, "target_url": st.targetURL,
		"created_at": stamp(st.created), "updated_at": stamp(st.created),
		"branches": w.branchesAt(r, sha)})
	return st, nil
}

func (w *World) branchesAt(r *repository, sha string) []any {
	list := []any{}
	for _, ref := range sortedKeys(r.refs) {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && r.refs[ref] == sha {
			list = append(list, obj{"name": name, "commit": obj{"sha": sha, "url": w.apiURL(r, "/commits/"+sha)}, "protected": false})
		}
	}
	return list
}

// latestStatuses is the newest status of each context at a commit, newest
// first.
func latestStatuses(r *repository, sha string) []*status {
	seen := map[string]bool{}
	var list []*status
	for k := len(r.statuses) - 1; k >= 0; k-- {
		if s := r.statuses[k]; s.sha == sha && !seen[s.context] {
			seen[s.context] = true
			list = append(list, s)
		}
	}
	return list
}
