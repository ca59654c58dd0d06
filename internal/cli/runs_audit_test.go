package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// What an audit advises can be done.
func TestAdvice(t *testing.T) {
	t.Parallel()
	start := json.RawMessage(`{}`)
	for name, c := range map[string]struct {
		run  checkpoints.Run
		a    engine.Audit
		fits bool
		want string
	}{
		"actions of other versions": {checkpoints.Run{Status: checkpoints.Halted}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, true, "--accept-drift"},
		"or do without":             {checkpoints.Run{Status: checkpoints.Halted, ID: "01R", Phase: "plan"}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, true, "runs cancel 01R` ends it, its work saved; then start the phase plan again"},
		"a child":                   {checkpoints.Run{Status: checkpoints.Halted, Parent: "01P"}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, false, "runs audit 01P"},
		"a flow that does not fit":  {checkpoints.Run{Status: checkpoints.Halted}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, false, "runs cancel"},
		"corrupt":                   {checkpoints.Run{Status: checkpoints.Halted}, engine.Audit{Snapshot: engine.Corrupt, Action: engine.Refuse}, false, "runs cancel"},
		"over":                      {checkpoints.Run{Status: checkpoints.Failed, Initial: start}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, true, "runs fork"},
		"over, of no known start":   {checkpoints.Run{Status: checkpoints.Failed}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, true, "again, with its label"},
		"over, and does not fit":    {checkpoints.Run{Status: checkpoints.Failed, Initial: start}, engine.Audit{Snapshot: engine.Drifted, Action: engine.Rebuild}, false, "again, with its label"},
	} {
		if got := strings.Join(advice(c.run, c.a, c.fits), "; "); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not tell of %q", name, got, c.want)
		}
	}
}

// Every word of an audit is explained.
func TestMeanings(t *testing.T) {
	t.Parallel()
	mean := meanings()
	for _, word := range []string{
		engine.Frozen, engine.Drifted, engine.Missing, engine.Corrupt, engine.Complete, engine.Partial,
		engine.Resume, engine.Repair, engine.Rebuild, engine.Refuse,
	} {
		if mean[word] == "" {
			t.Errorf("%s has no meaning", word)
		}
	}
}
