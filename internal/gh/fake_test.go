package gh_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/gh"
	"github.com/pipelinebot/pipelinebot/internal/secret"
)

const (
	under = "/gh/api/v3/"
	token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
)

var (
	repo = forge.Repo{Owner: "acme", Name: "widgets"}
	ref  = forge.Ref{Repo: repo, Number: 7}
)

// seen is one request that reached the fake.
type seen struct {
	Method, Path, Body string
	Header             http.Header
}

// fake answers under a non-empty path; routes are "METHOD path?query" with
// the query left out matching any.
type fake struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	seen   []seen
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, routes: map[string]http.HandlerFunc{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) base() string { return f.server.URL + under }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), under)
	full := path
	if r.URL.RawQuery != "" {
		full += "?" + r.URL.RawQuery
	}
	f.mu.Lock()
	f.seen = append(f.seen, seen{r.Method, full, strings.TrimSpace(string(body)), r.Header.Clone()})
	h := f.routes[r.Method+" "+full]
	if h == nil {
		h = f.routes[r.Method+" "+path]
	}
	f.mu.Unlock()
	if h == nil || !ok {
		f.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotImplemented)
		return
	}
	h(w, r)
}

func (f *fake) on(route string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routes[route] = h
}

func (f *fake) json(route string, code int, body string, header ...string) {
	f.on(route, reply(code, body, header...))
}

func reply(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// each answers with one handler after the other, the last one for ever.
func each(hs ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := hs[min(n, len(hs)-1)]
		n++
		mu.Unlock()
		h(w, r)
	}
}

func (f *fake) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.seen...)
}

// lines are the requests as "METHOD path" or "METHOD path body".
func (f *fake) lines() []string {
	var out []string
	for _, s := range f.requests() {
		out = append(out, strings.TrimSpace(s.Method+" "+s.Path+" "+s.Body))
	}
	return out
}

func (f *fake) client(change ...func(*gh.Options)) *gh.Client {
	f.t.Helper()
	o := gh.Options{BaseURL: f.base(), Token: secret.New(token), Clock: &hasty{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}}
	for _, c := range change {
		c(&o)
	}
	c, err := gh.New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// hasty is a clock whose timers fire at once and move it: waits take no time,
// and are on record.
type hasty struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (h *hasty) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hasty) NewTimer(d time.Duration) clock.Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = append(h.waits, d)
	h.now = h.now.Add(max(d, 0))
	c := make(chan time.Time, 1)
	c <- h.now
	return fired(c)
}

func (h *hasty) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *hasty) waited() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Duration(nil), h.waits...)
}

type fired chan time.Time

func (f fired) C() <-chan time.Time { return f }
func (fired) Stop() bool            { return false }

func issueJSON(number int, labels ...string) string {
	type l struct {
		Name string `json:"name"`
	}
	ls := []l{}
	for _, n := range labels {
		ls = append(ls, l{n})
	}
	b, _ := json.Marshal(map[string]any{
		"id": 1000 + number, "number": number, "title": "It breaks", "body": nil, "state": "open",
		"repository_url": "https://api.example/repos/Acme/widgets", "user": nil, "labels": ls,
		"created_at": "2026-11-01T10:00:00Z", "updated_at": "2026-11-02T10:00:00Z",
	})
	return string(b)
}

func list(items ...string) string { return "[" + strings.Join(items, ",") + "]" }

func link(rel, url string) string { return fmt.Sprintf(`<%s>; rel=%q`, url, rel) }
