// Package review is the fourth phase: two reviewers read the pull request, a
// third call joins their findings, fixed rules decide by them, by the tests at
// that commit and by CI, and the verdict is posted as a review. The graph is in
// flow.yaml; this package holds its actions and prompts.
//
// It must not know GitHub's wire, git, sandboxes, stores or the engine. It
// imports contracts and phases/{actuators,blob,gates,issue,markdown,plandoc,
// tree}.
package review

import (
	"context"
	_ "embed"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

//go:embed flow.yaml
var flowYAML []byte

//go:embed prompts/correctness@1.md
var correctnessPrompt string

//go:embed prompts/safety@1.md
var safetyPrompt string

//go:embed prompts/synthesis@1.md
var synthesisPrompt string

// FlowSource is the phase's flow file.
func FlowSource() (name string, src []byte) { return "review/flow.yaml", flowYAML }

// Forge is what the phase reads and writes there.
type Forge interface {
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
	Reviews(ctx context.Context, ref forge.Ref) ([]forge.Review, error)
	AddReview(ctx context.Context, ref forge.Ref, n forge.NewReview) (forge.Review, error)
	Checks(ctx context.Context, r forge.Repo, sha string) ([]forge.Check, error)
	Self(ctx context.Context) (forge.Actor, error)
}

// Issues finds the issue and its pull request.
type Issues interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	PullsByHead(ctx context.Context, r forge.Repo, branch string) ([]forge.Pull, error)
}

// Deps is what the phase's actions use; all but Scrub are required.
type Deps struct {
	Forge  Forge
	Issues Issues
	Trees  *tree.Trees
	Models actuators.Models
	Runner command.Runner
	Scrub  *secret.Scrubber
	Settings
}

// Settings are the phase's bounds; a zero field takes the default.
type Settings struct {
	// Test is how the repository's tests are run; with no Argv it is what the
	// implement phase used, or detected at the base commit.
	Test gates.TestCommand
	// TestFor, when set, is asked instead of Test, by "owner/name", since
	// repositories differ.
	TestFor func(repo string) gates.TestCommand
	// MaxRounds is how many reviews of one pull request there are before a
	// person must look; default 3.
	MaxRounds int
	// MaxTurns bounds one reviewer's tool loop; 0 is the actuator's default.
	MaxTurns int
	// RequireCI asks for at least one CI result besides the bot's own.
	RequireCI bool
	// CIPoll and CITries bound the wait for CI: how long between looks
	// (default 1 minute) and how many looks (default 20).
	CIPoll  time.Duration
	CITries int
}

func (s Settings) filled() Settings {
	if s.MaxRounds == 0 {
		s.MaxRounds = 3
	}
	if s.CIPoll == 0 {
		s.CIPoll = time.Minute
	}
	if s.CITries == 0 {
		s.CITries = 20
	}
	return s
}

type phase struct{ Deps }

// Actions are the actions that the flow names.
func Actions(d Deps) []flows.Action {
	d.Settings = d.Settings.filled()
	p := phase{d}
	return issue.Declare([]flows.Action{
		p.admit(), p.fetch(),
		p.reviewer("review.correctness", "review/correctness@1", correctnessPrompt, "correctness_ref"),
		p.reviewer("review.safety", "review/safety@1", safetyPrompt, "safety_ref"),
		p.synthesis(), p.verify(), p.ci(), p.decide(), p.post(), p.conclude(),
		tree.ReleaseAction("review.release", d.Trees),
	}, map[string][]string{
		"review.admit":       {issue.Closed, "merged", issue.NeedsHuman},
		"review.fetch":       {issue.NeedsHuman},
		"review.correctness": {issue.NeedsHuman},
		"review.safety":      {issue.NeedsHuman},
		"review.synthesis":   {issue.NeedsHuman},
		"review.verify":      {issue.NeedsHuman},
		"review.ci":          {issue.NeedsHuman},
		"review.decide":      {issue.Closed, "merged", issue.NeedsHuman},
		"review.post":        {issue.NeedsHuman},
		"review.conclude":    {issue.NeedsHuman},
	})
}

// testCommand is how the tests of a repository are run, as configured.
func (s Settings) testCommand(repo string) gates.TestCommand {
	if s.TestFor != nil {
		return s.TestFor(repo)
	}
	return s.Test
}
