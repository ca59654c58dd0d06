package plan

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Covers: HF14, HF25, CN1, CN5.
func TestFlowLoads(t *testing.T) {
	t.Parallel()
	var reg flows.Registry
	if err := reg.Add(Actions(Deps{})...); err != nil {
		t.Fatal(err)
	}
	name, src := FlowSource()
	f, problems := flows.Load(name, src, &reg)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	used := f.Actions()
	for _, action := range reg.Names() {
		if used[action] == "" {
			t.Errorf("action %s is registered and no node uses it", action)
		}
	}
}
