package app_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/app"
)

// A run has one worktree: an action that brings it to a position can't be a
// branch beside another that does, nor can its result stand for a later one.
func TestWhoUsesTheWorktreeIsNotReadOnly(t *testing.T) {
	t.Parallel()
	reg, err := app.Registry()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"agent.write", "command.run", "pull.open", "tests.run", "workspace.save",
		"implement.baseline", "implement.code", "implement.publish", "implement.verify",
		"plan.check", "plan.explore",
		"review.correctness", "review.fetch", "review.safety", "review.verify",
	} {
		a, ok := reg.Get(name)
		if !ok {
			t.Errorf("there is no action %s", name)
		} else if a.ReadOnly {
			t.Errorf("%s is registered as read-only", name)
		}
	}
}
