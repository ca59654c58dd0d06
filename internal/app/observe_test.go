package app

import (
	"errors"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/worker"
)

// The engine's hooks reach the worker that is built after it.
func TestHooksAskTheWorker(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	if err := s.SetStop(t.Context(), checkpoints.Stop{Scope: "acme/widgets", Reason: "ada said so"}); err != nil {
		t.Fatal(err)
	}
	a := &App{}
	h := a.hooks()
	a.worker = worker.New(worker.Options{Store: s})
	run := checkpoints.Run{Repo: "acme/widgets", Issue: 7}
	if on, reason, err := h.KillSwitch(t.Context(), run); !on || reason != "ada said so" || err != nil {
		t.Errorf("stopped %v, %q, %v", on, reason, err)
	}
	if err := h.BeforeEffect(t.Context(), run); !errors.Is(err, flows.ErrHalted) {
		t.Errorf("an effect under a stop: %v", err)
	}
}
