// Package plan is the second phase: it pins a commit, explores the repository
// without changing it, drafts a plan, checks and criticises it, posts it bound
// to the issue's text and the commit, and waits for a person's approval. The
// graph is in flow.yaml; this package holds its actions and prompts.
//
// It must not know GitHub's wire, git, stores or the engine. It imports
// contracts, labels and phases/{actuators,blob,gates,issue,
// markdown,plandoc,tree}.
package plan

import (
	"context"
	_ "embed"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

//go:embed flow.yaml
var flowYAML []byte

//go:embed prompts/explore@1.md
var explorePrompt string

//go:embed prompts/draft@1.md
var draftPrompt string

//go:embed prompts/critique@1.md
var critiquePrompt string

// FlowSource is the phase's flow file.
func FlowSource() (name string, src []byte) { return "plan/flow.yaml", flowYAML }

// Writer writes comments and labels.
type Writer interface {
	AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error)
	AddLabel(ctx context.Context, ref forge.Ref, name string) error
	RemoveLabel(ctx context.Context, ref forge.Ref, name string) error
}

// Repositories tells the default branch, what pull requests there are for an
// issue, and who set a label.
type Repositories interface {
	LinkedPulls(ctx context.Context, ref forge.Ref) ([]forge.Pull, error)
	Repository(ctx context.Context, r forge.Repo) (forge.Repository, error)
	Events(ctx context.Context, ref forge.Ref) ([]forge.IssueEvent, error)
}

// Deps is what the phase's actions use; all but Scrub are required.
type Deps struct {
	Reader issue.Reader
	Repos  Repositories
	Writer Writer
	Trees  *tree.Trees
	Models actuators.Models
	Labels labels.Names
	Scrub  *secret.Scrubber
	Settings
}

// Settings are the phase's bounds; a zero field takes the default.
type Settings struct {
	// MaxFiles and MaxSteps bound a plan; defaults 25 and 20.
	MaxFiles, MaxSteps int
	// Protected are globs of paths that no plan may name, as in gates.Rules.
	Protected []string
	// AllowWorkflows lets a plan name files that run in CI.
	AllowWorkflows bool
	// AutoMin is the least permission of the person whose auto label skips the
	// approval; default Write.
	AutoMin forge.Permission
	// MaxTurns bounds the exploring tool loop; default 40.
	MaxTurns int
}

func (s Settings) filled() Settings {
	if s.MaxFiles == 0 {
		s.MaxFiles = 25
	}
	if s.MaxSteps == 0 {
		s.MaxSteps = 20
	}
	if s.AutoMin == forge.None {
		s.AutoMin = forge.Write
	}
	if s.MaxTurns == 0 {
		s.MaxTurns = 40
	}
	return s
}

type phase struct{ Deps }

// voice joins the ports that comments and labels need.
type voice struct {
	issue.Reader
	Writer
}

func (p phase) voice() voice { return voice{p.Reader, p.Writer} }

// Actions are the actions that the flow names.
func Actions(d Deps) []flows.Action {
	d.Settings = d.Settings.filled()
	p := phase{d}
	return issue.Declare([]flows.Action{
		issue.SnapshotAction("plan.snapshot", d.Reader),
		p.base(), p.explore(), p.draft(), p.check(), p.critique(), p.unsettled(),
		p.post(), p.auto(), p.markWaiting(), p.noteRevision(), p.checkApproval(), p.noteLapse(),
		p.unapprovable(), p.rejected(), p.expired(), p.approve(),
		tree.ReleaseAction("plan.release", d.Trees),
	}, map[string][]string{
		"plan.snapshot":       {issue.Closed, issue.NeedsHuman},
		"plan.base":           {issue.Closed, issue.NeedsHuman},
		"plan.explore":        {issue.NeedsHuman},
		"plan.draft":          {issue.NeedsHuman},
		"plan.check":          {issue.NeedsHuman},
		"plan.critique":       {issue.NeedsHuman},
		"plan.unsettled":      {issue.NeedsHuman},
		"plan.post":           {issue.NeedsHuman},
		"plan.auto":           {issue.Closed, issue.NeedsHuman},
		"plan.mark_waiting":   {issue.NeedsHuman},
		"plan.note_revision":  {issue.NeedsHuman},
		"plan.check_approval": {issue.Closed, issue.NeedsHuman},
		"plan.note_lapse":     {issue.NeedsHuman},
		"plan.unapprovable":   {issue.NeedsHuman},
		"plan.rejected":       {"rejected"},
		"plan.expired":        {"expired"},
	})
}
