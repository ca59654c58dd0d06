package mockworld_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func limited(t *testing.T, change func(*mockworld.Limits)) *site {
	return newSite(t, func(o *mockworld.Options) {
		l := mockworld.DefaultLimits()
		change(&l)
		o.Limits = &l
	})
}

func TestConditionalRequestsAreFree(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	path := "/repos/acme/shop/issues"
	first := s.want(200, "GET", path, "tok-bot", nil)
	tag := first.header.Get("ETag")
	second := s.want(304, "GET", path, "tok-bot", nil, "If-None-Match", tag)
	if len(second.raw) != 0 {
		t.Errorf("304 with a body: %s", second.raw)
	}
	for _, h := range []string{"X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Limit"} {
		if got, want := second.header.Get(h), first.header.Get(h); got != want || want == "" {
			t.Errorf("%s: got %q, want %q", h, got, want)
		}
	}
	s.want(200, "GET", path, "tok-ann", nil, "If-None-Match", tag)
	must(t, s.Label("acme/shop", 1, "ann", "bug"))
	third := s.want(200, "GET", path, "tok-bot", nil, "If-None-Match", tag)
	if third.header.Get("ETag") == tag {
		t.Error("the tag did not change with the list")
	}
	if got := third.list()[0].(map[string]any); got["updated_at"] != first.list()[0].(map[string]any)["updated_at"] {
		t.Error("a label moved updated_at")
	}
}

func TestPrimaryLimit(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 429} {
		s := limited(t, func(l *mockworld.Limits) { l.PrimaryPerHour, l.PrimaryStatus = 2, status })
		s.want(200, "GET", "/meta", "tok-bot", nil)
		s.want(200, "GET", "/meta", "tok-bot", nil)
		a := s.want(status, "GET", "/meta", "tok-bot", nil)
		if a.header.Get("X-RateLimit-Remaining") != "0" || a.header.Get("X-RateLimit-Reset") != fmt.Sprint(epoch.Add(time.Hour).Unix()) ||
			!strings.Contains(string(a.raw), "API rate limit exceeded") {
			t.Errorf("exhausted: %v %s", a.header, a.raw)
		}
		s.want(200, "GET", "/meta", "tok-ann", nil)
		s.want(200, "GET", "/rate_limit", "tok-bot", nil)
		s.clock.Advance(time.Hour)
		s.want(200, "GET", "/meta", "tok-bot", nil)
	}
}

func TestSecondaryLimits(t *testing.T) {
	t.Parallel()
	comment := map[string]any{"body": "x"}
	for name, c := range map[string]struct {
		change func(*mockworld.Limits)
		first  int // how many go through
		after  time.Duration
	}{
		"a minute": {func(l *mockworld.Limits) { l.ContentPerMinute = 3 }, 3, time.Minute},
		"an hour":  {func(l *mockworld.Limits) { l.ContentPerHour = 2 }, 2, time.Hour},
		"points":   {func(l *mockworld.Limits) { l.PointsPerMinute = 12 }, 2, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := limited(t, c.change)
			s.issue("One")
			for range c.first {
				s.want(201, "POST", "/repos/acme/shop/issues/1/comments", "tok-bot", comment)
			}
			a := s.want(403, "POST", "/repos/acme/shop/issues/1/comments", "tok-bot", comment)
			if a.header.Get("Retry-After") != "60" || a.header.Get("X-RateLimit-Remaining") == "0" || !strings.Contains(string(a.raw), "secondary rate limit") {
				t.Errorf("refusal: %v %s", a.header, a.raw)
			}
			s.clock.Advance(c.after)
			s.want(201, "POST", "/repos/acme/shop/issues/1/comments", "tok-bot", comment)
		})
	}
}

func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	s := limited(t, func(l *mockworld.Limits) { l.Concurrent = 1 })
	must(t, s.AddFault(mockworld.Fault{Name: "h", Kind: mockworld.FaultHold, Match: mockworld.Match{Path: "^/meta$"}}))
	arrived := make(chan struct{}, 4)
	s.SetHook(func(stage mockworld.Stage, _ mockworld.Request) {
		if stage == mockworld.Before {
			arrived <- struct{}{}
		}
	})
	done := make(chan int)
	go func() { done <- s.do("GET", "/meta", "tok-bot", nil).status }()
	<-arrived
	s.want(403, "GET", "/repos/acme/shop", "tok-bot", nil)
	s.want(200, "GET", "/repos/acme/shop", "tok-ann", nil)
	must(t, s.Release("h"))
	if got := <-done; got != 200 {
		t.Errorf("held: %d", got)
	}
	s.want(200, "GET", "/repos/acme/shop", "tok-bot", nil)
}

func TestPagination(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for k := range 65 {
		must(t, s.AddLabel("acme/shop", mockworld.LabelSpec{Name: fmt.Sprintf("l%02d", k)}))
		s.issue(fmt.Sprintf("Issue %d", k))
	}
	// follow walks Link rel=next verbatim.
	follow := func(path string) (n, pages int, first http.Header) {
		a := s.want(200, "GET", path, "tok-bot", nil)
		first = a.header
		for {
			n += len(a.list())
			pages++
			at := ""
			for part := range strings.SplitSeq(a.header.Get("Link"), ", ") {
				if u, ok := strings.CutSuffix(part, `>; rel="next"`); ok {
					at = strings.TrimPrefix(u, "<")
				}
			}
			if at == "" {
				return n, pages, first
			}
			a = s.want(200, "GET", at, "tok-bot", nil)
		}
	}
	n, pages, h := follow("/repos/acme/shop/labels")
	if n != 66 || pages != 3 || !strings.Contains(h.Get("Link"), "/repositories/") {
		t.Errorf("labels: %d on %d pages, Link %s", n, pages, h.Get("Link"))
	}
	n, pages, h = follow("/repos/acme/shop/issues?per_page=10&since=2020-01-01T00:00:00Z")
	if n != 65 || pages != 7 || !strings.Contains(h.Get("Link"), "after=") || strings.Contains(h.Get("Link"), "&page=") {
		t.Errorf("issues: %d on %d pages, Link %s", n, pages, h.Get("Link"))
	}
	if n, _, _ = follow("/repos/acme/shop/issues?per_page=1000"); n != 65 {
		t.Errorf("issues: %d, want 65", n)
	}
	if got := len(s.want(200, "GET", "/repos/acme/shop/issues?per_page=30&page=3", "tok-bot", nil).list()); got != 5 {
		t.Errorf("page 3: %d, want 5", got)
	}
	s.want(422, "GET", "/repos/acme/shop/issues?per_page=100&page=200", "tok-bot", nil)
	s.noViolations()
}
