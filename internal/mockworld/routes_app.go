package mockworld

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
)

// tokenLife is how long an installation token lives.
const tokenLife = time.Hour

func appRoutes() []*route {
	return []*route{
		{method: "GET", pattern: "/user", handle: getUser},
		{method: "GET", pattern: "/users/{login}", handle: getUserByLogin},
		{method: "GET", pattern: "/app", jwt: true, handle: getApp},
		{method: "GET", pattern: "/app/installations", jwt: true, list: true, query: []string{"since", "outdated"}, handle: listInstallations},
		{method: "GET", pattern: "/app/installations/{id}", jwt: true, handle: getInstallation},
		{method: "POST", pattern: "/app/installations/{id}/access_tokens", jwt: true, body: []string{"repositories", "repository_ids", "permissions"}, handle: mintToken},
		{method: "DELETE", pattern: "/app/installations/{id}", jwt: true, handle: uninstallSelf},
		{method: "PUT", pattern: "/app/installations/{id}/suspended", jwt: true, handle: suspendSelf},
		{method: "DELETE", pattern: "/app/installations/{id}/suspended", jwt: true, handle: unsuspendSelf},
		{method: "GET", pattern: "/users/{login}/installation", jwt: true, handle: accountInstallation},
		{method: "GET", pattern: "/orgs/{login}/installation", jwt: true, handle: accountInstallation},
		{method: "GET", pattern: "/repos/{owner}/{repo}/installation", jwt: true, handle: repoInstallation},
		{method: "GET", pattern: "/installation/repositories", list: true, handle: installationRepos},
		{method: "DELETE", pattern: "/installation/token", handle: revokeSelf},
		{method: "GET", pattern: "/rate_limit", free: true, handle: rateLimit},
		{method: "GET", pattern: "/meta", handle: meta},
	}
}

func getUser(w *World, c *call) (*reply, error) {
	switch {
	case c.tok == nil:
		return nil, refuse(http.StatusUnauthorized, "Requires authentication")
	case c.tok.app != nil:
		return nil, refuse(http.StatusForbidden, "Resource not accessible by integration")
	}
	if c.tok.classic {
		c.hdr.Set("X-OAuth-Scopes", join(c.tok.scopes))
	}
	return ok(w.fullUserJSON(c.by))
}

func join(s []string) string {
	out := ""
	for k, x := range s {
		if k > 0 {
			out += ", "
		}
		out += x
	}
	return out
}

func (w *World) fullUserJSON(a *account) any {
	o, isObj := w.userJSON(a).(obj)
	if !isObj {
		return nil
	}
	epoch := stamp(time.Unix(gitEpoch, 0))
	for k, v := range (obj{"name": a.login, "company": nil, "blog": "", "location": nil, "email": nil, "hireable": nil, "bio": nil, "twitter_username": nil,
		"public_repos": 0, "public_gists": 0, "followers": 0, "following": 0, "created_at": epoch, "updated_at": epoch}) {
		o[k] = v
	}
	return o
}

func getUserByLogin(w *World, c *call) (*reply, error) {
	a := w.accounts[key(c.vars["login"])]
	if a == nil {
		return nil, notFound()
	}
	return ok(w.fullUserJSON(a))
}

func getApp(w *World, c *call) (*reply, error) {
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	o := w.appJSON(a)
	o["installations_count"] = min(a.install, 1)
	return ok(o)
}

func (w *World) installationJSON(a *app) obj {
	u := w.api(fmt.Sprintf("/app/installations/%d", a.install))
	owner := w.installedAt(a)
	target := "User"
	if owner.typ == Organization {
		target = "Organization"
	}
	return obj{"id": a.install, "account": w.userJSON(owner), "access_tokens_url": u + "/access_tokens", "repositories_url": w.api("/installation/repositories"),
		"html_url": w.html(fmt.Sprintf("/settings/installations/%d", a.install)), "app_id": a.id, "client_id": a.clientID, "target_id": owner.id, "target_type": target,
		"permissions": a.perms, "events": []string{"issues", "issue_comment", "pull_request", "push"}, "created_at": stamp(a.created), "updated_at": stamp(a.created),
		"single_file_name": nil, "has_multiple_single_files": false, "single_file_paths": []any{}, "app_slug": a.slug,
		"repository_selection": "selected", "suspended_by": w.userJSON(a.suspendedBy), "suspended_at": w.suspendedAt(a)}
}

func (w *World) suspendedAt(a *app) any {
	if a.suspendedBy == nil {
		return nil
	}
	return stamp(a.suspendedAt)
}

// installedAt is the account that an app is installed at.
func (w *World) installedAt(a *app) *account {
	if list := w.installedOn(a); len(list) > 0 {
		return list[0].owner
	}
	return w.account("mockworld", Organization)
}

func listInstallations(w *World, c *call) (*reply, error) {
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	list := []*app{a}
	if a.install == 0 {
		list = nil
	}
	return all(c, list, w.installationJSON)
}

func accountInstallation(w *World, c *call) (*reply, error) {
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	if a.install == 0 || key(w.installedAt(a).login) != key(c.vars["login"]) {
		return nil, notFound()
	}
	return ok(w.installationJSON(a))
}

// suspendSelf and its kin are an app's own way to what SuspendApp does.
func suspendSelf(w *World, c *call) (*reply, error) {
	a, err := w.installation(c)
	if err != nil {
		return nil, err
	}
	w.suspend(a, a.account)
	return noContent()
}

func unsuspendSelf(w *World, c *call) (*reply, error) {
	a, err := w.installation(c)
	if err != nil {
		return nil, err
	}
	w.unsuspend(a, a.account)
	return noContent()
}

func uninstallSelf(w *World, c *call) (*reply, error) {
	a, err := w.installation(c)
	if err != nil {
		return nil, err
	}
	w.uninstall(a, a.account)
	return noContent()
}

func suspended() *apiErr { return refuse(http.StatusForbidden, "This installation has been suspended") }

// installation is the JWT's app when the path names its installation.
func (w *World) installation(c *call) (*app, error) {
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	if id, err := c.number("id"); err != nil || id != a.install || id == 0 {
		return nil, notFound()
	}
	return a, nil
}

func getInstallation(w *World, c *call) (*reply, error) {
	a, err := w.installation(c)
	if err != nil {
		return nil, err
	}
	return ok(w.installationJSON(a))
}

func repoInstallation(w *World, c *call) (*reply, error) {
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	if !a.repos[c.repo.id] {
		return nil, notFound()
	}
	return ok(w.installationJSON(a))
}

func mintToken(w *World, c *call) (*reply, error) {
	a, err := w.installation(c)
	if err != nil {
		return nil, err
	}
	if a.suspendedBy != nil {
		return nil, suspended()
	}
	var in struct {
		Repositories  []string          `json:"repositories"`
		RepositoryIDs []int64           `json:"repository_ids"`
		Permissions   map[string]string `json:"permissions"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	t := &token{account: a.account, app: a, perms: map[string]string{}, expires: w.now().Add(tokenLife)}
	for k, v := range a.perms {
		t.perms[k] = v
	}
	if in.Permissions != nil {
		for k, v := range in.Permissions {
			if !covers(a.perms[k], v) || v == "" {
				return nil, refuse(http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
			}
		}
		t.perms = in.Permissions
	}
	if _, has := t.perms["metadata"]; !has {
		t.perms["metadata"] = "read"
	}
	if t.repos, err = w.narrow(a, in.Repositories, in.RepositoryIDs); err != nil {
		return nil, err
	}
	w.tokenSeq++
	sum := sha256.Sum256(fmt.Appendf(nil, "token %d %d", a.install, w.tokenSeq))
	t.secret = "ghs_" + hex.EncodeToString(sum[:])[:36]
	w.tokens[t.secret] = t
	out := obj{"token": t.secret, "expires_at": stamp(t.expires), "permissions": t.perms, "repository_selection": "selected"}
	if t.repos != nil {
		list := []any{}
		for _, name := range sortedKeys(w.repos) {
			if t.repos[w.repos[name].id] {
				list = append(list, w.repoJSON(w.repos[name], a.account))
			}
		}
		out["repositories"] = list
	}
	return created(out)
}

// narrow is the set of repositories asked for, nil for all of the
// installation.
func (w *World) narrow(a *app, names []string, ids []int64) (map[int64]bool, error) {
	if len(names) == 0 && len(ids) == 0 {
		return nil, nil
	}
	set := map[int64]bool{}
	for _, r := range w.repos {
		if !a.repos[r.id] {
			continue
		}
		for _, n := range names {
			if key(n) == key(r.name) {
				set[r.id] = true
			}
		}
		for _, id := range ids {
			if id == r.id {
				set[r.id] = true
			}
		}
	}
	if len(set) < len(names) || len(set) < len(ids) {
		return nil, refuse(http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.")
	}
	return set, nil
}

func installationRepos(w *World, c *call) (*reply, error) {
	if c.tok == nil || c.tok.app == nil {
		return nil, refuse(http.StatusForbidden, "You must authenticate with an installation access token in order to list repositories for an installation.")
	}
	var repos []*repository
	for _, name := range sortedKeys(w.repos) {
		if r := w.repos[name]; w.reaches(c.tok, r) {
			repos = append(repos, r)
		}
	}
	list := []any{}
	for _, r := range page(c, repos) {
		list = append(list, w.repoJSON(r, c.by))
	}
	return ok(obj{"total_count": len(repos), "repository_selection": "selected", "repositories": list})
}

func revokeSelf(_ *World, c *call) (*reply, error) {
	if c.tok == nil || c.tok.app == nil {
		return nil, refuse(http.StatusUnauthorized, "Requires authentication")
	}
	c.tok.revoked = true
	return noContent()
}

func rateLimit(w *World, c *call) (*reply, error) {
	u, l := w.usageOf(c.who), w.primaryLimit(c.who)
	if l < 0 {
		return nil, refuse(http.StatusNotFound, "Rate limiting is not enabled.")
	}
	core := obj{"limit": l, "used": u.used, "remaining": max(l-u.used, 0), "reset": u.start.Add(time.Hour).Unix(), "resource": "core"}
	other := func(name string, n int) obj {
		return obj{"limit": n, "used": 0, "remaining": n, "reset": u.start.Add(time.Hour).Unix(), "resource": name}
	}
	return ok(obj{"rate": core, "resources": obj{"core": core, "search": other("search", 30), "graphql": other("graphql", 5000)}})
}

func meta(_ *World, _ *call) (*reply, error) {
	return ok(obj{"verifiable_password_authentication": false, "installed_version": "3.14.0"})
}
