// Package writer has a model change a run's worktree: the piece that all
// actions share which let one write.
//
// It must not know plans, the forge or any one phase. It imports contracts and
// phases/{actuators,blob,issue,markdown,tree}.
package writer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/command"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

// Report is the writer's form. Nothing is decided by it.
type Report struct {
	Summary    string `json:"summary" jsonschema:"what was changed, for the pull request"`
	Unfinished string `json:"unfinished" jsonschema:"what is not done and why, or empty"`
}

// Check implements the rules that a schema can't say.
func (r Report) Check() error {
	if strings.TrimSpace(r.Summary) == "" && strings.TrimSpace(r.Unfinished) == "" {
		return errors.New("summary is empty")
	}
	return nil
}

// LoadReport reads the report that Write has kept in report_ref.
func LoadReport(ctx context.Context, c flows.Call) (Report, error) {
	return blob.GetJSON[Report](ctx, c.Artifacts, "report", c.In.Artifact("report_ref"))
}

// Writer is what writing needs.
type Writer struct {
	Trees  *tree.Trees
	Models actuators.Models
	Runner command.Runner
	// Allow are the commands that the model may run, by their first words;
	// Limits bound one of them.
	Allow  [][]string
	Limits command.Limits
}

// Job is one piece of work.
type Job struct {
	At     tree.At
	Prompt actuators.Prompt
	// Test is how the tests are run, which the model may do as well.
	Test []string
	// MaxTurns bounds the tool loop; 0 is the actuator's default.
	MaxTurns int
}

// Write does a job and keeps what came of it: its result sets work_ref (the
// patch upon the job's base), diff_ref (tree.Summary) and report_ref (Report),
// and its note counts files, lines and turns. A model without a verdict ends
// the flow by a Stop.
func (w Writer) Write(ctx context.Context, c flows.Call, job Job) (flows.Result, error) {
	space, err := w.Trees.Open(ctx, c, job.At)
	if err != nil {
		return flows.Result{}, err
	}
	advice, err := actuators.Instructions(space.Dir())
	if err != nil {
		return flows.Result{}, err
	}
	prompt, allow := job.Prompt, w.Allow
	prompt.Sections = append(prompt.Sections[:len(prompt.Sections):len(prompt.Sections)], advice...)
	if len(job.Test) > 0 {
		allow = append(allow[:len(allow):len(allow)], job.Test)
	}
	report, log, err := actuators.Work[Report](ctx, c, w.Models, prompt, actuators.Toolbox{
		Dir: space.Dir(), Runner: w.Runner, Allow: allow, Limits: w.Limits, MaxTurns: job.MaxTurns,
	})
	if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
		return r, nil
	}
	if err != nil {
		return flows.Result{}, fmt.Errorf("writing: %w", err)
	}
	saved, err := tree.Save(ctx, c.Artifacts, space)
	if err != nil {
		return flows.Result{}, err
	}
	kept, err := blob.PutJSON(ctx, c.Artifacts, "report", report)
	if err != nil {
		return flows.Result{}, err
	}
	added, deleted := saved.Lines()
	return flows.Result{
		Delta: flows.Delta{"work_ref": saved.Patch, "diff_ref": saved.Diff, "report_ref": kept},
		Note: fmt.Sprintf("%s, +%d -%d lines, %s", markdown.Count(len(saved.Files), "file"), added, deleted,
			markdown.Count(log.Turns, "turn")),
	}, nil
}
