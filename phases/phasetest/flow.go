package phasetest

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// FlowLoads checks that a phase's flow loads with the phase's actions alone,
// and that its nodes use all of them.
func FlowLoads(t *testing.T, name string, src []byte, actions []flows.Action) {
	t.Helper()
	var reg flows.Registry
	if err := reg.Add(actions...); err != nil {
		t.Fatal(err)
	}
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
