package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/actuators"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
	"github.com/pipelinebot/pipelinebot/phases/tree"
)

func checkWrite(raw json.RawMessage) error {
	w, err := flows.With[ask](raw)
	if err != nil {
		return err
	}
	return w.check()
}

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

// write lets a model change the run's worktree. It reads base_sha, work_ref
// (the patch so far, when the node has it) and the keys to show; it writes
// work_ref, diff_ref (tree.Summary) and report_ref (Report).
func (k kit) write() flows.Action {
	return flows.Action{
		Name: "agent.write", Version: "1", CheckWith: checkWrite,
		Writes:    []string{"work_ref", "diff_ref", "report_ref", "result"},
		CheckNode: writeNode, Types: baseTypes(),
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			with, err := flows.With[ask](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			request, err := with.request(ctx, c, "write", writePrompt)
			if err != nil {
				return flows.Result{}, err
			}
			at, err := position(c)
			if err != nil {
				return flows.Result{}, err
			}
			w, err := k.Trees.Open(ctx, c, at)
			if err != nil {
				return flows.Result{}, err
			}
			advice, err := actuators.Instructions(w.Dir())
			if err != nil {
				return flows.Result{}, err
			}
			request.Sections = append(request.Sections, advice...)
			allow := k.Allow
			if test := k.testCommand(c.Run.Repo); len(test.Argv) > 0 {
				allow = append(allow[:len(allow):len(allow)], test.Argv)
			}
			report, log, err := actuators.Work[Report](ctx, c, k.Models, request, actuators.Toolbox{
				Dir: w.Dir(), Runner: k.Runner, Allow: allow, Limits: k.CommandLimits, MaxTurns: with.MaxTurns,
			})
			if r, ended := issue.NoVerdict(err, actuators.Code(err)); ended {
				return r, nil
			}
			if err != nil {
				return flows.Result{}, fmt.Errorf("writing: %w", err)
			}
			saved, err := tree.Save(ctx, c.Artifacts, w)
			if err != nil {
				return flows.Result{}, err
			}
			a, err := blob.PutJSON(ctx, c.Artifacts, "report", report)
			if err != nil {
				return flows.Result{}, err
			}
			added, deleted := saved.Lines()
			return flows.Result{
				Delta: flows.Delta{"work_ref": saved.Patch, "diff_ref": saved.Diff, "report_ref": a},
				Note: fmt.Sprintf("%s, +%d -%d lines, %s", markdown.Count(len(saved.Files), "file"), added, deleted,
					markdown.Count(log.Turns, "turn")),
			}, nil
		}),
	}
}
