package intake_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/intake"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	oldSecret = "the-old-secret"
	newSecret = "It's a Secret to Everybody"
)

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func delivery(kind, guid, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", kind)
	r.Header.Set("X-GitHub-Delivery", guid)
	r.Header.Set("X-Hub-Signature-256", sign(newSecret, body))
	return r
}

const (
	repoJSON   = `"repository":{"id":1,"full_name":"Acme/widgets"}`
	senderJSON = `"sender":{"id":5,"login":"ada","type":"User"}`
	labelled   = `{"action":"labeled","issue":{"id":77,"number":7,"body":null},"label":{"name":"pipeline:triage"},` + repoJSON + `,` + senderJSON + `}`
	pullJSON   = `"pull_request":{"number":9,"head":{"ref":"pipelinebot/7-x","sha":"abc"}}`
	commented  = `{"action":"created","issue":{"id":77,"number":7},"comment":{"id":991,"user":null,"body":"/pipeline approve","created_at":"2026-11-30T11:00:00Z","updated_at":"2026-11-30T11:00:00Z"},` + repoJSON + `,` + senderJSON + `}`
)

func handler(inbox checkpoints.Inbox, change ...func(*intake.Options)) http.Handler {
	o := intake.Options{Secrets: []secret.Value{secret.New(oldSecret), secret.New(newSecret)}, Inbox: inbox, Clock: clock.NewFake(start)}
	for _, c := range change {
		c(&o)
	}
	return intake.Handler(o)
}

func rows(t *testing.T, inbox checkpoints.Inbox) []checkpoints.InboxEvent {
	t.Helper()
	got, err := inbox.Inbox(context.Background(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
		got[i], got[j] = got[j], got[i]
	}
	return got
}

func decoded(t *testing.T, row checkpoints.InboxEvent) forge.Event {
	t.Helper()
	var ev forge.Event
	if err := json.Unmarshal(row.Body, &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestADeliveryBecomesARow(t *testing.T) {
	t.Parallel()
	acme := forge.Repo{Owner: "Acme", Name: "widgets"}
	ada := forge.Actor{ID: 5, Login: "ada"}
	at := start.Add(-time.Hour)
	with := func(action, rest string) string {
		return `{"action":"` + action + `","issue":{"id":77,"number":7,"updated_at":"2026-11-30T11:00:00Z"},` + rest + repoJSON + `,` + senderJSON + `}`
	}
	event := func(k forge.EventKind) forge.Event {
		return forge.Event{Kind: k, Issue: forge.Ref{Repo: acme, Number: 7}, Actor: ada, At: start, Source: "webhook", RepoID: 1}
	}
	around := func(text string) string { return `{` + text + `,` + repoJSON + `,` + senderJSON + `}` }
	aside := func(k forge.EventKind, f func(*forge.Event)) forge.Event {
		ev := event(k)
		ev.Issue.Number = 0
		f(&ev)
		return ev
	}
	changed := func(ev forge.Event, f func(*forge.Event)) forge.Event { f(&ev); return ev }
	tests := []struct {
		name, kind, body, key string
		want                  forge.Event
	}{
		{"labelled", "issues", labelled, "", changed(event(forge.Labeled), func(e *forge.Event) { e.Label = "pipeline:triage" })},
		{"unlabelled", "issues", with("unlabeled", `"label":{"name":"x"},`), "", changed(event(forge.Unlabeled), func(e *forge.Event) { e.Label = "x" })},
		{"closed", "issues", with("closed", ``), "", event(forge.IssueClosed)},
		{"reopened", "issues", with("reopened", ``), "", event(forge.IssueReopened)},
		{"locked", "issues", with("locked", ``), "", event(forge.IssueLocked)},
		{"deleted", "issues", with("deleted", ``), "", event(forge.IssueGone)},
		{"transferred", "issues", with("transferred", ``), "", event(forge.IssueGone)},
		{"edited", "issues", with("edited", ``), "issue-edit/77@2026-11-30T11:00:00Z", event(forge.IssueEdited)},
		{"commented", "issue_comment", commented, "comment/991", changed(event(forge.Commented), func(e *forge.Event) {
			e.Comment = &forge.Comment{ID: 991, Author: forge.Actor{Login: "ghost"}, Body: "/pipeline approve", Created: at, Updated: at}
		})},
		{"comment edited", "issue_comment", strings.Replace(commented, "created", "edited", 1), "comment/991@2026-11-30T11:00:00Z", changed(event(forge.CommentEdited), func(e *forge.Event) {
			e.Comment = &forge.Comment{ID: 991, Author: forge.Actor{Login: "ghost"}, Body: "/pipeline approve", Created: at, Updated: at}
		})},
		{"merged", "pull_request", `{"action":"closed","pull_request":{"number":9,"merged":true},` + repoJSON + `,"sender":{"id":6,"login":"x[bot]"}}`, "", changed(event(forge.PullClosed), func(e *forge.Event) {
			e.Pull, e.Action = 9, "closed"
			e.Issue.Number, e.Merged, e.Actor = 9, true, forge.Actor{ID: 6, Login: "x[bot]", Bot: true}
		})},
		{"opened", "issues", with("opened", ``), "", event(forge.IssueOpened)},
		{"pull pushed", "pull_request", around(`"action":"synchronize",` + pullJSON), "", aside(forge.Pushed, func(e *forge.Event) {
			e.Action, e.Pull, e.Head, e.SHA = "synchronize", 9, "pipelinebot/7-x", "abc"
		})},
		{"reviewed", "pull_request_review", around(`"action":"submitted","review":{"id":4,"commit_id":"old"},` + pullJSON), "", aside(forge.Reviewed, func(e *forge.Event) {
			e.Action, e.Pull, e.Head, e.SHA = "submitted", 9, "pipelinebot/7-x", "old"
		})},
		{"line commented", "pull_request_review_comment", around(`"action":"created",` + pullJSON), "", aside(forge.Reviewed, func(e *forge.Event) {
			e.Action, e.Pull, e.Head, e.SHA = "created", 9, "pipelinebot/7-x", "abc"
		})},
		{"check run", "check_run", around(`"action":"completed","check_run":{"head_sha":"abc","check_suite":{"head_branch":"pipelinebot/7-x"},"pull_requests":[{"number":9}]}`), "", aside(forge.ChecksChanged, func(e *forge.Event) {
			e.Action, e.Pull, e.Head, e.SHA = "completed", 9, "pipelinebot/7-x", "abc"
		})},
		{"check suite", "check_suite", around(`"action":"completed","check_suite":{"head_sha":"abc","head_branch":null,"pull_requests":[]}`), "", aside(forge.ChecksChanged, func(e *forge.Event) {
			e.Action, e.SHA = "completed", "abc"
		})},
		{"status", "status", around(`"sha":"abc","state":"success","branches":[{"name":"main"},{"name":"pipelinebot/7-x"}]`), "", aside(forge.ChecksChanged, func(e *forge.Event) {
			e.Action, e.SHA, e.Head = "success", "abc", "pipelinebot/7-x"
		})},
		{"push", "push", around(`"ref":"refs/heads/main","after":"abc"`), "", aside(forge.Pushed, func(e *forge.Event) { e.Head, e.SHA = "main", "abc" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := memory.New(memory.Options{})
			w := httptest.NewRecorder()
			handler(store).ServeHTTP(w, delivery(tt.kind, "guid-1", tt.body))
			if w.Code != http.StatusAccepted {
				t.Fatalf("answered %d: %s", w.Code, w.Body)
			}
			got := rows(t, store)
			if len(got) != 1 {
				t.Fatalf("%d rows, want 1", len(got))
			}
			if got[0].Delivery != "guid-1" || got[0].Key != tt.key || got[0].Kind != string(tt.want.Kind) {
				t.Errorf("row %q %q %q", got[0].Delivery, got[0].Key, got[0].Kind)
			}
			if diff := cmp.Diff(tt.want, decoded(t, got[0])); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoDeliveryLeavesNoRow(t *testing.T) {
	t.Parallel()
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := []struct {
		name, kind, body string
		change           func(*http.Request)
		want             int
		outcome          string
	}{
		{"bad signature", "issues", labelled, header("X-Hub-Signature-256", sign("wrong", labelled)), 401, "unsigned"},
		{"no signature", "issues", labelled, header("X-Hub-Signature-256", ""), 401, "unsigned"},
		{"signed with an empty secret", "issues", labelled, header("X-Hub-Signature-256", sign("", labelled)), 401, "unsigned"},
		{"sha1 only", "issues", labelled, func(r *http.Request) {
			r.Header.Set("X-Hub-Signature", "sha1=00")
			r.Header.Del("X-Hub-Signature-256")
		}, 401, "unsigned"},
		{"get", "issues", labelled, func(r *http.Request) { r.Method = http.MethodGet }, 405, ""},
		{"too large, announced", "issues", strings.Repeat(" ", 2000) + labelled, nil, 413, "too-large"},
		{"too large, unannounced", "issues", strings.Repeat(" ", 2000) + labelled, func(r *http.Request) { r.ContentLength = -1 }, 413, "too-large"},
		{"not JSON", "issues", `{"action":`, nil, 400, "malformed"},
		{"not JSON, unknown kind", "star", `x`, nil, 400, "malformed"},
		{"wrong type", "issues", `{"action":7}`, nil, 400, "malformed"},
		{"no repository", "issues", `{"action":"labeled","issue":{"number":7},"label":{"name":"x"}}`, nil, 400, "malformed"},
		{"strange repository", "issues", `{"action":"closed","issue":{"number":7},"repository":{"full_name":"a/b/c"}}`, nil, 400, "malformed"},
		{"no issue", "issues", `{"action":"closed",` + repoJSON + `}`, nil, 400, "malformed"},
		{"no label", "issues", `{"action":"labeled","issue":{"number":7},` + repoJSON + `}`, nil, 400, "malformed"},
		{"no comment", "issue_comment", `{"action":"created","issue":{"number":7},` + repoJSON + `}`, nil, 400, "malformed"},
		{"no pull request", "pull_request", `{"action":"closed",` + repoJSON + `}`, nil, 400, "malformed"},
		{"no delivery id", "issues", labelled, header("X-GitHub-Delivery", ""), 400, "malformed"},
		{"no kind", "issues", labelled, header("X-GitHub-Event", ""), 400, "malformed"},
		{"content type", "issues", labelled, header("Content-Type", "text/plain"), 400, "malformed"},
		{"form without payload", "issues", `a=b`, header("Content-Type", "application/x-www-form-urlencoded"), 400, "malformed"},
		{"ping", "ping", `{"zen":"x"}`, nil, 200, "ping"},
		{"unknown kind", "star", `{"action":"created"}`, nil, 202, "ignored"},
		{"unknown action", "issues", `{"action":"pinned"}`, nil, 202, "ignored"},
		{"comment deleted", "issue_comment", strings.Replace(commented, "created", "deleted", 1), nil, 202, "ignored"},
		{"another repository", "issues", strings.Replace(labelled, "Acme/widgets", "acme/others", 1), nil, 202, "foreign"},
		{"skipped", "issue_comment", strings.Replace(commented, "/pipeline approve", "status", 1), nil, 202, "skipped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := memory.New(memory.Options{})
			outcome := ""
			h := handler(store, func(o *intake.Options) {
				o.MaxBody = 1000
				o.Skip = func(c forge.Comment) bool { return c.Body == "status" }
				o.Name = func(r forge.Repo, _ int64) (forge.Repo, bool) { return r, r.Name == "widgets" }
				o.Observe = func(_, what string) { outcome = what }
				o.Secrets = append(o.Secrets, secret.Value{})
			})
			r := delivery(tt.kind, "guid-1", tt.body)
			if tt.change != nil {
				tt.change(r)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want || outcome != tt.outcome {
				t.Errorf("answered %d %q, want %d %q: %s", w.Code, outcome, tt.want, tt.outcome, w.Body)
			}
			if got := rows(t, store); len(got) != 0 {
				t.Errorf("left %d rows", len(got))
			}
		})
	}
}

func TestBothSecretsAndBothContentTypesAreTaken(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	h := handler(store)
	r := delivery("issues", "guid-1", labelled)
	r.Header.Set("X-Hub-Signature-256", sign(oldSecret, labelled))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	form := url.Values{"payload": {labelled}}.Encode()
	r = delivery("issues", "guid-2", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w2 := httptest.NewRecorder()
	h.ServeHTTP(w2, r)
	if w.Code != 202 || w2.Code != 202 || len(rows(t, store)) != 2 {
		t.Errorf("answered %d and %d", w.Code, w2.Code)
	}
}

// The known answer is the one of
// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries.
func TestGitHubsOwnSignatureExample(t *testing.T) {
	t.Parallel()
	const body = "Hello, World!"
	r := delivery("ping", "guid-1", body)
	r.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	w := httptest.NewRecorder()
	handler(memory.New(memory.Options{})).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("answered %d", w.Code)
	}
}

func TestTheSameDeliveryFiveTimesAtOnceIsOneRow(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	h := handler(store)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, delivery("issues", "guid-1", labelled))
			if w.Code != http.StatusAccepted {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	group.Wait()
	if n := len(rows(t, store)); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	// A redelivery of the comment under another GUID is one row, too.
	for i := range 2 {
		h.ServeHTTP(httptest.NewRecorder(), delivery("issue_comment", fmt.Sprint("c-", i), commented))
	}
	if n := len(rows(t, store)); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

// broken is an inbox whose Receive fails, and which answers only when told.
type broken struct {
	*memory.Store
	err error
}

func (b broken) Receive(context.Context, checkpoints.InboxEvent) (bool, error) { return false, b.err }

func TestAStoreFailureIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	handler(broken{err: errors.New("disk full")}).ServeHTTP(w, delivery("issues", "guid-1", labelled))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "disk") {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// slow is an inbox whose rows take until release to be durable.
type slow struct {
	*memory.Store
	entered, release chan struct{}
}

func (s slow) Receive(ctx context.Context, e checkpoints.InboxEvent) (bool, error) {
	close(s.entered)
	<-s.release
	return s.Store.Receive(ctx, e)
}

// What concerns no single issue leaves no row, but is told.
func TestWhatChangesAroundTheIssuesIsTold(t *testing.T) {
	t.Parallel()
	ada := forge.Actor{ID: 5, Login: "ada"}
	widgets := forge.Ref{Repo: forge.Repo{Owner: "Acme", Name: "widgets"}}
	for _, c := range []struct {
		kind, body string
		want       forge.Event
	}{
		{"label", `{"action":"edited","label":{"name":"go:triage"},"changes":{"name":{"from":"pipeline:triage"}},` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.LabelChanged, Issue: widgets, Action: "edited", Label: "go:triage", Was: "pipeline:triage", RepoID: 1}},
		{"label", `{"action":"deleted","label":{"name":"pipeline:triage"},` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.LabelChanged, Issue: widgets, Action: "deleted", Label: "pipeline:triage", RepoID: 1}},
		{"repository", `{"action":"renamed","changes":{"repository":{"name":{"from":"gadgets"}}},` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.RepoChanged, Issue: widgets, Action: "renamed", Was: "Acme/gadgets", RepoID: 1}},
		{"repository", `{"action":"transferred","changes":{"owner":{"from":{"user":{"login":"bob"}}}},` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.RepoChanged, Issue: widgets, Action: "transferred", Was: "bob/widgets", RepoID: 1}},
		{"repository", `{"action":"archived",` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.RepoChanged, Issue: widgets, Action: "archived", RepoID: 1}},
		{"member", `{"action":"removed",` + repoJSON + `,` + senderJSON + `}`,
			forge.Event{Kind: forge.MemberChanged, Issue: widgets, Action: "removed", RepoID: 1}},
		{"installation", `{"action":"suspend","installation":{"id":11},` + senderJSON + `}`,
			forge.Event{Kind: forge.InstallationChanged, Action: "suspend", Installation: 11}},
		{"installation_repositories", `{"action":"added","installation":{"id":11},` + senderJSON + `}`,
			forge.Event{Kind: forge.InstallationChanged, Action: "added", Installation: 11}},
	} {
		var told []forge.Event
		var outcome string
		store := memory.New(memory.Options{})
		w := httptest.NewRecorder()
		handler(store, func(o *intake.Options) {
			o.Told = func(ev forge.Event) { told = append(told, ev) }
			o.Observe = func(_, what string) { outcome = what }
		}).ServeHTTP(w, delivery(c.kind, "guid-1", c.body))
		c.want.Actor, c.want.At, c.want.Source = ada, start, "webhook"
		if diff := cmp.Diff([]forge.Event{c.want}, told); diff != "" || outcome != "noted" || len(rows(t, store)) != 0 {
			t.Errorf("%s %s: %s (-want +got):\n%s", c.kind, c.want.Action, outcome, diff)
		}
	}
}

// A repository that was renamed is served by the name that the bot knows.
func TestARenamedRepositoryKeepsItsName(t *testing.T) {
	t.Parallel()
	gadgets := forge.Repo{Owner: "acme", Name: "gadgets"}
	store := memory.New(memory.Options{})
	w := httptest.NewRecorder()
	handler(store, func(o *intake.Options) {
		o.Name = func(now forge.Repo, id int64) (forge.Repo, bool) { return gadgets, id == 1 }
	}).ServeHTTP(w, delivery("issues", "guid-1", labelled))
	got := rows(t, store)
	if len(got) != 1 || decoded(t, got[0]).Issue != (forge.Ref{Repo: gadgets, Number: 7}) {
		t.Errorf("answered %d, stored %v", w.Code, got)
	}
}

func TestTheAnswerComesAfterTheRow(t *testing.T) {
	t.Parallel()
	s := slow{memory.New(memory.Options{}), make(chan struct{}), make(chan struct{})}
	done := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		handler(s).ServeHTTP(w, delivery("issues", "guid-1", labelled))
		done <- w.Code
	}()
	<-s.entered
	select {
	case code := <-done:
		t.Fatalf("answered %d before the row was durable", code)
	default:
	}
	close(s.release)
	if code := <-done; code != http.StatusAccepted || len(rows(t, s.Store)) != 1 {
		t.Errorf("answered %d", code)
	}
}

func FuzzDelivery(f *testing.F) {
	f.Add("issues", "guid", "application/json", labelled)
	f.Add("issue_comment", "guid", "application/json; charset=utf-8", commented)
	f.Add("pull_request", "guid", "application/json", `{"action":"closed","pull_request":{"number":9},`+repoJSON+`}`)
	f.Add("issues", "g", "application/x-www-form-urlencoded", "payload=%7B%7D")
	f.Add("star", "\n", "", "[]")
	f.Fuzz(func(t *testing.T, kind, guid, contentType, body string) {
		store := memory.New(memory.Options{})
		r := delivery("x", "x", body)
		r.Header = http.Header{"Content-Type": {contentType}, "X-Github-Event": {kind}, "X-Github-Delivery": {guid}, "X-Hub-Signature-256": {sign(newSecret, body)}}
		w := httptest.NewRecorder()
		handler(store).ServeHTTP(w, r)
		switch got := rows(t, store); {
		case w.Code != 200 && w.Code != 202 && w.Code != 400:
			t.Errorf("answered %d", w.Code)
		case len(got) > 1, len(got) == 1 && w.Code != 202:
			t.Errorf("answered %d with %d rows", w.Code, len(got))
		case len(got) == 1:
			ev := decoded(t, got[0])
			if _, err := forge.ParseRepo(ev.Issue.Repo.String()); err != nil || ev.Kind == "" || string(ev.Kind) != got[0].Kind {
				t.Errorf("stored %+v", ev)
			}
		}
	})
}
