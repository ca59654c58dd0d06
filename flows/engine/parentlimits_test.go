package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// The parent's limit holds while the parent itself can't go on, since the
// program has another version of its actions or has them no more.
//
// Covers: NX16, VK24.
func TestParentsLimitOutlivesDrift(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*checkpoints.Run){
		"other version": func(run *checkpoints.Run) { run.Actions["t.gate"] = "0" },
		"gone":          func(run *checkpoints.Run) { redefine(run, `"t.gate"`, `"t.gone"`) },
	} {
		w := newWorld(t, map[string]action{"a": spends(2), "work": spends(20)})
		id := w.begin(strings.Replace(parentFlow(waits), "nodes:\n", "limits: {tokens: 1000}\nnodes:\n", 1))
		w.want(w.walk(id), "parked: a")
		child := w.children(id)["ticket:ticket:0"]
		w.store = changed{w.memory, id, change}
		out := w.walk(child)
		w.want(out, "ended error budget:")
		if got := w.get(id).Spent.Tokens(); got != 1000 || !strings.Contains(out.Reason, id) {
			t.Errorf("%s: the parent has spent %d tokens, want 1000; %s", name, got, out.Reason)
		}
	}
	w := newWorld(t, map[string]action{"work": spends(1)})
	id := w.begin(parentFlow(waits))
	w.want(w.walk(id), "parked: a")
	w.store = changed{w.memory, id, func(run *checkpoints.Run) { run.Definition = []byte("{}") }}
	w.want(w.walk(w.children(id)["ticket:ticket:0"]), "ended error corrupt:")
	if w.called() != "a" {
		t.Errorf("called %q", w.called())
	}
}

// changed is a store in which one run reads otherwise.
type changed struct {
	engine.Store
	id     string
	change func(*checkpoints.Run)
}

func (c changed) Get(ctx context.Context, id string) (checkpoints.Run, error) {
	run, err := c.Store.Get(ctx, id)
	if err == nil && id == c.id {
		run.Actions = maps.Clone(run.Actions)
		c.change(&run)
	}
	return run, err
}

// redefine changes a run's frozen definition, and its hash with it.
func redefine(run *checkpoints.Run, from, to string) {
	run.Definition = bytes.ReplaceAll(run.Definition, []byte(from), []byte(to))
	sum := sha256.Sum256(run.Definition)
	run.DefinitionHash = hex.EncodeToString(sum[:])
}
