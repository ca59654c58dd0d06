// Package implement is the third phase: it carries out an approved plan in a
// worktree at the pinned commit, checks the changes, runs the repository's own
// tests, tries again with what failed, and opens the pull request. The graph
// is in flow.yaml; this package holds its actions and prompts.
//
// It must not know GitHub's wire, git, sandboxes, stores or the engine. It
// imports contracts and phases/{actuators,blob,delivery,gates,issue,markdown,plandoc,tree,writer}.
package implement

import (
	"context"
	_ "embed"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/delivery"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

//go:embed flow.yaml
var flowYAML []byte

//go:embed prompts/code@1.md
var codePrompt string

// FlowSource is the phase's flow file.
func FlowSource() (name string, src []byte) { return "implement/flow.yaml", flowYAML }

// Issues reads the issue.
type Issues interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
}

// Pulls works with pull requests.
type Pulls interface {
	PullsByHead(ctx context.Context, r forge.Repo, branch string) ([]forge.Pull, error)
	LinkedPulls(ctx context.Context, ref forge.Ref) ([]forge.Pull, error)
	OpenPull(ctx context.Context, r forge.Repo, p forge.NewPull) (forge.Pull, error)
}

// Deps is what the phase's actions use; all but Scrub and Saved are required.
type Deps struct {
	Issues Issues
	Pulls  Pulls
	Trees  *tree.Trees
	Models actuators.Models
	Runner command.Runner
	Scrub  *secret.Scrubber
	// Saved, when set, is told the branch on which a run's unfinished work was
	// kept, so that people can be told.
	Saved func(ctx context.Context, runID, branch string) error
	Settings
}

// Settings are the phase's bounds and habits.
type Settings struct {
	// Test is how the repository's tests are run; with no Argv it is detected
	// at the base commit.
	Test gates.TestCommand
	// TestFor, when set, is asked instead of Test, by "owner/name", since
	// repositories differ.
	TestFor func(repo string) gates.TestCommand
	// Rules bound the changes; Scope is filled from the plan.
	Rules gates.Rules
	// Allow are the commands that the model may run, by their first words;
	// the test command is always allowed.
	Allow [][]string
	// CommandLimits bound one of those.
	CommandLimits command.Limits
	// MaxTurns bounds one attempt's tool loop; 0 is the actuator's default.
	MaxTurns int
	Identity delivery.Identity
}

type phase struct{ Deps }

// Actions are the actions that the flow names.
func Actions(d Deps) []flows.Action {
	p := phase{d}
	return issue.Declare([]flows.Action{
		p.admit(), p.baseline(), p.code(), p.checkDiff(), p.verify(), p.noProgress(),
		p.giveUp(), p.publish(), p.openPull(), p.saveWork(),
	}, map[string][]string{
		"implement.admit":       {issue.Closed, "merged", issue.NeedsHuman},
		"implement.baseline":    {issue.NeedsHuman},
		"implement.code":        {issue.NeedsHuman},
		"implement.check_diff":  {"empty", issue.NeedsHuman},
		"implement.verify":      {issue.NeedsHuman},
		"implement.no_progress": {"no_progress", issue.NeedsHuman},
		"implement.give_up":     {issue.NeedsHuman},
		"implement.publish":     {"empty", issue.NeedsHuman},
		"implement.open_pr":     {issue.NeedsHuman},
	})
}

// testCommand is how the tests of a repository are run, as configured.
func (s Settings) testCommand(repo string) gates.TestCommand {
	if s.TestFor != nil {
		return s.TestFor(repo)
	}
	return s.Test
}
