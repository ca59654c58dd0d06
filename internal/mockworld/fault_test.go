package mockworld_test

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestFaultsOnRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	comments := "/repos/acme/shop/issues/1/comments"
	body := map[string]any{"body": "x"}
	fault := func(f mockworld.Fault) { t.Helper(); must(t, s.AddFault(f)) }
	match := mockworld.Match{Method: "POST", Path: "/comments$"}

	fault(mockworld.Fault{Kind: mockworld.FaultDropResponse, Match: match})
	if a := s.do("POST", comments, "tok-bot", body); a.status != 0 {
		t.Errorf("dropped response: got %d", a.status)
	}
	if n := len(s.snap().Issues[0].Comments); n != 1 {
		t.Errorf("a dropped response was handled: %d comments, want 1", n)
	}
	fault(mockworld.Fault{Kind: mockworld.FaultDropRequest, Match: match})
	if a := s.do("POST", comments, "tok-bot", body); a.status != 0 {
		t.Errorf("dropped request: got %d", a.status)
	}
	if n := len(s.snap().Issues[0].Comments); n != 1 {
		t.Errorf("a dropped request was not handled: %d comments, want 1", n)
	}
	fault(mockworld.Fault{Kind: mockworld.FaultRefuse, Status: 502, Headers: http.Header{"Retry-After": {"7"}, "Content-Type": {"text/html"}}, Body: "<html>", Times: 2,
		Match: mockworld.Match{Path: "/issues/1$", Nth: 2, Actor: "dev-bot"}})
	for k, want := range []int{200, 502, 502, 200} {
		if a := s.do("GET", "/repos/acme/shop/issues/1", "tok-bot", nil); a.status != want || want == 502 && a.header.Get("Retry-After") != "7" {
			t.Errorf("request %d: got %d, want %d", k+1, a.status, want)
		}
	}
	log := s.Requests()
	if log[0].Fault != mockworld.FaultDropResponse || log[0].Status != 201 || log[1].Status != 0 || log[0].Actor != "dev-bot" || log[0].Path != comments {
		t.Errorf("log: %+v", log[:2])
	}
}

func TestHoldUntilReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.issue("One")
	must(t, s.AddFault(mockworld.Fault{Name: "gate", Kind: mockworld.FaultHold, Match: mockworld.Match{Method: "DELETE"}}))
	arrived := make(chan struct{})
	var stages atomic.Int32
	s.SetHook(func(stage mockworld.Stage, r mockworld.Request) {
		if r.Method == "DELETE" {
			stages.Add(1)
			if stage == mockworld.Before {
				close(arrived)
			}
		}
	})
	must(t, s.Label("acme/shop", 1, "ann", "bug"))
	done := make(chan int)
	go func() { done <- s.do("DELETE", "/repos/acme/shop/issues/1/labels/BUG", "tok-bot", nil).status }()
	<-arrived
	// The world goes on while the request is held: here between the two calls
	// of a label swap.
	must(t, s.Label("acme/shop", 1, "ann", "other"))
	if got := len(s.snap().Issues[0].Labels); got != 2 {
		t.Errorf("labels while held: %d, want 2", got)
	}
	must(t, s.Release("gate"))
	if got := <-done; got != 200 {
		t.Errorf("held request: got %d, want 200", got)
	}
	if got := s.snap().Issues[0].Labels; len(got) != 1 || got[0] != "other" {
		t.Errorf("labels: %v", got)
	}
	if stages.Load() != 2 {
		t.Errorf("hook calls: %d, want 2", stages.Load())
	}
	s.SetHook(nil)
	s.want(404, "DELETE", "/repos/acme/shop/issues/1/labels/bug", "tok-bot", nil)
}

func TestDelayGoesByTheClock(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddFault(mockworld.Fault{Kind: mockworld.FaultDelay, Delay: time.Hour, Match: mockworld.Match{Path: "^/meta$"}}))
	done := make(chan int)
	go func() { done <- s.do("GET", "/meta", "tok-bot", nil).status }()
	for s.clock.Waiting() == 0 {
		select {
		case got := <-done:
			t.Fatalf("answered %d before the delay was over", got)
		default:
			runtime.Gosched()
		}
	}
	s.clock.Advance(time.Hour)
	if got := <-done; got != 200 {
		t.Errorf("got %d, want 200", got)
	}
}

func TestCloseCutsHeldRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	must(t, s.AddFault(mockworld.Fault{Kind: mockworld.FaultHold, Match: mockworld.Match{Path: "^/meta$"}}))
	arrived := make(chan struct{})
	s.SetHook(func(stage mockworld.Stage, _ mockworld.Request) {
		if stage == mockworld.Before {
			close(arrived)
		}
	})
	done := make(chan int)
	go func() { done <- s.do("GET", "/meta", "tok-bot", nil).status }()
	<-arrived
	must(t, s.Close())
	if got := <-done; got != 0 {
		t.Errorf("held request after Close: got %d, want a cut connection", got)
	}
}

func TestBadFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for name, f := range map[string]mockworld.Fault{
		"kind":      {Kind: "explode"},
		"no event":  {Kind: mockworld.FaultDuplicate},
		"event":     {Kind: mockworld.FaultRefuse, Match: mockworld.Match{Event: "push"}},
		"no delay":  {Kind: mockworld.FaultDelay},
		"regexp":    {Kind: mockworld.FaultHold, Match: mockworld.Match{Path: "("}},
		"no status": {Kind: mockworld.FaultRefuse, Status: 20},
	} {
		if s.AddFault(f) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s.Release("nothing") == nil {
		t.Error("releasing nothing: no error")
	}
}
