package review

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/phases/phasetest"
)

// Covers: HF14, HF25, CN1, CN5.
func TestFlowLoads(t *testing.T) {
	t.Parallel()
	name, src := FlowSource()
	phasetest.FlowLoads(t, name, src, Actions(Deps{}))
}
