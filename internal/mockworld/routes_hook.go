package mockworld

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

func hookRoutes() []*route {
	const list, one = repoPath + "/hooks", repoPath + "/hooks/{id}"
	const perm = "repository_hooks"
	deliveries := []string{"cursor", "per_page", "status"}
	fields := []string{"config", "events", "active", "add_events", "remove_events"}
	return []*route{
		{method: "GET", pattern: list, list: true, perm: perm, handle: listHooks},
		{method: "POST", pattern: list, perm: perm, role: RoleAdmin, body: []string{"name", "config", "events", "active"}, handle: createHook},
		{method: "GET", pattern: one, perm: perm, handle: getHook},
		{method: "PATCH", pattern: one, perm: perm, role: RoleAdmin, body: fields, handle: patchHook},
		{method: "DELETE", pattern: one, perm: perm, role: RoleAdmin, handle: deleteHook},
		{method: "POST", pattern: one + "/pings", perm: perm, role: RoleAdmin, handle: pingHook},
		{method: "GET", pattern: one + "/deliveries", perm: perm, query: deliveries, handle: hookDeliveries},
		{method: "GET", pattern: one + "/deliveries/{delivery}", perm: perm, handle: hookDelivery},
		{method: "POST", pattern: one + "/deliveries/{delivery}/attempts", perm: perm, role: RoleAdmin, handle: hookAttempt},
		{method: "GET", pattern: "/app/hook/config", jwt: true, handle: appHookConfig},
		{method: "GET", pattern: "/app/hook/deliveries", jwt: true, query: deliveries, handle: hookDeliveries},
		{method: "GET", pattern: "/app/hook/deliveries/{delivery}", jwt: true, handle: hookDelivery},
		{method: "POST", pattern: "/app/hook/deliveries/{delivery}/attempts", jwt: true, handle: hookAttempt},
	}
}

// mayHooks refuses those who are no administrators; to them hooks are not
// there.
func (w *World) mayHooks(c *call) error {
	if c.tok == nil {
		return refuse(http.StatusUnauthorized, "Requires authentication")
	}
	if c.tok.app == nil && !w.atLeast(c.repo, c.by, RoleAdmin) {
		return notFound()
	}
	return nil
}

func (w *World) repoHooks(r *repository) []*hookEntry {
	var list []*hookEntry
	for _, h := range w.hooks {
		if h.spec.AppID == 0 && h.spec.Repo != "" && (w.repos[key(h.spec.Repo)] == r || w.moved[key(h.spec.Repo)] == r) {
			list = append(list, h)
		}
	}
	return list
}

// hooksOf are the hooks that a route speaks of: those of the repository, or
// that of the app.
func (w *World) hooksOf(c *call) ([]*hookEntry, error) {
	if c.repo != nil {
		return w.repoHooks(c.repo), w.mayHooks(c)
	}
	a, err := w.jwtApp(c)
	if err != nil {
		return nil, err
	}
	for _, h := range w.hooks {
		if h.spec.AppID == a.id {
			return []*hookEntry{h}, nil
		}
	}
	return nil, notFound()
}

// hook is the one hook of a route.
func (w *World) hook1(c *call) (*hookEntry, error) {
	list, err := w.hooksOf(c)
	if err != nil {
		return nil, err
	}
	if c.repo == nil {
		return list[0], nil
	}
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		if h.id == id {
			return h, nil
		}
	}
	return nil, notFound()
}

func hookConfig(h *hookEntry) obj {
	o := obj{"content_type": "json", "insecure_ssl": "0", "url": h.spec.URL}
	if h.spec.Secret != "" {
		o["secret"] = "********"
	}
	return o
}

func (w *World) hookJSON(r *repository, h *hookEntry) obj {
	u := w.apiURL(r, fmt.Sprintf("/hooks/%d", h.id))
	events := h.spec.Events
	if events == nil {
		events = []string{"*"}
	}
	last := obj{"code": nil, "status": "unused", "message": nil}
	for _, d := range w.deliveries {
		if d.HookID == h.id && d.Done {
			last = obj{"code": d.Status, "status": "active", "message": deliveryStatus(&d.Delivery)}
		}
	}
	return obj{"type": "Repository", "id": h.id, "name": "web", "active": !h.inactive, "events": events, "config": hookConfig(h),
		"updated_at": stamp(h.created), "created_at": stamp(h.created), "url": u, "test_url": u + "/test", "ping_url": u + "/pings",
		"deliveries_url": u + "/deliveries", "last_response": last}
}

func listHooks(w *World, c *call) (*reply, error) {
	list, err := w.hooksOf(c)
	if err != nil {
		return nil, err
	}
	return all(c, list, func(h *hookEntry) obj { return w.hookJSON(c.repo, h) })
}

// hookIn is what creating and editing a hook take.
type hookIn struct {
	Name   string `json:"name"`
	Config *struct {
		URL         string          `json:"url"`
		ContentType string          `json:"content_type"`
		Secret      string          `json:"secret"`
		InsecureSSL json.RawMessage `json:"insecure_ssl"`
	} `json:"config"`
	Events []string `json:"events"`
	Active *bool    `json:"active"`
}

func (w *World) hookIn(c *call) (hookIn, error) {
	var in hookIn
	if err := c.decode(&in); err != nil {
		return in, err
	}
	if in.Name != "" && in.Name != "web" {
		return in, invalid("Hook", "name", "invalid")
	}
	if in.Config == nil {
		return in, nil
	}
	if err := hookAddress(in.Config.URL); err != nil {
		return in, invalidWhy("Hook", "url", err.Error())
	}
	if in.Config.ContentType != "json" {
		return in, w.violation(c, "hooks of content type %q are not known", in.Config.ContentType)
	}
	return in, nil
}

func createHook(w *World, c *call) (*reply, error) {
	in, err := w.hookIn(c)
	if err != nil {
		return nil, err
	}
	if in.Config == nil {
		return nil, invalid("Hook", "config", "missing_field")
	}
	events := in.Events
	switch {
	case events == nil:
		events = []string{"push"}
	case oneOf("*", events...):
		events = nil
	}
	for _, h := range w.repoHooks(c.repo) {
		if h.spec.URL == in.Config.URL {
			return nil, invalidWhy("Hook", "", "Hook already exists on this repository")
		}
	}
	h := w.startHook(HookSpec{Repo: c.repo.full(), URL: in.Config.URL, Secret: in.Config.Secret, Events: events})
	h.inactive = in.Active != nil && !*in.Active
	w.ping(h)
	return created(w.hookJSON(c.repo, h))
}

func getHook(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	return ok(w.hookJSON(c.repo, h))
}

func patchHook(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	if c.body["add_events"] != nil || c.body["remove_events"] != nil {
		return nil, w.violation(c, "adding and removing events is not known; send events")
	}
	in, err := w.hookIn(c)
	if err != nil {
		return nil, err
	}
	if in.Config != nil {
		h.spec.URL = in.Config.URL
		h.spec.Secret = in.Config.Secret
	}
	if in.Events != nil {
		h.spec.Events = in.Events
		if oneOf("*", in.Events...) {
			h.spec.Events = nil
		}
	}
	if in.Active != nil {
		h.inactive = !*in.Active
	}
	return ok(w.hookJSON(c.repo, h))
}

func deleteHook(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	for k, x := range w.hooks {
		if x == h {
			w.hooks = append(w.hooks[:k:k], w.hooks[k+1:]...)
			break
		}
	}
	return noContent()
}

func pingHook(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	w.ping(h)
	return noContent()
}

func appHookConfig(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	return ok(hookConfig(h))
}

func deliveryStatus(d *Delivery) string {
	switch {
	case d.Status == 0:
		return "failed to connect to host"
	case d.Status < 200 || d.Status > 299:
		return fmt.Sprintf("Invalid HTTP Response: %d", d.Status)
	}
	return "OK"
}

func (w *World) deliveryJSON(d *delivery) obj {
	o := obj{"id": d.ID, "guid": d.GUID, "delivered_at": stamp(d.At), "redelivery": d.Redelivery, "duration": 0.05, "status": deliveryStatus(&d.Delivery),
		"status_code": d.Status, "event": d.Event, "action": orNull(d.Action), "installation_id": nil, "repository_id": nil, "throttled_at": nil}
	if a := w.appByID(d.hook.spec.AppID); a != nil && a.install != 0 {
		o["installation_id"] = a.install
	}
	if r := w.repos[key(d.Repo)]; r != nil {
		o["repository_id"] = r.id
	}
	return o
}

// hookDeliveries pages by a cursor, the newest first, not by numbers.
func hookDeliveries(w *World, c *call) (*reply, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	per := min(max(atoi(c.query.Get("per_page"), 30), 1), 100)
	want, from := c.query.Get("status"), int64(atoi(c.query.Get("cursor"), 0))
	if !oneOf(want, "", "success", "failure") {
		return nil, refuse(http.StatusUnprocessableEntity, "Invalid status")
	}
	out := []any{}
	for k := len(w.deliveries) - 1; k >= 0; k-- {
		d := w.deliveries[k]
		fine := deliveryStatus(&d.Delivery) == "OK"
		if d.HookID != h.id || !d.Done || from != 0 && d.ID > from || want == "success" && !fine || want == "failure" && fine {
			continue
		}
		if len(out) == per {
			q := url.Values{"per_page": {strconv.Itoa(per)}, "cursor": {strconv.FormatInt(d.ID, 10)}}
			if want != "" {
				q.Set("status", want)
			}
			c.hdr.Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, c.selfURL(), q.Encode()))
			break
		}
		out = append(out, w.deliveryJSON(d))
	}
	return ok(out)
}

func (w *World) deliveryOf(c *call) (*delivery, error) {
	h, err := w.hook1(c)
	if err != nil {
		return nil, err
	}
	id, err := c.number("delivery")
	if err != nil {
		return nil, err
	}
	for _, d := range w.deliveries {
		if d.ID == id && d.HookID == h.id && d.Done {
			return d, nil
		}
	}
	return nil, notFound()
}

func hookDelivery(w *World, c *call) (*reply, error) {
	d, err := w.deliveryOf(c)
	if err != nil {
		return nil, err
	}
	o := w.deliveryJSON(d)
	o["url"] = d.hook.spec.URL
	o["request"] = obj{"headers": obj{"X-GitHub-Event": d.Event, "X-GitHub-Delivery": d.GUID, "content-type": "application/json"}, "payload": json.RawMessage(d.payload)}
	o["response"] = obj{"headers": obj{}, "payload": d.Response}
	return ok(o)
}

// hookAttempt delivers once more, with the GUID as it was.
func hookAttempt(w *World, c *call) (*reply, error) {
	d, err := w.deliveryOf(c)
	if err != nil {
		return nil, err
	}
	w.again(d)
	return jsonReply(http.StatusAccepted, obj{}), nil
}
