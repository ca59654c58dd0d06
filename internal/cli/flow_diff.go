package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/flowops"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *flowShell) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff RUN RUN", Short: "Compare what two runs did", Args: cobra.ExactArgs(2),
		Long: "diff compares two runs: whether they froze the same definition, their paths,\n" +
			"what each node returned, their endings and final states. No model is asked.\n\n" +
			"Exit codes: 0 identical, 1 they differ.",
		RunE: func(c *cobra.Command, args []string) error {
			a, b, err := s.twoRuns(c.Context(), args)
			if err != nil {
				return err
			}
			got := flowops.Diff(a, b)
			if s.json {
				s.emit(got)
			} else {
				same := "different definitions"
				if got.SameDefinition {
					same = "the same definition"
				}
				fmt.Fprintf(s.Out, "- %s\n+ %s\n%s\n", a.Run.ID, b.Run.ID, same)
				s.printDifferences(got.Differences)
				if got.Same {
					fmt.Fprintln(s.Out, "identical")
				}
			}
			if !got.Same {
				return said("the runs differ in %s", markdown.Count(len(got.Differences), "point"))
			}
			return nil
		},
	}
}
