package mockworld

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

func repoRoutes() []*route {
	return []*route{
		{method: "GET", pattern: repoPath, handle: getRepo},
		{method: "GET", pattern: repoPath + "/collaborators/{login}/permission", perm: "metadata", handle: permission},
		{method: "GET", pattern: repoPath + "/collaborators/{login}", perm: "metadata", handle: isCollaborator},
		{method: "GET", pattern: repoPath + "/contents/{path...}", perm: "contents", query: []string{"ref"}, handle: getContents},
		{method: "GET", pattern: repoPath + "/contents/", perm: "contents", query: []string{"ref"}, handle: getContents},
		{method: "GET", pattern: repoPath + "/readme", perm: "contents", query: []string{"ref"}, handle: getReadme},
	}
}

func getRepo(w *World, c *call) (*reply, error) { return ok(w.fullRepoJSON(c.repo, c.by)) }

// permission is the collaborator-permission API. It speaks of people only:
// an app's account "is not a user".
func permission(w *World, c *call) (*reply, error) {
	if c.tok == nil {
		return nil, refuse(http.StatusUnauthorized, "Requires authentication")
	}
	if c.tok.app == nil && !w.atLeast(c.repo, c.by, RoleWrite) {
		return nil, refuse(http.StatusForbidden, "Must have push access to view collaborator permission.")
	}
	a := w.accounts[key(c.vars["login"])]
	if a == nil || strings.HasSuffix(a.login, "[bot]") || a.typ == Organization {
		return nil, refuse(http.StatusNotFound, "%s is not a user", c.vars["login"])
	}
	role := w.role(c.repo, a)
	if role == NoRole && !c.repo.private {
		role = RoleRead
	}
	// The old word knows four levels only.
	old := map[Role]string{NoRole: "none", RoleRead: "read", RoleTriage: "read", RoleWrite: "write", RoleMaintain: "write", RoleAdmin: "admin"}[role]
	u, isObj := w.userJSON(a).(obj)
	if !isObj {
		return nil, notFound()
	}
	n := rank(role)
	u["permissions"] = obj{"pull": n >= rank(RoleRead), "triage": n >= rank(RoleTriage), "push": n >= rank(RoleWrite), "maintain": n >= rank(RoleMaintain), "admin": n >= rank(RoleAdmin)}
	u["role_name"] = string(role)
	return ok(obj{"permission": old, "role_name": string(role), "user": u})
}

func isCollaborator(w *World, c *call) (*reply, error) {
	if c.tok == nil {
		return nil, refuse(http.StatusUnauthorized, "Requires authentication")
	}
	a := w.accounts[key(c.vars["login"])]
	if a == nil || w.role(c.repo, a) == NoRole {
		return nil, notFound()
	}
	return noContent()
}

// maxContents is the size beyond which the contents API leaves the content
// out, and maxBlob that beyond which it refuses.
const (
	maxContents = 1 << 20
	maxBlob     = 100 << 20
)

func (w *World) refOrDefault(c *call) (string, error) {
	ref := c.query.Get("ref")
	if ref == "" {
		ref = c.repo.defaultBranch
	}
	sha := w.resolve(c.repo, ref)
	if sha == "" {
		return "", refuse(http.StatusNotFound, "No commit found for the ref %s", ref)
	}
	return sha, nil
}

func getContents(w *World, c *call) (*reply, error) {
	sha, err := w.refOrDefault(c)
	if err != nil {
		return nil, err
	}
	p := strings.Trim(path.Clean("/"+c.vars["path"]), "/")
	return w.contents(c, sha, p)
}

func getReadme(w *World, c *call) (*reply, error) {
	sha, err := w.refOrDefault(c)
	if err != nil {
		return nil, err
	}
	return w.contents(c, sha, "README.md")
}

// entry is a line of git ls-tree.
type entry struct {
	mode, typ, sha, path string
	size                 int
}

func (g *gitRepo) lsTree(w *World, args ...string) ([]entry, error) {
	out, err := g.run(w.ctx, nil, append([]string{"ls-tree", "-z", "-l", "--full-tree"}, args...)...)
	if err != nil {
		return nil, err
	}
	var list []entry
	for rec := range bytes.SplitSeq(bytes.TrimRight(out, "\x00"), []byte{0}) {
		meta, p, found := strings.Cut(string(rec), "\t")
		f := strings.Fields(meta)
		if !found || len(f) != 4 {
			continue
		}
		size, _ := strconv.Atoi(f[3]) // "-" for what is no blob
		list = append(list, entry{mode: f[0], typ: f[1], sha: f[2], path: p, size: size})
	}
	return list, nil
}

func (w *World) contents(c *call, sha, p string) (*reply, error) {
	spec := sha
	if p != "" {
		list, err := c.repo.git.lsTree(w, sha, "--", ":(literal)"+p)
		if err != nil || len(list) == 0 {
			return nil, notFound()
		}
		if list[0].typ != "tree" {
			return w.fileContents(c, sha, list[0])
		}
		spec = sha + ":" + p
	}
	list, err := c.repo.git.lsTree(w, spec)
	if err != nil {
		return nil, notFound()
	}
	out := []any{}
	for _, e := range list {
		e.path = path.Join(p, e.path)
		out = append(out, w.entryJSON(c, sha, e))
	}
	return ok(out)
}

func (w *World) entryJSON(c *call, sha string, e entry) obj {
	typ := map[string]string{"tree": "dir", "commit": "submodule", "blob": "file"}[e.typ]
	if e.mode == "120000" {
		typ = "symlink"
	}
	at := (&url.URL{Path: e.path}).EscapedPath()
	u := w.apiURL(c.repo, "/contents/"+at+"?ref="+sha)
	gitURL := w.apiURL(c.repo, "/git/blobs/"+e.sha)
	page := w.html("/" + c.repo.full() + "/blob/" + sha + "/" + at)
	var download any
	if typ == "file" {
		download = w.html("/" + c.repo.full() + "/raw/" + sha + "/" + at)
	}
	return obj{"type": typ, "size": e.size, "name": path.Base(e.path), "path": e.path, "sha": e.sha, "url": u, "git_url": gitURL, "html_url": page,
		"download_url": download, "_links": obj{"git": gitURL, "self": u, "html": page}}
}

func (w *World) fileContents(c *call, sha string, e entry) (*reply, error) {
	o := w.entryJSON(c, sha, e)
	if o["type"] == "submodule" {
		o["submodule_git_url"] = nil
		return ok(o)
	}
	if e.size > maxBlob {
		return nil, &apiErr{status: http.StatusForbidden, message: "This API returns blobs up to 100 MB in size. The requested blob is too large to fetch via the API.",
			errors: []any{obj{"resource": "Blob", "field": "data", "code": "too_large"}}}
	}
	data, err := c.repo.git.run(w.ctx, nil, "cat-file", "blob", e.sha)
	if err != nil {
		return nil, err
	}
	if strings.Contains(c.r.Header.Get("Accept"), "raw") {
		out := &reply{status: http.StatusOK, body: data, header: http.Header{}}
		out.set("Content-Type", "application/vnd.github.raw; charset=utf-8")
		return out, nil
	}
	if o["type"] == "symlink" {
		o["target"] = string(data)
		return ok(o)
	}
	o["encoding"], o["content"] = "none", ""
	if e.size <= maxContents {
		o["encoding"], o["content"] = "base64", wrap(base64.StdEncoding.EncodeToString(data))
	}
	return ok(o)
}

// wrap breaks base64 into lines of 60, as GitHub does.
func wrap(s string) string {
	var b strings.Builder
	for len(s) > 60 {
		b.WriteString(s[:60] + "\n")
		s = s[60:]
	}
	return b.String() + s + "\n"
}
