package memory_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/checkpoints/storetest"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Covers: BL25.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, clk *clock.Fake, enqueue func(queue.Token)) checkpoints.Store {
		return memory.New(memory.Options{Clock: clk, Enqueue: enqueue})
	})
}
