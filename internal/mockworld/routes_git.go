package mockworld

import (
	"net/http"
	"regexp"
	"strings"
)

func gitRoutes() []*route {
	return []*route{
		{method: "GET", pattern: repoPath + "/branches", list: true, perm: "contents", query: []string{"protected"}, handle: listBranches},
		{method: "GET", pattern: repoPath + "/branches/{branch...}", perm: "contents", handle: getBranch},
		{method: "GET", pattern: repoPath + "/git/ref/{ref...}", perm: "contents", handle: getRef},
		{method: "GET", pattern: repoPath + "/git/matching-refs/{ref...}", perm: "contents", handle: matchingRefs},
		{method: "POST", pattern: repoPath + "/git/refs", perm: "contents", role: RoleWrite, body: []string{"ref", "sha"}, handle: createRef},
		{method: "PATCH", pattern: repoPath + "/git/refs/{ref...}", perm: "contents", role: RoleWrite, body: []string{"sha", "force"}, handle: patchRef},
		{method: "DELETE", pattern: repoPath + "/git/refs/{ref...}", perm: "contents", role: RoleWrite, handle: deleteRef},
		{method: "GET", pattern: repoPath + "/git/commits/{sha}", perm: "contents", handle: getGitCommit},
		{method: "GET", pattern: repoPath + "/commits", list: true, perm: "contents", query: []string{"sha", "path"}, handle: listCommits},
		{method: "GET", pattern: repoPath + "/commits/{ref...}/pulls", list: true, perm: "pull_requests", handle: commitPulls},
		{method: "GET", pattern: repoPath + "/commits/{ref...}", list: true, perm: "contents", handle: getCommit},
		{method: "GET", pattern: repoPath + "/compare/{spec...}", list: true, perm: "contents", handle: compare},
	}
}

func (w *World) branchJSON(r *repository, name string) obj {
	sha := r.refs["refs/heads/"+name]
	u := w.apiURL(r, "/branches/"+name+"/protection")
	return obj{"name": name, "commit": obj{"sha": sha, "url": w.apiURL(r, "/commits/"+sha)}, "protected": false,
		"protection": obj{"enabled": false, "required_status_checks": obj{"enforcement_level": "off", "contexts": []any{}, "checks": []any{}}}, "protection_url": u}
}

func listBranches(w *World, c *call) (*reply, error) {
	var names []string
	for _, ref := range sortedKeys(c.repo.refs) {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && c.query.Get("protected") != "true" {
			names = append(names, name)
		}
	}
	return all(c, names, func(n string) obj { return w.branchJSON(c.repo, n) })
}

func getBranch(w *World, c *call) (*reply, error) {
	name := c.vars["branch"]
	sha := c.repo.refs["refs/heads/"+name]
	if sha == "" {
		return nil, refuse(http.StatusNotFound, "Branch not found")
	}
	list, err := c.repo.git.log(w.ctx, 1, sha)
	if err != nil {
		return nil, err
	}
	o := w.branchJSON(c.repo, name)
	o["commit"] = w.commitJSON(c.repo, list[0])
	u := w.apiURL(c.repo, "/branches/"+name)
	o["_links"] = obj{"self": u, "html": w.html("/" + c.repo.full() + "/tree/" + name)}
	return ok(o)
}

func (w *World) gitRefJSON(r *repository, ref string) obj {
	sha := r.refs[ref]
	return obj{"ref": ref, "node_id": nodeID("Ref", r.id) + ref, "url": w.apiURL(r, "/git/"+ref),
		"object": obj{"sha": sha, "type": "commit", "url": w.apiURL(r, "/git/commits/"+sha)}}
}

func getRef(w *World, c *call) (*reply, error) {
	ref := "refs/" + strings.TrimPrefix(c.vars["ref"], "refs/")
	if c.repo.refs[ref] == "" {
		return nil, notFound()
	}
	return ok(w.gitRefJSON(c.repo, ref))
}

func matchingRefs(w *World, c *call) (*reply, error) {
	list := []any{}
	for _, ref := range sortedKeys(c.repo.refs) {
		if strings.HasPrefix(ref, "refs/"+c.vars["ref"]) {
			list = append(list, w.gitRefJSON(c.repo, ref))
		}
	}
	return ok(list)
}

var refName = regexp.MustCompile(`^refs/(heads|tags|[a-z][a-z0-9-]*)/[^ ~^:?*\[\\]+$`)

// mayWrite refuses references that only GitHub writes and commits that are
// not there.
func (w *World) mayWrite(c *call, ref, sha string) error {
	if !refName.MatchString(ref) || strings.Contains(ref, "..") || strings.HasPrefix(ref, "refs/pull/") {
		return refuse(http.StatusUnprocessableEntity, "Reference name is not valid: %s", ref)
	}
	if sha == "" {
		return nil
	}
	if len(sha) != 40 || w.resolve(c.repo, sha) != sha {
		return refuse(http.StatusUnprocessableEntity, "Object does not exist")
	}
	return nil
}

func createRef(w *World, c *call) (*reply, error) {
	var in struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.SHA == "" {
		return nil, refuse(http.StatusUnprocessableEntity, "Invalid request.\n\n\"sha\" wasn't supplied.")
	}
	if err := w.mayWrite(c, in.Ref, in.SHA); err != nil {
		return nil, err
	}
	if c.repo.refs[in.Ref] != "" {
		return nil, refuse(http.StatusUnprocessableEntity, "Reference already exists")
	}
	if err := c.repo.git.updateRef(w.ctx, in.Ref, in.SHA); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "Reference cannot be created: %v", err)
	}
	if err := w.reconcile(c.repo, c.by); err != nil {
		return nil, err
	}
	return created(w.gitRefJSON(c.repo, in.Ref))
}

func patchRef(w *World, c *call) (*reply, error) {
	var in struct {
		SHA   string `json:"sha"`
		Force bool   `json:"force"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	ref := "refs/" + c.vars["ref"]
	if err := w.mayWrite(c, ref, in.SHA); err != nil {
		return nil, err
	}
	old := c.repo.refs[ref]
	if old == "" {
		return nil, refuse(http.StatusUnprocessableEntity, "Reference does not exist")
	}
	forced, err := w.forced(c.repo, old, in.SHA)
	if err != nil {
		return nil, err
	}
	if forced && !in.Force {
		return nil, refuse(http.StatusUnprocessableEntity, "Update is not a fast forward")
	}
	if err := c.repo.git.updateRef(w.ctx, ref, in.SHA); err != nil {
		return nil, err
	}
	if err := w.reconcile(c.repo, c.by); err != nil {
		return nil, err
	}
	return ok(w.gitRefJSON(c.repo, ref))
}

func deleteRef(w *World, c *call) (*reply, error) {
	ref := "refs/" + c.vars["ref"]
	if c.repo.refs[ref] == "" || strings.HasPrefix(ref, "refs/pull/") {
		return nil, refuse(http.StatusUnprocessableEntity, "Reference does not exist")
	}
	if ref == "refs/heads/"+c.repo.defaultBranch {
		return nil, refuse(http.StatusUnprocessableEntity, "Cannot delete the default branch")
	}
	if err := c.repo.git.updateRef(w.ctx, ref, ""); err != nil {
		return nil, err
	}
	if err := w.reconcile(c.repo, c.by); err != nil {
		return nil, err
	}
	return noContent()
}

func getGitCommit(w *World, c *call) (*reply, error) {
	sha := c.vars["sha"]
	if len(sha) != 40 || w.resolve(c.repo, sha) == "" {
		return nil, notFound()
	}
	list, err := c.repo.git.log(w.ctx, 1, sha)
	if err != nil {
		return nil, err
	}
	o := w.gitCommitJSON(c.repo, list[0])
	delete(o, "comment_count")
	o["sha"], o["node_id"] = sha, nodeID("Commit", 0)+sha[:8]
	o["html_url"], o["parents"] = w.html("/"+c.repo.full()+"/commit/"+sha), w.parentsJSON(c.repo, list[0])
	return ok(o)
}

func listCommits(w *World, c *call) (*reply, error) {
	ref := c.query.Get("sha")
	if ref == "" {
		ref = c.repo.defaultBranch
	}
	sha := w.resolve(c.repo, ref)
	if sha == "" {
		return nil, notFound()
	}
	revs := []string{sha}
	if p := c.query.Get("path"); p != "" {
		revs = append(revs, "--", ":(literal)"+p)
	}
	list, err := c.repo.git.log(w.ctx, 0, revs...)
	if err != nil {
		return nil, err
	}
	return all(c, list, func(g *gitCommit) obj { return w.commitJSON(c.repo, g) })
}

func commitPulls(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	var list []*issue
	for _, n := range issueNumbers(c.repo) {
		if i := c.repo.issues[n]; i.pull != nil && (i.pull.headSHA == sha || i.pull.mergeSHA == sha) {
			list = append(list, i)
		}
	}
	return all(c, list, func(i *issue) obj { return w.pullJSON(i, nil, false) })
}

func getCommit(w *World, c *call) (*reply, error) {
	sha, err := w.commitOf(c)
	if err != nil {
		return nil, err
	}
	list, err := c.repo.git.log(w.ctx, 1, sha)
	if err != nil {
		return nil, err
	}
	parent := emptyTree
	if len(list[0].parents) > 0 {
		parent = list[0].parents[0]
	}
	d, err := c.repo.git.between(w.ctx, parent, sha, true)
	if err != nil {
		return nil, err
	}
	accept := c.r.Header.Get("Accept")
	if strings.Contains(accept, ".diff") || strings.Contains(accept, ".sha") {
		out := &reply{status: http.StatusOK, body: d.text, header: http.Header{}}
		if strings.Contains(accept, ".sha") {
			out.body = []byte(sha)
		}
		out.set("Content-Type", "application/vnd.github.v3.diff; charset=utf-8")
		return out, nil
	}
	o := w.commitJSON(c.repo, list[0])
	o["stats"] = obj{"additions": d.additions, "deletions": d.deletions, "total": d.additions + d.deletions}
	files := []any{}
	for _, f := range page(c, d.files) {
		files = append(files, w.fileJSON(c.repo, sha, f))
	}
	o["files"] = files
	return ok(o)
}

// emptyTree is what a first commit is compared with.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func compare(w *World, c *call) (*reply, error) {
	from, to, found := strings.Cut(c.vars["spec"], "...")
	if !found {
		return nil, notFound()
	}
	strip := func(s string) string {
		if _, b, q := strings.Cut(s, ":"); q {
			return b
		}
		return s
	}
	g := c.repo.git
	base, head := w.resolve(c.repo, strip(from)), w.resolve(c.repo, strip(to))
	if base == "" || head == "" {
		return nil, notFound()
	}
	mb, err := g.run(w.ctx, nil, "merge-base", base, head)
	if err != nil {
		return nil, refuse(http.StatusNotFound, "No common ancestor between %s and %s.", from, to)
	}
	ahead, err := w.countOf(c.repo, base+".."+head)
	if err != nil {
		return nil, err
	}
	behind, err := w.countOf(c.repo, head+".."+base)
	if err != nil {
		return nil, err
	}
	d, err := w.diffOf(c.repo, base, head)
	if err != nil {
		return nil, err
	}
	if strings.Contains(c.r.Header.Get("Accept"), ".diff") {
		out := &reply{status: http.StatusOK, body: d.text, header: http.Header{}}
		out.set("Content-Type", "application/vnd.github.v3.diff; charset=utf-8")
		return out, nil
	}
	list, err := g.log(w.ctx, 250, "--reverse", base+".."+head)
	if err != nil {
		return nil, err
	}
	both, err := g.log(w.ctx, 1, base)
	if err != nil {
		return nil, err
	}
	root, err := g.log(w.ctx, 1, strings.TrimSpace(string(mb)))
	if err != nil {
		return nil, err
	}
	status := "identical"
	switch {
	case ahead > 0 && behind > 0:
		status = "diverged"
	case ahead > 0:
		status = "ahead"
	case behind > 0:
		status = "behind"
	}
	commits, files := []any{}, []any{}
	for _, x := range page(c, list) {
		commits = append(commits, w.commitJSON(c.repo, x))
	}
	for _, f := range d.files[:min(len(d.files), 300)] {
		files = append(files, w.fileJSON(c.repo, head, f))
	}
	u, h := w.apiURL(c.repo, "/compare/"+c.vars["spec"]), w.html("/"+c.repo.full()+"/compare/"+c.vars["spec"])
	return ok(obj{"url": u, "html_url": h, "permalink_url": h, "diff_url": h + ".diff", "patch_url": h + ".patch", "base_commit": w.commitJSON(c.repo, both[0]),
		"merge_base_commit": w.commitJSON(c.repo, root[0]), "status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead, "commits": commits, "files": files})
}
