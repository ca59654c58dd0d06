package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
)

func (s *flowShell) graphCommand() *cobra.Command {
	var svg, mermaid bool
	var run string
	c := &cobra.Command{
		Use: "graph [NAME | FILE]", Short: "Draw a flow as Mermaid or SVG", Args: cobra.MaximumNArgs(1),
		Long: "graph draws a flow. With --run it draws the flow that the run has frozen and\n" +
			"marks the path taken, and where the run stands; NAME is then not needed.",
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
					marks, err := marksOf(c.Context(), d, r)
					if err != nil {
						return err
					}
					s.draw(f, svg, marks)
					return nil
				})
			}
			f, _, err := s.winner(args[0])
			if err != nil {
				return err
			}
			s.draw(f, svg)
			return nil
		},
	}
	c.Flags().BoolVar(&mermaid, "mermaid", false, "draw as Mermaid text, the default")
	c.Flags().BoolVar(&svg, "svg", false, "draw as an SVG picture")
	c.Flags().StringVar(&run, "run", "", "mark the path of this run")
	return c
}

// marksOf is the path of a run.
func marksOf(ctx context.Context, d *app.Desk, run checkpoints.Run) (flows.Marks, error) {
	history, err := d.History(ctx, run.ID)
	if err != nil {
		return flows.Marks{}, fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	branches, err := d.Branches(ctx, run.ID)
	if err != nil {
		return flows.Marks{}, fmt.Errorf("reading the branches of run %s: %w", run.ID, err)
	}
	var path []string
	for _, n := range history {
		path = append(path, n.Node)
	}
	at := ""
	if !run.Status.Final() {
		at = run.Next
	}
	marks := flows.MarkPath(path, at)
	for _, b := range branches {
		marks.Visits[b.Branch]++
	}
	return marks, nil
}

func (s *flowShell) draw(f *flows.Flow, svg bool, marks ...flows.Marks) {
	form, draw := "mermaid", flows.Mermaid
	if svg {
		form, draw = "svg", flows.SVG
	}
	text := draw(f, marks...)
	if s.json {
		s.emit(map[string]any{"name": f.Name(), form: text})
		return
	}
	fmt.Fprint(s.Out, text)
}
