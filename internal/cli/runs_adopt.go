package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

// adoption is what `flow adopt` was asked for.
type adoption struct {
	name         string
	whole, force bool
}

func (s *flowShell) adoptCommand() *cobra.Command {
	var from string
	var a adoption
	c := &cobra.Command{
		Use: "adopt --from RUN --name NAME", Short: "Make a flow of your own of what a run did", Args: cobra.MaximumNArgs(1),
		Long: "adopt writes what a run did into the flows folder, under a new name: a chain of\n" +
			"the nodes that it completed, each once and in their order, as the run had frozen\n" +
			"them. With --whole it writes the whole definition instead, with the ways not\n" +
			"taken. Which run it comes from, and the versions of its actions, are noted in\n" +
			"the file. RUN may stand without --from.",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && from == "":
				from = args[0]
			case len(args) == 1 && from != args[0]:
				return usage("--from says %s, the argument %s: say one run", from, args[0])
			}
			switch {
			case from == "" && a.name == "":
				return usage("say which run and under which name: `pipelinebot flow adopt --from RUN --name NAME`; `pipelinebot runs list` shows the runs")
			case from == "":
				return usage("say which run: `pipelinebot flow adopt --from RUN --name %s`; `pipelinebot runs list` shows the runs", a.name)
			case a.name == "":
				return usage("say under which name: `pipelinebot flow adopt --from %s --name NAME`", from)
			}
			if err := flowops.CheckName(a.name); err != nil {
				return usage("%v", err)
			}
			return s.withDesk(c.Context(), from, app.OpenDesk, func(d *app.Desk, run checkpoints.Run) error {
				err := s.adopt(c.Context(), d, run, a)
				if err != nil && !classified(err) {
					return err
				}
				return errors.Join(err, d.Adopted(c.Context(), run, a.name, err))
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "the run")
	c.Flags().StringVar(&a.name, "name", "", "the new flow's name")
	c.Flags().BoolVar(&a.whole, "whole", false, "the whole definition, not only what went well")
	c.Flags().BoolVar(&a.force, "force", false, "write over a flow of that name")
	return c
}

func (s *flowShell) adopt(ctx context.Context, d *app.Desk, run checkpoints.Run, a adoption) error {
	history, err := d.History(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	adopted := flowops.Adopt
	if a.whole {
		adopted = flowops.AdoptWhole
	}
	src, err := adopted(flowops.Record{Run: run, History: history}, a.name)
	if err != nil {
		return said("%v", err)
	}
	return s.write(a.name, src, nil, a.force)
}
