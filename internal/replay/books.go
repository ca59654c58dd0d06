package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// readRuns reads the program's store from outside, as `runs list` does.
func readRuns(ctx context.Context, cfg *config.Config) (views []scenario.RunView, err error) {
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the runs: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	runs, err := r.List(ctx, checkpoints.Filter{Limit: 10_000})
	if err != nil {
		return nil, fmt.Errorf("reading the runs: %w", err)
	}
	for _, run := range runs {
		v, err := runView(ctx, r, run)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

func runView(ctx context.Context, r app.Reader, run checkpoints.Run) (scenario.RunView, error) {
	history, err := r.History(ctx, run.ID)
	if err != nil {
		return scenario.RunView{}, fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	nodes := map[string]int{}
	for _, n := range history {
		nodes[n.Node]++
	}
	return scenario.RunView{
		ID: run.ID, Repo: run.Repo, Issue: run.Issue, Phase: run.Phase, Round: run.Round, Status: string(run.Status),
		Result: run.Result, Code: run.Code, Reason: run.Reason, Nodes: nodes,
		Tokens: run.Spent.Tokens(), ModelCalls: run.Spent.ModelCalls, MicroUSD: run.Spent.MicroUSD,
	}, nil
}
