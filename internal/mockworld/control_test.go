package mockworld_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

func TestControlFromAnotherProcess(t *testing.T) {
	t.Parallel()
	s, r := hooked(t, "issues")
	n := s.issue("One")
	must(t, s.Label("acme/shop", n, "bob", "bug"))
	s.settle(0)
	at := s.base + "/_world/"

	var got mockworld.Snapshot
	must(t, json.Unmarshal(s.want(200, "GET", at+"snapshot", "", nil).raw, &got))
	want, err := s.Snapshot()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	last := s.Deliveries()[2]
	s.want(200, "POST", fmt.Sprintf("%sredeliver?id=%d", at, last.ID), "", nil)
	s.settle(0)
	if ev := r.events(); len(ev) != 4 || ev[3] != "issues.labeled" {
		t.Errorf("events: %v", ev)
	}
	s.want(200, "POST", at+"fault", "", mockworld.Fault{Kind: mockworld.FaultRefuse, Match: mockworld.Match{Path: "^/meta$"}})
	s.want(503, "GET", "/meta", "", nil)
	s.want(400, "POST", at+"fault", "", mockworld.Fault{Kind: "odd"})
	s.want(400, "POST", at+"redeliver?id=1", "", nil)
	s.want(400, "POST", at+"release?name=x", "", nil)
	s.want(404, "GET", at+"else", "", nil)
	s.want(400, "POST", at+"token?login=nobody", "", nil)
	token, _ := s.want(200, "POST", at+"token?login=ann", "", nil).obj()["token"].(string)
	if got := s.want(200, "GET", "/user", token, nil).obj()["login"]; got != "ann" {
		t.Errorf("whose token: %v", got)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("requests logged: %d, want 2", n)
	}
}
