// Package triage is the first phase: it says what an issue is and whether the
// pipeline works on it, asks when facts are missing, and declines what is not
// for it. The graph is in flow.yaml; this package holds its actions and
// prompts.
//
// It must not know GitHub's wire, git, stores or the engine. It imports
// contracts, phases/{actuators,blob,issue,markdown}.
package triage

import (
	"context"
	_ "embed"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

//go:embed flow.yaml
var flowYAML []byte

//go:embed prompts/classify@1.md
var classifyPrompt string

// FlowSource is the phase's flow file.
func FlowSource() (name string, src []byte) { return "triage/flow.yaml", flowYAML }

// Speaker writes comments.
type Speaker interface {
	AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error)
}

// Linker finds the pull requests of an issue.
type Linker interface {
	LinkedPulls(ctx context.Context, ref forge.Ref) ([]forge.Pull, error)
}

// Deps is what the phase's actions use; all but Scrub are required.
type Deps struct {
	Reader  issue.Reader
	Speaker Speaker
	Linker  Linker
	Models  actuators.Models
	Scrub   *secret.Scrubber
	Settings
}

// Settings are the phase's thresholds; a zero field takes the default.
type Settings struct {
	// MinText is the fewest visible characters of title and body together
	// that are worth a model call; default 30.
	MinText int
	// MinClarity is the least clarity (0 to 3) that needs no question;
	// default 2.
	MinClarity int
}

func (s Settings) filled() Settings {
	if s.MinText == 0 {
		s.MinText = 30
	}
	if s.MinClarity == 0 {
		s.MinClarity = 2
	}
	return s
}

// phase holds what the actions share.
type phase struct{ Deps }

// Actions are the actions that the flow names.
func Actions(d Deps) []flows.Action {
	d.Settings = d.Settings.filled()
	p := phase{d}
	return issue.Declare([]flows.Action{
		issue.SnapshotAction("triage.snapshot", d.Reader),
		p.screen(), p.classify(), p.route(), p.ask(), p.unanswered(), p.accept(),
	}, map[string][]string{
		"triage.snapshot":   {issue.Closed, issue.NeedsHuman},
		"triage.screen":     {"duplicate", issue.NeedsHuman},
		"triage.classify":   {issue.NeedsHuman},
		"triage.route":      {"declined", "duplicate", "split", issue.NeedsHuman},
		"triage.ask":        {issue.NeedsHuman},
		"triage.unanswered": {"needs_info"},
	})
}
