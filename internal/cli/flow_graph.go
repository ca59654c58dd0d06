package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

func (s *flowShell) graphCommand() *cobra.Command {
	var svg, mermaid bool
	var run string
	c := &cobra.Command{
		Use: "graph [NAME | FILE]", Short: "Draw a flow as Mermaid or SVG", Args: cobra.MaximumNArgs(1),
		Long: "graph draws a flow. With --run it draws the flow that the run has frozen and marks\n" +
			"the path taken, and where the run stands; NAME is then not needed.",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case svg && mermaid:
				return usage("choose one of --svg and --mermaid")
			case run == "" && len(args) == 0:
				return usage("say which flow, or which --run")
			case run != "":
				return s.withDesk(c.Context(), run, app.OpenAudit, func(d *app.Desk, r checkpoints.Run) error {
					f, err := d.Frozen(r)
					if err != nil {
						return said("the flow of run %s cannot be read: %v", r.ID, err)
					}
					if len(args) == 1 && args[0] != f.Name() {
						return usage("run %s is of the flow %s, not of %s", r.ID, f.Name(), args[0])
					}
					history, err := d.History(c.Context(), r.ID)
					branches, err2 := d.Branches(c.Context(), r.ID)
					if err := errors.Join(err, err2); err != nil {
						return fmt.Errorf("reading the nodes of run %s: %w", r.ID, err)
					}
					path := flowops.PathOf(flowops.Record{Run: r, History: history}, branches)
					s.draw(f, svg, &path)
					return nil
				})
			}
			f, _, err := s.winner(args[0])
			if err != nil {
				return err
			}
			s.draw(f, svg, nil)
			return nil
		},
	}
	c.Flags().BoolVar(&mermaid, "mermaid", false, "draw as Mermaid text, the default")
	c.Flags().BoolVar(&svg, "svg", false, "draw as an SVG picture")
	c.Flags().StringVar(&run, "run", "", "mark the path of this run")
	return c
}

func (s *flowShell) draw(f *flows.Flow, svg bool, path *flowops.Path) {
	form, text := "mermaid", ""
	if svg {
		form, text = "svg", flowops.SVG(f, path)
	} else {
		text = flowops.Mermaid(f, path)
	}
	if s.json {
		s.emit(map[string]any{"name": f.Name(), form: text})
		return
	}
	fmt.Fprint(s.Out, text)
}
