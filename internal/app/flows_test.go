package app_test

import (
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/templates"
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

// What says that it spends is what the built-in flows and the templates give
// budgets: the worst case counts no other.
func TestWhoSpendsHasABudget(t *testing.T) {
	t.Parallel()
	reg, err := app.Registry()
	if err != nil {
		t.Fatal(err)
	}
	files := app.BuiltIn()
	all, err := templates.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		files[one.Name] = one.Source
	}
	for name, src := range files {
		f, problems := flows.Load(name, src, reg)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		for _, n := range f.Nodes() {
			if a, ok := reg.Get(n.Uses); ok && a.Spends != (n.Budget.Tokens > 0) {
				t.Errorf("%s: node %s has a budget of %d tokens, and %s says that it spends: %v", name, n.ID, n.Budget.Tokens, n.Uses, a.Spends)
			}
		}
	}
}
