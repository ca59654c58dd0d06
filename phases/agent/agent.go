// Package agent holds the actions of which users make flows of their own,
// without Go: a model that reads, a model that changes a worktree, the checks
// between it and the world, the repository's tests, commands, the pull request
// and a comment. They share their state keys with the four phases, so that a
// flow made of them may stand in a phase's place:
//
//	issue_ref text_hash     issue.read      the issue as it was
//	base_sha default_branch workspace.pin   the commit that everything builds on
//	work_ref diff_ref report_ref  agent.write  the patch upon it
//	blocked problems_ref    workspace.check what is wrong with the patch
//	evidence_ref passed failing flaky  tests.run
//	attempts_ref            gates.no_progress
//	branch head_sha patch_ref pr  pull.open
//
// A flow declares those that its actions read and write. Their early ends have
// the results closed, needs_human, empty and no_progress; pull.open ends with
// pr_opened.
//
// It must not know GitHub's wire, git, sandboxes, stores or the engine. It
// imports contracts and phases/{actuators,blob,delivery,gates,issue,markdown,tree,writer}.
package agent

import (
	"context"

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

// Forge is what the actions need of the forge.
type Forge interface {
	issue.Reader
	issue.Speaker
	tree.Repositories
	delivery.Pulls
}

// Deps is what the actions use; all but Scrub and Saved are required.
type Deps struct {
	Forge  Forge
	Trees  *tree.Trees
	Models actuators.Models
	Runner command.Runner
	Scrub  *secret.Scrubber
	// Saved, when set, is told the branch on which a run's unfinished work was
	// kept.
	Saved func(ctx context.Context, runID, branch string) error
	Settings
}

// Settings are the operator's bounds; what a flow says can only tighten them.
type Settings struct {
	// TestFor is how the tests of "owner/name" are run; with no Argv they are
	// detected at the pinned commit.
	TestFor func(repo string) gates.TestCommand
	// Rules bound the changes.
	Rules gates.Rules
	// Allow are the commands that a writing model may run, by their first
	// words.
	Allow [][]string
	// CommandLimits bound a command of a flow or of a model.
	CommandLimits command.Limits
	Identity      delivery.Identity
}

type kit struct{ Deps }

// Actions are the actions for flows of users' own.
func Actions(d Deps) []flows.Action {
	k := kit{d}
	return issue.Declare([]flows.Action{
		issue.SnapshotAction("issue.read", d.Forge), k.pin(), k.read(), k.write(), k.check(), k.tests(), k.command(),
		k.noProgress(), k.openPull(), k.note(), k.end(),
		delivery.Keeper{Trees: d.Trees, Rules: d.Rules, Identity: d.Identity, Saved: d.Saved}.Action("workspace.save", "base_sha"),
	}, map[string][]string{
		"issue.read":        {issue.Closed, issue.NeedsHuman},
		"workspace.pin":     {issue.Closed, issue.NeedsHuman},
		"agent.write":       {issue.NeedsHuman},
		"workspace.check":   {"empty", issue.NeedsHuman},
		"tests.run":         {issue.NeedsHuman},
		"gates.no_progress": {"no_progress"},
		"pull.open":         {"empty", issue.NeedsHuman},
		"report.note":       {issue.NeedsHuman},
	})
}

// repo is the run's repository.
func repo(c flows.Call) (forge.Repo, error) { return forge.ParseRepo(c.Run.Repo) }
