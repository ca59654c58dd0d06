package mockworld

import (
	"net/http"
	"sort"
	"strings"
)

func pullRoutes() []*route {
	const one = repoPath + "/pulls/{number}"
	return []*route{
		{method: "GET", pattern: repoPath + "/pulls", list: true, perm: "pull_requests", query: []string{"state", "head", "base", "sort", "direction"}, handle: listPulls},
		{method: "POST", pattern: repoPath + "/pulls", perm: "pull_requests", handle: createPull,
			body: []string{"title", "head", "head_repo", "base", "body", "maintainer_can_modify", "draft", "issue"}},
		{method: "GET", pattern: one, perm: "pull_requests", handle: getPull},
		{method: "PATCH", pattern: one, perm: "pull_requests", body: []string{"title", "body", "state", "base", "maintainer_can_modify"}, handle: patchPull},
		{method: "GET", pattern: one + "/files", list: true, perm: "pull_requests", handle: pullFiles},
		{method: "GET", pattern: one + "/commits", list: true, perm: "pull_requests", handle: pullCommits},
		{method: "GET", pattern: one + "/merge", perm: "pull_requests", handle: isMerged},
		{method: "PUT", pattern: one + "/merge", perm: "contents", role: RoleWrite, body: []string{"commit_title", "commit_message", "sha", "merge_method"}, handle: mergePull},
	}
}

func (w *World) pullOf(c *call) (*issue, error) {
	n, err := c.number("number")
	if err != nil {
		return nil, err
	}
	i := c.repo.issues[int(n)]
	if i == nil || i.pull == nil {
		return nil, notFound()
	}
	return i, nil
}

func listPulls(w *World, c *call) (*reply, error) {
	q := c.query
	if s := q.Get("state"); !oneOf(s, "", "open", "closed", "all") {
		return nil, invalid("PullRequest", "state", "invalid")
	}
	if s := q.Get("sort"); !oneOf(s, "", "created", "updated") {
		return nil, w.violation(c, "sort %q not known", s)
	}
	owner, branch, qualified := strings.Cut(q.Get("head"), ":")
	var list []*issue
	for _, n := range issueNumbers(c.repo) {
		i := c.repo.issues[n]
		if i.pull == nil || i.gone {
			continue
		}
		if s := q.Get("state"); i.open != (s != "closed") && s != "all" {
			continue
		}
		// A head without "owner:" is ignored, as GitHub does.
		from := c.repo.owner
		if i.pull.fork {
			from = i.author
		}
		if qualified && (key(owner) != key(from.login) || branch != i.pull.head) {
			continue
		}
		if b := q.Get("base"); b != "" && b != i.pull.base {
			continue
		}
		list = append(list, i)
	}
	sortIssues(list, q.Get("sort"), q.Get("direction"))
	return all(c, list, func(i *issue) obj { return w.pullJSON(i, nil, false) })
}

func createPull(w *World, c *call) (*reply, error) {
	var in struct {
		Title string  `json:"title"`
		Head  string  `json:"head"`
		Base  string  `json:"base"`
		Body  *string `json:"body"`
		Draft bool    `json:"draft"`
		Issue int     `json:"issue"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Issue != 0 || c.body["head_repo"] != nil {
		return nil, w.violation(c, "turning an issue into a pull request, and forks, are not known")
	}
	if in.Base == "" {
		return nil, invalid("PullRequest", "base", "missing_field")
	}
	if in.Head == "" {
		return nil, invalid("PullRequest", "head", "missing_field")
	}
	if owner, branch, qualified := strings.Cut(in.Head, ":"); qualified {
		if key(owner) != key(c.repo.owner.login) {
			return nil, invalid("PullRequest", "head", "invalid")
		}
		in.Head = branch
	}
	if !w.atLeast(c.repo, c.by, RoleWrite) && c.repo.refs["refs/heads/"+in.Head] != "" {
		return nil, invalid("PullRequest", "head", "invalid")
	}
	i, err := w.openPull(c.repo, c.by, PullSpec{Title: in.Title, Head: in.Head, Base: in.Base, Body: text(in.Body), Draft: in.Draft})
	if err != nil {
		return nil, err
	}
	out := jsonReply(http.StatusCreated, w.pullJSON(i, nil, true))
	out.set("Location", w.pullJSON(i, nil, false)["url"].(string))
	return out, nil
}

func getPull(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	accept := c.r.Header.Get("Accept")
	if strings.Contains(accept, ".diff") || strings.Contains(accept, ".patch") {
		return w.pullText(c, i, strings.Contains(accept, ".patch"))
	}
	m, err := w.mergeable(i)
	if err != nil {
		return nil, err
	}
	return ok(w.pullJSON(i, m, true))
}

// pullText is the diff or the series of patches of a pull request.
func (w *World) pullText(c *call, i *issue, patch bool) (*reply, error) {
	d, err := w.pullDiff(i)
	if err != nil {
		return nil, err
	}
	if d.lines > maxDiffLines {
		return nil, &apiErr{status: http.StatusNotAcceptable, message: "Sorry, the diff exceeded the maximum number of lines (20000)",
			errors: []any{obj{"resource": "PullRequest", "field": "diff", "code": "too_large"}}}
	}
	out := &reply{status: http.StatusOK, body: d.text, header: http.Header{}}
	if patch {
		if out.body, err = c.repo.git.run(w.ctx, nil, "format-patch", "--stdout", w.baseOf(i)+".."+i.pull.headSHA); err != nil {
			return nil, err
		}
	}
	out.set("Content-Type", "application/vnd.github.v3.diff; charset=utf-8")
	return out, nil
}

func patchPull(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Title *string `json:"title"`
		Body  *string `json:"body"`
		State *string `json:"state"`
		Base  *string `json:"base"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if i.author != c.by && !w.atLeast(c.repo, c.by, RoleWrite) {
		return nil, refuse(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	if in.State != nil && !oneOf(*in.State, "open", "closed") {
		return nil, invalid("PullRequest", "state", "invalid")
	}
	if in.Base != nil && *in.Base != i.pull.base {
		if c.repo.refs["refs/heads/"+*in.Base] == "" {
			return nil, invalid("PullRequest", "base", "invalid")
		}
		w.addEvent(i, "base_ref_changed", c.by)
		i.pull.base = *in.Base
	}
	if err := w.editIssue(i, c.by, in.Title, in.Body); err != nil {
		return nil, err
	}
	if in.State != nil {
		if err := w.setOpen(i, c.by, *in.State == "open", "", ""); err != nil {
			return nil, err
		}
	}
	return ok(w.pullJSON(i, nil, true))
}

// maxPullFiles is how many files of a pull request are ever listed.
const maxPullFiles = 3000

func pullFiles(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	d, err := w.pullDiff(i)
	if err != nil {
		return nil, err
	}
	files := append([]*diffFile(nil), d.files...)
	sort.SliceStable(files, func(a, b int) bool { return files[a].path < files[b].path })
	return all(c, files[:min(len(files), maxPullFiles)], func(f *diffFile) obj { return w.fileJSON(c.repo, i.pull.headSHA, f) })
}

func pullCommits(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	list, err := c.repo.git.log(w.ctx, 250, "--reverse", w.baseOf(i)+".."+i.pull.headSHA)
	if err != nil {
		return nil, err
	}
	return all(c, list, func(g *gitCommit) obj { return w.commitJSON(c.repo, g) })
}

func isMerged(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	if !i.pull.merged {
		return nil, notFound()
	}
	return noContent()
}

func mergePull(w *World, c *call) (*reply, error) {
	i, err := w.pullOf(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Title   string `json:"commit_title"`
		Message string `json:"commit_message"`
		SHA     string `json:"sha"`
		Method  string `json:"merge_method"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	sha, err := w.mergePull(i, c.by, in.Method, in.SHA, in.Title, in.Message)
	if err != nil {
		return nil, err
	}
	return ok(obj{"sha": sha, "merged": true, "message": "Pull Request successfully merged"})
}
