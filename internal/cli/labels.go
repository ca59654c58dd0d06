package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func (s *shell) labelsCommand() *cobra.Command {
	sync := &cobra.Command{
		Use: "sync [OWNER/REPO …]", Short: "Create and update the pipeline's labels", Args: cobra.ArbitraryArgs,
		Long: "sync creates the labels that are missing and corrects colour and description of\n" +
			"the others, in the given repositories or in all of the configuration. It deletes\n" +
			"nothing, and a second run changes nothing.",
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			var repos []forge.Repo
			for _, arg := range args {
				r, err := forge.ParseRepo(arg)
				if err != nil {
					return usage("%v", err)
				}
				repos = append(repos, r)
			}
			changes, err := app.SyncLabels(c.Context(), cfg, logger(cfg, s.Err), repos)
			for _, ch := range changes {
				if s.json {
					s.emit(ch)
				} else {
					fmt.Fprintf(s.Out, "%s: %s %s\n", ch.Repo, ch.Did, ch.Label)
				}
			}
			if err == nil && len(changes) == 0 && !s.json {
				fmt.Fprintln(s.Out, "all labels are there")
			}
			return err
		},
	}
	return group("labels", "Manage the pipeline's labels", sync)
}
