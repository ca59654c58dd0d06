package mockworld

import (
	"net/http"
	"time"
)

func checkRoutes() []*route {
	fields := []string{"name", "details_url", "external_id", "status", "started_at", "conclusion", "completed_at", "output", "actions"}
	const at = repoPath + "/commits/{ref...}"
	return []*route{
		{method: "POST", pattern: repoPath + "/check-runs", perm: "checks", body: append([]string{"head_sha"}, fields...), handle: createCheck},
		{method: "GET", pattern: repoPath + "/check-runs/{id}", perm: "checks", handle: getCheck},
		{method: "PATCH", pattern: repoPath + "/check-runs/{id}", perm: "checks", body: fields, handle: patchCheck},
		{method: "GET", pattern: at + "/check-runs", list: true, perm: "checks", query: []string{"check_name", "status", "filter", "app_id"}, handle: listChecks},
		{method: "GET", pattern: at + "/check-suites", list: true, perm: "checks", query: []string{"app_id", "check_name"}, handle: listSuites},
		{method: "POST", pattern: repoPath + "/statuses/{sha}", perm: "statuses", role: RoleWrite, body: []string{"state", "target_url", "description", "context"}, handle: createStatus},
		{method: "GET", pattern: at + "/status", list: true, perm: "statuses", handle: combinedStatus},
		{method: "GET", pattern: at + "/statuses", list: true, perm: "statuses", handle: listStatuses},
	}
}

// checkIn is what creating and updating a check run take.
type checkIn struct {
	Name        *string    `json:"name"`
	HeadSHA     string     `json:"head_sha"`
	DetailsURL  *string    `json:"details_url"`
	ExternalID  *string    `json:"external_id"`
	Status      *string    `json:"status"`
	StartedAt   *time.Time `json:"started_at"`
	Conclusion  *string    `json:"conclusion"`
	CompletedAt *time.Time `json:"completed_at"`
	Output      *struct {
		Title       *string `json:"title"`
		Summary     *string `json:"summary"`
		Text        *string `json:"text"`
		Annotations []any   `json:"annotations"`
	} `json:"output"`
}

// checkApp is the app of the caller: only apps may write check runs.
func checkApp(c *call) (*app, error) {
	if c.tok.app == nil {
		return nil, refuse(http.StatusForbidden, "You must authenticate via a GitHub App.")
	}
	return c.tok.app, nil
}

// apply checks the input and puts it on the run.
func (w *World) apply(c *checkRun, in checkIn) error {
	status, conclusion := c.status, c.conclusion
	if in.Status != nil {
		status = *in.Status
		if status != "completed" {
			conclusion = ""
		}
	}
	if in.Conclusion != nil && *in.Conclusion != "" {
		status, conclusion = "completed", *in.Conclusion
	}
	if err := validCheck(status, conclusion); err != nil {
		return err
	}
	if o := in.Output; o != nil {
		if o.Title == nil || o.Summary == nil {
			return invalid("CheckRun", "output", "missing_field")
		}
		for _, s := range []*string{o.Summary, o.Text} {
			if len([]rune(text(s))) > 65_535 {
				return invalidWhy("CheckRun", "output", "Only 65535 characters are allowed; the text is longer")
			}
		}
		if len(o.Annotations) > 50 {
			return invalidWhy("CheckRun", "output", "No more than 50 annotations per request are allowed")
		}
		c.title, c.summary, c.text = o.Title, o.Summary, o.Text
		c.annotations += len(o.Annotations)
	}
	if in.Name != nil && *in.Name != "" {
		c.name = *in.Name
	}
	if in.DetailsURL != nil {
		c.detailsURL = *in.DetailsURL
	}
	if in.ExternalID != nil {
		c.externalID = *in.ExternalID
	}
	if in.StartedAt != nil {
		c.started = *in.StartedAt
	}
	w.updateCheck(c, status, conclusion)
	if in.CompletedAt != nil {
		c.completed = *in.CompletedAt
	}
	return nil
}

func createCheck(w *World, c *call) (*reply, error) {
	a, err := checkApp(c)
	if err != nil {
		return nil, err
	}
	var in checkIn
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if text(in.Name) == "" {
		return nil, invalid("CheckRun", "name", "missing_field")
	}
	if len(in.HeadSHA) != 40 || w.resolve(c.repo, in.HeadSHA) == "" {
		return nil, invalidWhy("CheckRun", "head_sha", "No commit found for SHA: "+in.HeadSHA)
	}
	draft := &checkRun{status: "queued"}
	if err := w.apply(draft, in); err != nil {
		return nil, err
	}
	run := w.newCheck(c.repo, a, *in.Name, in.HeadSHA)
	if err := w.apply(run, in); err != nil {
		return nil, err
	}
	w.emitCheck(c.repo, run, "created", c.by)
	return created(w.checkJSON(c.repo, run))
}

func (w *World) checkOf(c *call) (*checkRun, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	for _, run := range c.repo.checks {
		if run.id == id {
			return run, nil
		}
	}
	return nil, notFound()
}

func getCheck(w *World, c *call) (*reply, error) {
	run, err := w.checkOf(c)
	if err != nil {
		return nil, err
	}
	return ok(w.checkJSON(c.repo, run))
}

func patchCheck(w *World, c *call) (*reply, error) {
	a, err := checkApp(c)
	if err != nil {
		return nil, err
	}
	run, err := w.checkOf(c)
	if err != nil {
		return nil, err
	}
	if run.app != a {
		return nil, refuse(http.StatusForbidden, "Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", a.id)
	}
	var in checkIn
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	was := run.status
	if err := w.apply(run, in); err != nil {
		return nil, err
	}
	if run.status == "completed" && was != "completed" {
		w.emitCheck(c.repo, run, "completed", c.by)
	}
	return ok(w.checkJSON(c.repo, run))
}

// commitOf resolves the reference of a route.
func (w *World) commitOf(c *call) (string, error) {
	sha := w.resolve(c.repo, c.vars["ref"])
	if sha == "" {
		return "", refuse(http.StatusUnprocessableEntity, "No commit found for SHA: %s", c.vars["ref"])
	}
	return sha, nil
}

func listChecks(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	q := c.query
	if s := q.Get("filter"); !oneOf(s, "", "latest", "all") {
		return nil, invalid("CheckRun", "filter", "invalid")
	}
	var list []*checkRun
	seen := map[string]bool{}
	for k := len(c.repo.checks) - 1; k >= 0; k-- {
		run := c.repo.checks[k]
		id := run.app.slug + "\x00" + run.name
		switch {
		case run.sha != sha,
			q.Get("check_name") != "" && run.name != q.Get("check_name"),
			q.Get("status") != "" && run.status != q.Get("status"),
			q.Get("app_id") != "" && int64(atoi(q.Get("app_id"), 0)) != run.app.id,
			q.Get("filter") != "all" && seen[id]:
			continue
		}
		seen[id] = true
		list = append(list, run)
	}
	out := []any{}
	for _, run := range page(c, list) {
		out = append(out, w.checkJSON(c.repo, run))
	}
	return ok(obj{"total_count": len(list), "check_runs": out})
}

func listSuites(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	if c.query.Has("app_id") || c.query.Has("check_name") {
		return nil, w.violation(c, "filters of check suites are not known")
	}
	list := w.suites(c.repo, sha)
	return ok(obj{"total_count": len(list), "check_suites": page(c, list)})
}

func createStatus(w *World, c *call) (*reply, error) {
	var in struct {
		State       string  `json:"state"`
		TargetURL   *string `json:"target_url"`
		Description *string `json:"description"`
		Context     *string `json:"context"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	s, err := w.setStatus(c.repo, c.by, StatusSpec{SHA: c.vars["sha"], State: in.State, Context: text(in.Context), Description: text(in.Description), TargetURL: text(in.TargetURL)})
	if err != nil {
		return nil, err
	}
	o := w.statusJSON(c.repo, s)
	o["creator"] = w.userJSON(s.creator)
	return created(o)
}

func combinedStatus(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	list := latestStatuses(c.repo, sha)
	// Without any status GitHub says pending.
	n := map[string]int{}
	for _, s := range list {
		n[s.state]++
	}
	total := "pending"
	switch {
	case n["error"]+n["failure"] > 0:
		total = "failure"
	case n["success"] > 0 && n["pending"] == 0:
		total = "success"
	}
	out := []any{}
	for _, s := range page(c, list) {
		out = append(out, w.statusJSON(c.repo, s))
	}
	u := w.apiURL(c.repo, "/commits/"+sha)
	return ok(obj{"state": total, "statuses": out, "sha": sha, "total_count": len(list), "repository": w.repoJSON(c.repo, nil), "commit_url": u, "url": u + "/status"})
}

func listStatuses(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	var list []*status
	for k := len(c.repo.statuses) - 1; k >= 0; k-- {
		if s := c.repo.statuses[k]; s.sha == sha {
			list = append(list, s)
		}
	}
	return all(c, list, func(s *status) obj {
		o := w.statusJSON(c.repo, s)
		o["creator"] = w.userJSON(s.creator)
		return o
	})
}
