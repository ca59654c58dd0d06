package mockworld_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

const hookSecret = "It's a Secret to Everybody"

// receiver keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string // event.action
	guids  []string
	bodies []map[string]any
	status int
	t      *testing.T
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, status: http.StatusAccepted}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(rw http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	m := hmac.New(sha256.New, []byte(hookSecret))
	m.Write(body)
	if got, want := req.Header.Get("X-Hub-Signature-256"), "sha256="+hex.EncodeToString(m.Sum(nil)); got != want {
		r.t.Errorf("signature: got %q, want %q", got, want)
	}
	var payload map[string]any
	if err := json.Unmarshal(body, &payload); err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := req.Header.Get("X-GitHub-Event")
	if a, ok := payload["action"].(string); ok {
		name += "." + a
	}
	r.got = append(r.got, name)
	r.guids = append(r.guids, req.Header.Get("X-GitHub-Delivery"))
	r.bodies = append(r.bodies, payload)
	rw.WriteHeader(r.status)
}

func (r *receiver) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

// settle waits until all deliveries but n have been tried.
func (s *site) settle(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	must(s.t, s.Wait(ctx, func(sn mockworld.Snapshot) bool { return sn.PendingDeliveries == n }))
}

func hooked(t *testing.T, events ...string) (*site, *receiver) {
	s, r := newSite(t, nil), newReceiver(t)
	_, err := s.AddHook(mockworld.HookSpec{Repo: "acme/shop", URL: r.URL, Secret: hookSecret, Events: events})
	must(t, err)
	return s, r
}

func TestWebhooksTellWhatHappened(t *testing.T) {
	t.Parallel()
	s, r := hooked(t)
	n := s.issue("One")
	must(t, s.Label("acme/shop", n, "bob", "brand new"))
	must(t, s.Unlabel("acme/shop", n, "bob", "Brand New"))
	id, err := s.Comment("acme/shop", n, "rita", "hi")
	must(t, err)
	must(t, s.EditComment("acme/shop", id, "rita", "hello"))
	must(t, s.DeleteComment("acme/shop", id, "rita"))
	must(t, s.LockIssue("acme/shop", n, "ann", ""))
	_, err = s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Branch: "b", Files: map[string]string{"x": "y"}})
	must(t, err)
	pr, err := s.OpenPull(mockworld.PullSpec{Repo: "acme/shop", Author: "ann", Title: "T", Head: "b"})
	must(t, err)
	_, err = s.PushCommit("acme/shop", mockworld.CommitSpec{Actor: "ann", Branch: "b", Files: map[string]string{"x": "z"}})
	must(t, err)
	_, err = s.SetCheckRun("acme/shop", mockworld.CheckSpec{SHA: "b", Name: "test", Conclusion: "success"})
	must(t, err)
	_, err = s.SubmitReview("acme/shop", pr, mockworld.ReviewSpec{Actor: "rita", Event: "APPROVE"})
	must(t, err)
	must(t, s.DeleteBranch("acme/shop", "ann", "b"))
	must(t, s.RenameLabel("acme/shop", "ann", "bug", "defect"))
	s.settle(0)
	want := []string{"ping", "issues.opened", "label.created", "issues.labeled", "issues.unlabeled", "issue_comment.created", "issue_comment.edited",
		"issue_comment.deleted", "issues.locked", "create", "push", "pull_request.opened", "push", "pull_request.synchronize",
		"check_run.created", "check_suite.completed", "pull_request_review.submitted", "push", "delete", "pull_request.closed", "label.edited"}
	if diff := cmp.Diff(want, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	labeled := r.bodies[3]
	if labeled["sender"].(map[string]any)["login"] != "bob" || labeled["label"].(map[string]any)["name"] != "brand new" ||
		labeled["repository"].(map[string]any)["full_name"] != "acme/shop" || labeled["issue"].(map[string]any)["number"] != 1.0 {
		t.Errorf("labeled payload: %v", labeled)
	}
}

func TestWebhookOfAppNamesInstallation(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, nil), newReceiver(t)
	k := s.app()
	_, err := s.AddHook(mockworld.HookSpec{AppID: 5, URL: r.URL, Secret: hookSecret})
	must(t, err)
	must(t, s.AddRepo(mockworld.RepoSpec{Owner: "acme", Name: "other", Files: map[string]string{"a": "b"}}))
	_, err = s.AddIssue(mockworld.IssueSpec{Repo: "acme/other", Author: "rita", Title: "not installed"})
	must(t, err)
	s.issue("One")
	s.want(200, "POST", "/repos/acme/shop/issues/1/labels", s.mint(k, nil), []string{"bug"})
	s.settle(0)
	if diff := cmp.Diff([]string{"ping", "issues.opened", "issues.labeled"}, r.events()); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	// What the bot does itself is told too, with the bot as sender.
	body := r.bodies[2]
	if body["installation"].(map[string]any)["id"] != 77.0 || body["sender"].(map[string]any)["type"] != "Bot" {
		t.Errorf("payload: %v", body)
	}
}

func TestFailedDeliveryIsNotRetriedAndRedeliveryKeepsGUID(t *testing.T) {
	t.Parallel()
	s, r := hooked(t, "issues")
	s.settle(0)
	r.mu.Lock()
	r.status = http.StatusInternalServerError
	r.mu.Unlock()
	s.issue("One")
	s.settle(0)
	list := s.Deliveries()
	last := list[len(list)-1]
	if last.Status != 500 || last.Err == "" || len(list) != 2 {
		t.Fatalf("deliveries: %+v", list)
	}
	must(t, s.Redeliver(last.ID))
	s.settle(0)
	list = s.Deliveries()
	again := list[len(list)-1]
	if again.GUID != last.GUID || again.ID == last.ID || !again.Redelivery || again.Payload != last.Payload {
		t.Errorf("redelivery: %+v", again)
	}
	if r.guids[1] != r.guids[2] {
		t.Errorf("GUIDs: %v", r.guids)
	}
}

func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault mockworld.Fault
		want  []string
		left  int
	}{
		{"duplicate", mockworld.Fault{Kind: mockworld.FaultDuplicate, Match: mockworld.Match{Event: "issues.opened"}}, []string{"ping", "issues.opened", "issues.opened", "issues.closed", "issues.reopened"}, 0},
		{"reorder", mockworld.Fault{Kind: mockworld.FaultReorder, Match: mockworld.Match{Event: "issues.opened"}}, []string{"ping", "issues.closed", "issues.opened", "issues.reopened"}, 0},
		{"lose", mockworld.Fault{Kind: mockworld.FaultLose, Match: mockworld.Match{Event: "issues", Nth: 2}}, []string{"ping", "issues.opened", "issues.reopened"}, 0},
		{"hold", mockworld.Fault{Kind: mockworld.FaultHold, Name: "h", Match: mockworld.Match{Event: "issues.closed"}}, []string{"ping", "issues.opened"}, 2},
		{"lose all", mockworld.Fault{Kind: mockworld.FaultLose, Match: mockworld.Match{Event: "*"}, Times: -1}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, r := newSite(t, nil), newReceiver(t)
			must(t, s.AddFault(c.fault))
			_, err := s.AddHook(mockworld.HookSpec{Repo: "acme/shop", URL: r.URL, Secret: hookSecret})
			must(t, err)
			n := s.issue("One")
			must(t, s.CloseIssue("acme/shop", n, "ann", ""))
			must(t, s.ReopenIssue("acme/shop", n, "ann"))
			s.settle(c.left)
			if diff := cmp.Diff(c.want, r.events()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if left := s.FaultsLeft(); len(left) != 0 && c.left == 0 {
				t.Errorf("faults left: %q", left)
			}
			if c.left > 0 {
				must(t, s.Release("h"))
				s.settle(0)
			}
		})
	}
}

func TestHooksStayOnThisMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, u := range []string{"http://example.com/hook", "ftp://127.0.0.1/", "http://10.0.0.1/"} {
		if _, err := s.AddHook(mockworld.HookSpec{URL: u}); err == nil {
			t.Errorf("%s: no error", u)
		}
	}
	if _, _, err := s.Serve(t.Context(), "0.0.0.0:0"); err == nil {
		t.Error("listening on all addresses: no error")
	}
}
