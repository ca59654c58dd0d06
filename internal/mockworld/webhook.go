package mockworld

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // GitHub still sends the old signature beside the new
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// deliveryTimeout is how long GitHub waits for an answer.
const deliveryTimeout = 10 * time.Second

// delivery is one attempt with what it sends.
type delivery struct {
	Delivery
	hook    *hookEntry
	payload []byte
	wasLate bool
}

func newHookClient() *http.Client {
	return &http.Client{
		// A connection each, so that a receiver that was killed and started
		// again is not met through a dead one.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// emit sends an event to all hooks that want it. action "" is an event
// without one. The lock is held.
func (w *World) emit(r *repository, event, action string, by *account, fields obj) {
	w.touch()
	var payload obj
	for _, h := range w.hooks {
		if !w.wants(h, r, event) {
			continue
		}
		if payload == nil {
			payload = obj{"repository": w.repoJSON(r, nil), "sender": w.userJSON(by)}
			if r.owner.typ == Organization {
				payload["organization"] = w.orgJSON(r.owner)
			}
			if action != "" {
				payload["action"] = action
			}
			for k, v := range fields {
				payload[k] = v
			}
		}
		delete(payload, "installation")
		if a := w.appByID(h.spec.AppID); a != nil {
			payload["installation"] = obj{"id": a.install, "node_id": nodeID("IntegrationInstallation", a.install)}
		}
		w.enqueue(h, r.full(), event, action, payload)
	}
}

func (w *World) orgJSON(a *account) obj {
	u := w.api("/orgs/" + a.login)
	return obj{"login": a.login, "id": a.id, "node_id": nodeID("Organization", a.id), "url": u, "repos_url": u + "/repos", "events_url": u + "/events",
		"hooks_url": u + "/hooks", "issues_url": u + "/issues", "members_url": u + "/members{/member}",
		"public_members_url": u + "/public_members{/member}", "avatar_url": w.html("/avatars/u/" + fmt.Sprint(a.id)), "description": nil}
}

func (w *World) wants(h *hookEntry, r *repository, event string) bool {
	if h.inactive {
		return false
	}
	if h.spec.Repo != "" && w.repos[key(h.spec.Repo)] != r && w.moved[key(h.spec.Repo)] != r {
		return false
	}
	if a := w.appByID(h.spec.AppID); a != nil && (!a.repos[r.id] || a.suspendedBy != nil) {
		return false
	}
	return h.spec.Events == nil || oneOf(event, h.spec.Events...)
}

func (w *World) emitIssue(i *issue, action string, by *account, extra obj) {
	fields := obj{}
	for k, v := range extra {
		fields[k] = v
	}
	event := "issues"
	if i.pull != nil {
		event = "pull_request"
		fields["number"], fields["pull_request"] = i.number, w.pullJSON(i, nil, true)
	} else {
		fields["issue"] = w.issueJSON(i)
	}
	w.emit(i.repo, event, action, by, fields)
}

func (w *World) emitComment(c *comment, action string, by *account, extra obj) {
	fields := obj{"issue": w.issueJSON(c.issue), "comment": w.commentJSON(c)}
	for k, v := range extra {
		fields[k] = v
	}
	w.emit(c.issue.repo, "issue_comment", action, by, fields)
}

func (w *World) emitCheck(r *repository, c *checkRun, action string, by *account) {
	suite := w.suiteJSON(r, c.suite, c.sha, c.app)
	delete(suite, "repository")
	run := w.checkJSON(r, c)
	// A webhook tells more of the suite than the API does.
	of := obj{}
	for _, k := range []string{"id", "node_id", "head_branch", "head_sha", "status", "conclusion", "url", "before", "after", "pull_requests", "app", "created_at", "updated_at"} {
		of[k] = suite[k]
	}
	run["check_suite"] = of
	w.emit(r, "check_run", action, by, obj{"check_run": run})
	if suite["status"] == "completed" {
		w.emit(r, "check_suite", "completed", by, obj{"check_suite": suite})
	}
}

func (w *World) emitPush(r *repository, by *account, ref, before, after string, commits []*gitCommit) {
	list := make([]any, 0, len(commits))
	var head any
	for _, c := range commits {
		head = w.pushCommitJSON(r, c)
		list = append(list, head)
	}
	full := func(sha string) string {
		if sha == "" {
			return zeroSHA
		}
		return sha
	}
	forced, err := w.forced(r, before, after)
	if err != nil {
		w.log.Warn("comparing a push", "repo", r.full(), "error", err)
	}
	w.emit(r, "push", "", by, obj{"ref": ref, "before": full(before), "after": full(after), "created": before == "", "deleted": after == "",
		"forced": forced, "base_ref": nil, "compare": w.html("/" + r.full() + "/compare/" + full(before) + "..." + full(after)),
		"commits": list, "head_commit": head, "pusher": obj{"name": by.login, "email": gitEmail}})
}

func (w *World) ping(h *hookEntry) {
	payload := obj{"zen": "It's not fully shipped until it's fast.", "hook_id": h.id,
		"hook": obj{"type": "Repository", "id": h.id, "name": "web", "active": true, "events": []string{"*"}, "created_at": stamp(w.now()), "updated_at": stamp(w.now()),
			"config": obj{"content_type": "json", "insecure_ssl": "0", "url": h.spec.URL}}}
	w.enqueue(h, h.spec.Repo, "ping", "", payload)
}

// enqueue renders a payload as of now and hands it to the hook's goroutine.
func (w *World) enqueue(h *hookEntry, repo, event, action string, payload obj) {
	body, err := json.Marshal(payload)
	if err != nil {
		w.log.Error("rendering a webhook", "event", event, "error", err)
		return
	}
	id := next(&w.ids.other)
	sum := sha256.Sum256([]byte("delivery " + strconv.FormatInt(id, 10)))
	g := hex.EncodeToString(sum[:16])
	d := &delivery{hook: h, payload: body, Delivery: Delivery{ID: id, HookID: h.id, Repo: repo, Event: event, Action: action, Payload: string(body),
		GUID: g[:8] + "-" + g[8:12] + "-" + g[12:16] + "-" + g[16:20] + "-" + g[20:]}}
	w.queue(d)
}

func (w *World) queue(d *delivery) {
	w.deliveries = append(w.deliveries, d)
	d.hook.queue = append(d.hook.queue, d)
	select {
	case d.hook.wake <- struct{}{}:
	default:
	}
}

// Redeliver sends a delivery once more, with its GUID and its payload as they
// were.
func (w *World) Redeliver(id int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.deliveries {
		if d.ID != id {
			continue
		}
		w.again(d)
		return nil
	}
	return fmt.Errorf("redelivering %d: no such delivery", id)
}

// again queues a delivery once more.
func (w *World) again(d *delivery) {
	again := &delivery{hook: d.hook, payload: d.payload, Delivery: d.Delivery}
	again.ID, again.Redelivery, again.Done = next(&w.ids.other), true, false
	again.Status, again.Response, again.Err = 0, "", ""
	w.queue(again)
	w.touch()
}

// RedeliverTogether sends a delivery times more, all at the same moment.
func (w *World) RedeliverTogether(id int64, times int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("redelivering %d: %w", id, errClosed)
	}
	for _, d := range w.deliveries {
		if d.ID != id {
			continue
		}
		begin := make(chan struct{})
		for range times {
			again := &delivery{hook: d.hook, payload: d.payload, Delivery: d.Delivery}
			again.ID, again.Redelivery, again.Done = next(&w.ids.other), true, false
			again.Status, again.Response, again.Err = 0, "", ""
			w.deliveries = append(w.deliveries, again)
			w.wg.Go(func() { <-begin; w.deliver(again) })
		}
		close(begin)
		w.touch()
		return nil
	}
	return fmt.Errorf("redelivering %d: no such delivery", id)
}

// Deliveries are all attempts so far, oldest first.
func (w *World) Deliveries() []Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Delivery, len(w.deliveries))
	for k, d := range w.deliveries {
		list[k] = d.Delivery
	}
	return list
}

// deliverLoop is the goroutine of one hook: one delivery at a time, in order.
func (w *World) deliverLoop(h *hookEntry) {
	defer w.wg.Done()
	for {
		w.mu.Lock()
		d := w.takeDelivery(h)
		w.mu.Unlock()
		if d != nil {
			w.deliver(d)
			continue
		}
		select {
		case <-h.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// takeDelivery is the next one; a reordered one waits until another has
// overtaken it.
func (w *World) takeDelivery(h *hookEntry) *delivery {
	if w.ctx.Err() != nil {
		return nil
	}
	for len(h.queue) > 0 {
		d := h.queue[0]
		h.queue = h.queue[1:]
		if h.late == nil && !d.wasLate && w.strike(w.deliveryEvent(d), FaultReorder) != nil {
			h.late, d.wasLate = d, true
			continue
		}
		if h.late != nil {
			h.queue = append([]*delivery{h.late}, h.queue...)
			h.late = nil
		}
		return d
	}
	return nil
}

func (w *World) deliveryEvent(d *delivery) strikeable {
	return strikeable{event: d.Event, action: d.Action}
}

func (w *World) deliver(d *delivery) {
	w.mu.Lock()
	ev := w.deliveryEvent(d)
	lost := w.strike(ev, FaultLose)
	delay := w.strike(ev, FaultDelay)
	hold := w.strike(ev, FaultHold)
	twice := w.strike(ev, FaultDuplicate)
	w.mu.Unlock()
	if delay != nil && !w.pause(w.ctx, delay.Delay) || hold != nil && !hold.wait(w.ctx, w.ctx) {
		return
	}
	status, response, err := 0, "", fmt.Errorf("lost on the way")
	if lost == nil {
		status, response, err = w.post(d)
	}
	if twice != nil && lost == nil {
		status, response, err = w.post(d)
	}
	if w.ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d.Done, d.Status, d.Response, d.At = true, status, response, w.now()
	if err != nil {
		d.Err = err.Error()
	}
	w.touch()
	w.log.Debug("delivered a webhook", "delivery", d.GUID, "event", d.Event, "action", d.Action, "status", status, "error", d.Err)
}

func (w *World) post(d *delivery) (status int, response string, err error) {
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, d.hook.spec.URL, bytes.NewReader(d.payload))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "GitHub-Hookshot/0000000")
	req.Header.Set("X-GitHub-Event", d.Event)
	req.Header.Set("X-GitHub-Delivery", d.GUID)
	req.Header.Set("X-GitHub-Hook-ID", strconv.FormatInt(d.HookID, 10))
	target, id := "repository", d.HookID
	if d.hook.spec.AppID != 0 {
		target, id = "integration", d.hook.spec.AppID
	}
	req.Header.Set("X-GitHub-Hook-Installation-Target-Type", target)
	req.Header.Set("X-GitHub-Hook-Installation-Target-ID", strconv.FormatInt(id, 10))
	if s := d.hook.spec.Secret; s != "" {
		req.Header.Set("X-Hub-Signature", "sha1="+sign(sha1.New, s, d.payload))
		req.Header.Set("X-Hub-Signature-256", "sha256="+sign(sha256.New, s, d.payload))
	}
	client := *w.client
	client.Timeout = deliveryTimeout
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode, string(body), fmt.Errorf("the receiver answered %s", strings.ToLower(resp.Status))
	}
	return resp.StatusCode, string(body), err
}

func sign(h func() hash.Hash, secret string, body []byte) string {
	m := hmac.New(h, []byte(secret))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}
