package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows"
)

// An answer is bound to the plan that the state tells; when the state cannot
// be read, nothing is answered.
func TestAnswerIsBoundToThePlan(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "runs.db"), Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d := &Desk{Reader: s, store: s, by: "ann"}
	run, err := s.Start(t.Context(), checkpoints.StartReq{Key: "k", Entry: "a", State: []byte(`{"plan_hash":"abc"}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, l, err := s.Claim(t.Context(), run.ID, run.Epoch, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Park(t.Context(), l, checkpoints.Wait{Node: "a", Event: flows.ApprovalEvent}); err != nil {
		t.Fatal(err)
	}
	damaged := run
	damaged.State = []byte(`{"plan_hash":`)
	if err := d.Answer(t.Context(), damaged, true, ""); err == nil || !strings.Contains(err.Error(), "reading the state of run "+run.ID) {
		t.Errorf("a damaged state: %v", err)
	}
	if _, err := s.Pending(t.Context(), run.ID, flows.ApprovalEvent); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("the damaged run was answered: %v", err)
	}
	if err := d.Answer(t.Context(), run, true, "go"); err != nil {
		t.Fatal(err)
	}
	ev, err := s.Pending(t.Context(), run.ID, flows.ApprovalEvent)
	if err != nil || !strings.Contains(string(ev.Data), `"hash":"abc"`) {
		t.Errorf("answered %s, %v", ev.Data, err)
	}
}
