package mockworld

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// route is one operation of the API.
type route struct {
	method, pattern string
	query           []string // parameters it knows, beside page and per_page of a list
	body            []string // fields it knows
	list            bool
	anyBody         bool // handled by itself: an array, or nothing
	perm            string
	level           string // read for GET, write otherwise
	role            Role   // least role of the account for a write
	jwt             bool   // wants an app's JWT
	free            bool   // costs no primary quota
	handle          func(*World, *call) (*reply, error)

	re    *regexp.Regexp
	names []string
}

// compileRoutes makes the table matchable: {x} is a path segment, {x...} the
// shortest run of segments that fits.
func compileRoutes() []*route {
	var all []*route
	for _, group := range [][]*route{appRoutes(), repoRoutes(), issueRoutes(), commentRoutes(), labelRoutes(), pullRoutes(), reviewRoutes(), checkRoutes(), gitRoutes(), hookRoutes(), searchRoutes(), reviewerRoutes()} {
		all = append(all, group...)
	}
	part := regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)
	for _, r := range all {
		re := part.ReplaceAllStringFunc(r.pattern, func(s string) string {
			m := part.FindStringSubmatch(s)
			r.names = append(r.names, m[1])
			if m[2] != "" {
				return `(.+?)`
			}
			return `([^/]+)`
		})
		r.re = regexp.MustCompile("^" + re + "$")
		if r.level == "" {
			r.level = "write"
			if r.method == http.MethodGet {
				r.level = "read"
			}
		}
	}
	// issues/comments goes before issues/{number}.
	sort.SliceStable(all, func(a, b int) bool { return len(all[a].names) < len(all[b].names) })
	return all
}

// Operation is an operation of the API that the world knows.
type Operation struct {
	Method string `json:"method"`
	// Pattern has {x} for a segment and {x...} for several.
	Pattern string `json:"pattern"`
	// Query and Fields are the parameters and the body's fields that it takes.
	Query  []string `json:"query,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

// Operations are all that any world knows, for a check against GitHub's
// description.
func Operations() []Operation {
	var list []Operation
	for _, r := range compileRoutes() {
		o := Operation{Method: r.method, Pattern: r.pattern, Query: r.query, Fields: r.body}
		if r.list {
			o.Query = append([]string{"page", "per_page"}, r.query...)
		}
		list = append(list, o)
	}
	return list
}

// match finds the route of a path.
func (w *World) match(c *call) error {
	other, method := false, c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server leaves the body out
	}
	for _, r := range w.routes {
		m := r.re.FindStringSubmatch(c.path)
		if m == nil {
			continue
		}
		if r.method != method {
			other = true
			continue
		}
		c.route, c.vars = r, map[string]string{}
		for k, name := range r.names {
			v, err := url.PathUnescape(m[k+1])
			if err != nil {
				return refuse(http.StatusBadRequest, "Bad Request")
			}
			c.vars[name] = v
		}
		return nil
	}
	if other {
		return w.violation(c, "method not known for this route")
	}
	return w.violation(c, "route not known")
}

// rest answers one API call.
func (w *World) rest(c *call) (*reply, error) {
	if id, rest, ok := cutRepositoryID(c.path); ok {
		r := w.repoByID(id)
		if r == nil {
			return nil, notFound()
		}
		c.path = "/repos/" + url.PathEscape(r.owner.login) + "/" + url.PathEscape(r.name) + rest
	}
	if err := w.match(c); err != nil {
		return nil, err
	}
	if !c.route.jwt {
		if err := w.authenticate(c); err != nil {
			return nil, err
		}
	}
	if !c.route.free {
		if err := w.limit(c); err != nil {
			return nil, err
		}
	}
	if out, err := w.findRepo(c); out != nil || err != nil {
		return out, err
	}
	if err := w.known(c); err != nil {
		return nil, err
	}
	if c.route.perm != "" {
		if err := w.need(c, c.route.perm, c.route.level); err != nil {
			return nil, err
		}
	}
	if c.route.level == "write" && c.repo != nil {
		if c.tok == nil {
			return nil, refuse(http.StatusUnauthorized, "Requires authentication")
		}
		if c.repo.archived {
			return nil, refuse(http.StatusForbidden, "Repository was archived so is read-only.")
		}
		if c.route.role != "" {
			if err := w.needRole(c, c.route.role); err != nil {
				return nil, err
			}
		}
	}
	return c.route.handle(w, c)
}

func (w *World) repoByID(id string) *repository {
	for _, r := range w.repos {
		if strconv.FormatInt(r.id, 10) == id {
			return r
		}
	}
	return nil
}

func cutRepositoryID(path string) (id, rest string, ok bool) {
	tail, ok := strings.CutPrefix(path, "/repositories/")
	if !ok {
		return "", "", false
	}
	id, rest, more := strings.Cut(tail, "/")
	if more {
		rest = "/" + rest
	}
	return id, rest, true
}

// findRepo sets the repository of a route that has one; a renamed one is a
// redirect.
func (w *World) findRepo(c *call) (*reply, error) {
	owner, name := c.vars["owner"], c.vars["repo"]
	if owner == "" || name == "" {
		return nil, nil
	}
	full := key(owner + "/" + name)
	c.repo = w.repos[full]
	if c.repo == nil {
		r := w.moved[full]
		if r == nil || !w.visible(c, r) {
			return nil, notFound()
		}
		prefix := "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name)
		return w.redirect(c, r, c.path[min(len(prefix), len(c.path)):]), nil
	}
	if !c.route.jwt && !w.visible(c, c.repo) {
		return nil, notFound()
	}
	return nil, nil
}

// redirect is 301 for reads and 307 for writes, to the address by id.
func (w *World) redirect(c *call, r *repository, rest string) *reply {
	status, message := http.StatusMovedPermanently, "Moved Permanently"
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		status, message = http.StatusTemporaryRedirect, "Temporary Redirect"
	}
	to := w.api(fmt.Sprintf("/repositories/%d%s", r.id, rest))
	if q := c.r.URL.RawQuery; q != "" {
		to += "?" + q
	}
	out := jsonReply(status, obj{"message": message, "url": to, "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects"})
	out.set("Location", to)
	return out
}

// known refuses query parameters and body fields that the route lacks.
func (w *World) known(c *call) error {
	for name := range c.query {
		paging := c.route.list && oneOf(name, "page", "per_page")
		if !paging && !oneOf(name, c.route.query...) {
			return w.violation(c, "query parameter %q not known", name)
		}
	}
	if c.route.anyBody || len(strings.TrimSpace(string(c.raw))) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.raw, &c.body); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return refuse(http.StatusBadRequest, "Body should be a JSON object")
		}
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	for name := range c.body {
		if !oneOf(name, c.route.body...) {
			return w.violation(c, "body field %q not known", name)
		}
	}
	return nil
}

// decode reads the body into a struct; a wrong type is 422.
func (c *call) decode(v any) error {
	if len(strings.TrimSpace(string(c.raw))) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.raw, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return refuse(http.StatusUnprocessableEntity, "Invalid request.\n\nFor 'properties/%s', %s is not a %s.", wrong.Field, wrong.Value, wrong.Type)
		}
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	return nil
}

func (c *call) number(name string) (int64, error) {
	n, err := strconv.ParseInt(c.vars[name], 10, 64)
	if err != nil || n <= 0 {
		return 0, notFound()
	}
	return n, nil
}

func ok(v any) (*reply, error)      { return jsonReply(http.StatusOK, v), nil }
func created(v any) (*reply, error) { return jsonReply(http.StatusCreated, v), nil }
func noContent() (*reply, error)    { return jsonReply(http.StatusNoContent, nil), nil }

// page cuts a list to the page asked for and sets the Link header, whose
// addresses name the repository by id.
func page[T any](c *call, items []T) []T {
	per := atoi(c.query.Get("per_page"), 30)
	if per < 1 {
		per = 30
	}
	per = min(per, 100)
	n := max(atoi(c.query.Get("page"), 1), 1)
	last := max((len(items)+per-1)/per, 1)
	var links []string
	add := func(rel string, p int) {
		q := url.Values{}
		for k, v := range c.query {
			q[k] = v
		}
		q.Set("page", strconv.Itoa(p))
		links = append(links, fmt.Sprintf(`<%s?%s>; rel="%s"`, c.selfURL(), q.Encode(), rel))
	}
	if n > 1 {
		add("prev", min(n-1, last))
	}
	if n < last {
		add("next", n+1)
		add("last", last)
	}
	if n > 1 {
		add("first", 1)
	}
	if len(links) > 0 {
		c.hdr.Set("Link", strings.Join(links, ", "))
	}
	from := min((n-1)*per, len(items))
	return items[from:min(from+per, len(items))]
}

func (c *call) selfURL() string {
	path := c.path
	if c.repo != nil {
		parts := strings.SplitN(path, "/", 5)
		path = fmt.Sprintf("/repositories/%d", c.repo.id)
		if len(parts) == 5 {
			path += "/" + parts[4]
		}
	}
	return c.world.api(path)
}

func atoi(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return otherwise
	}
	return n
}

// all is a list route's answer.
func all[T any](c *call, items []T, render func(T) obj) (*reply, error) {
	list := []any{}
	for _, it := range page(c, items) {
		list = append(list, render(it))
	}
	return ok(list)
}
