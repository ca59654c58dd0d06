package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
)

func (s *shell) runsTailCommand() *cobra.Command {
	var follow bool
	var lines int
	c := &cobra.Command{
		Use: "tail [RUN]", Short: "Print the last completed nodes, of all runs or of one and its children", Args: cobra.MaximumNArgs(1),
		Long: "tail prints the last completed nodes and endings. With -f it goes on printing as\n" +
			"they happen: of one run until it is over, of all until interrupted.",
		RunE: func(c *cobra.Command, args []string) error {
			if lines < 0 {
				return usage("--lines cannot be below 0")
			}
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
				id := ""
				if len(args) == 1 {
					run, err := findRun(c.Context(), r, args[0])
					if err != nil {
						return err
					}
					id = run.ID
				}
				return s.tail(c.Context(), r, id, lines, follow)
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing")
	c.Flags().IntVarP(&lines, "lines", "n", 20, "how many nodes to begin with")
	return c
}

func (s *shell) tail(ctx context.Context, r app.Reader, id string, lines int, follow bool) error {
	t := app.NewTail(r, id)
	first := true
	for {
		news, over, err := t.Next(ctx)
		if err != nil {
			return err
		}
		if first {
			news = news[max(0, len(news)-lines):]
			first = false
		}
		for _, n := range news {
			s.printNews(n)
		}
		if !follow || over {
			return nil
		}
		if app.Pause(ctx) != nil {
			return nil //nolint:nilerr // interrupted, as following ends
		}
	}
}

func (s *shell) printNews(n app.News) {
	if s.json {
		v := map[string]any{"run": n.Run.ID, "issue": issueOf(n.Run), "phase": n.Run.Phase, "flow": n.Run.Flow, "at": n.At}
		if n.Node != nil {
			v["node"] = n.Node
		} else {
			v["status"], v["result"], v["code"], v["reason"] = n.Run.Status, n.Run.Result, n.Run.Code, n.Run.Reason
		}
		s.emit(v)
		return
	}
	if n.Node != nil {
		fmt.Fprintf(s.Out, "%s  %-20s %-10s %-16s %-8s %8s  %s\n", moment(n.At), issueOf(n.Run), n.Run.Flow, n.Node.Node, n.Node.Outcome,
			took(n.Node.Took), firstLine(n.Node.Note))
		return
	}
	text := ending(n.Run)
	if w := n.Run.Wait; n.Run.Status == checkpoints.Waiting && w != nil {
		text = waiting(*w)
	}
	fmt.Fprintf(s.Out, "%s  %-20s %-10s → %s: %s\n", moment(n.At), issueOf(n.Run), n.Run.Flow, n.Run.Status, firstLine(text))
}
