package mockworld

import (
	"net/http"
	"strings"
)

func searchRoutes() []*route {
	return []*route{
		{method: "GET", pattern: "/", handle: getRoot},
		{method: "GET", pattern: "/search/issues", list: true, query: []string{"q", "sort", "order"}, handle: searchIssues},
		{method: "GET", pattern: "/user/repos", list: true, query: []string{"affiliation", "visibility", "sort", "direction"}, handle: userRepos},
	}
}

// getRoot names where things are; tools read the scopes of their token off it.
func getRoot(w *World, c *call) (*reply, error) {
	if c.tok != nil && c.tok.classic {
		c.hdr.Set("X-OAuth-Scopes", join(c.tok.scopes))
	}
	o := obj{"current_user_authorizations_html_url": w.html("/settings/connections/applications{/client_id}")}
	for name, path := range map[string]string{
		"current_user_url": "/user", "authorizations_url": "/authorizations", "code_search_url": "/search/code?q={query}{&page,per_page,sort,order}",
		"commit_search_url": "/search/commits?q={query}{&page,per_page,sort,order}", "emails_url": "/user/emails", "emojis_url": "/emojis",
		"events_url": "/events", "feeds_url": "/feeds", "followers_url": "/user/followers", "following_url": "/user/following{/target}",
		"gists_url": "/gists{/gist_id}", "issue_search_url": "/search/issues?q={query}{&page,per_page,sort,order}", "issues_url": "/issues",
		"keys_url": "/user/keys", "label_search_url": "/search/labels?q={query}&repository_id={repository_id}{&page,per_page}",
		"notifications_url": "/notifications", "organization_url": "/orgs/{org}", "organization_repositories_url": "/orgs/{org}/repos{?type,page,per_page,sort}",
		"organization_teams_url": "/orgs/{org}/teams", "public_gists_url": "/gists/public", "rate_limit_url": "/rate_limit",
		"repository_url": "/repos/{owner}/{repo}", "repository_search_url": "/search/repositories?q={query}{&page,per_page,sort,order}",
		"current_user_repositories_url": "/user/repos{?type,page,per_page,sort}", "starred_url": "/user/starred{/owner}{/repo}",
		"starred_gists_url": "/gists/starred", "user_url": "/users/{user}", "user_organizations_url": "/user/orgs",
		"user_repositories_url": "/users/{user}/repos{?type,page,per_page,sort}", "user_search_url": "/search/users?q={query}{&page,per_page,sort,order}",
	} {
		o[name] = w.api(path)
	}
	return ok(o)
}

func userRepos(w *World, c *call) (*reply, error) {
	if c.tok == nil {
		return nil, refuse(http.StatusUnauthorized, "Requires authentication")
	}
	if c.tok.app != nil {
		return nil, refuse(http.StatusForbidden, "Resource not accessible by integration")
	}
	for _, name := range []string{"affiliation", "visibility", "sort", "direction"} {
		if c.query.Has(name) {
			return nil, w.violation(c, "query parameter %s=%q not known", name, c.query.Get(name))
		}
	}
	var list []*repository
	for _, name := range sortedKeys(w.repos) {
		if r := w.repos[name]; w.role(r, c.by) != NoRole && w.reaches(c.tok, r) {
			list = append(list, r)
		}
	}
	return all(c, list, func(r *repository) obj { return w.repoJSON(r, c.by) })
}

// term is a part of a search: a word, or a qualifier with its value.
type term struct {
	not         bool
	name, value string // name "" for a word
}

// terms splits a search; quotes hold a value together.
func terms(q string) []term {
	var list []term
	for rest := strings.TrimSpace(q); rest != ""; rest = strings.TrimSpace(rest) {
		quoted, n := false, len(rest)
		for k, c := range rest {
			if c == '"' {
				quoted = !quoted
			}
			if c == ' ' && !quoted {
				n = k
				break
			}
		}
		word := rest[:n]
		rest = rest[n:]
		t := term{}
		word, t.not = strings.CutPrefix(word, "-")
		name, value, qualified := strings.Cut(word, ":")
		if qualified && !strings.Contains(name, `"`) {
			t.name, t.value = name, strings.Trim(value, `"`)
		} else {
			t.value = strings.Trim(word, `"`)
		}
		list = append(list, t)
	}
	return list
}

func searchIssues(w *World, c *call) (*reply, error) {
	if c.query.Get("q") == "" {
		return nil, invalid("Search", "q", "missing")
	}
	if !oneOf(c.query.Get("sort"), "", "created", "updated", "comments") {
		return nil, w.violation(c, "sort %q not known", c.query.Get("sort"))
	}
	want := terms(c.query.Get("q"))
	for _, t := range want {
		if !oneOf(t.name, "", "repo", "user", "org", "is", "type", "state", "label", "author", "involves", "head", "base", "in") {
			return nil, w.violation(c, "search qualifier %q not known", t.name)
		}
		if oneOf(t.name, "is", "type", "state") && !oneOf(t.value, "issue", "pr", "pull-request", "open", "closed", "merged", "unmerged", "draft", "locked", "unlocked", "public", "private") {
			return nil, w.violation(c, "search qualifier %s:%s not known", t.name, t.value)
		}
	}
	var list []*issue
	for _, name := range sortedKeys(w.repos) {
		r := w.repos[name]
		if !w.visible(c, r) {
			continue
		}
		for _, n := range issueNumbers(r) {
			if i := r.issues[n]; !i.gone && i.movedTo == nil && matches(i, want) {
				list = append(list, i)
			}
		}
	}
	sortIssues(list, c.query.Get("sort"), c.query.Get("order"))
	items := []any{}
	for _, i := range page(c, list) {
		o := w.issueJSON(i)
		o["score"] = 1.0
		items = append(items, o)
	}
	return ok(obj{"total_count": len(list), "incomplete_results": false, "search_type": "lexical", "items": items})
}

func matches(i *issue, want []term) bool {
	for _, t := range want {
		if t.name != "in" && i.matches(t) == t.not {
			return false
		}
	}
	return true
}

// matches says whether a term, taken without its "not", holds.
func (i *issue) matches(t term) bool {
	v := key(t.value)
	switch t.name {
	case "repo":
		return v == key(i.repo.full())
	case "user", "org":
		return v == key(i.repo.owner.login)
	case "label":
		return i.has(t.value) != nil
	case "author", "involves":
		return v == key(login(i.author))
	case "head":
		return i.pull != nil && v == key(i.pull.head)
	case "base":
		return i.pull != nil && v == key(i.pull.base)
	case "is", "type", "state":
		return map[string]bool{"issue": i.pull == nil, "pr": i.pull != nil, "pull-request": i.pull != nil, "open": i.open, "closed": !i.open,
			"merged": i.pull != nil && i.pull.merged, "unmerged": i.pull != nil && !i.pull.merged, "draft": i.pull != nil && i.pull.draft,
			"locked": i.locked, "unlocked": !i.locked, "public": !i.repo.private, "private": i.repo.private}[v]
	}
	if strings.Contains(key(i.title), v) || strings.Contains(key(text(i.body)), v) {
		return true
	}
	for _, c := range i.comments {
		if strings.Contains(key(c.body), v) {
			return true
		}
	}
	return false
}
