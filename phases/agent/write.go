package agent

import (
	"context"
	"encoding/json"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/writer"
)

func checkWrite(raw json.RawMessage) error {
	w, err := flows.With[ask](raw)
	if err != nil {
		return err
	}
	return w.check()
}

// write lets a model change the run's worktree. It reads base_sha, work_ref
// (the patch so far, when the node has it) and the keys to show; it writes
// work_ref, diff_ref (tree.Summary) and report_ref (writer.Report).
func (k kit) write() flows.Action {
	return flows.Action{
		Name: "agent.write", Version: "1", Spends: true, CheckWith: checkWrite,
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
			w := writer.Writer{Trees: k.Trees, Models: k.Models, Runner: k.Runner, Allow: k.Allow, Limits: k.CommandLimits}
			return w.Write(ctx, c, writer.Job{At: at, Prompt: request, Test: k.testCommand(c.Run.Repo).Argv, MaxTurns: with.MaxTurns})
		}),
	}
}
