package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/flowscript"
)

func (s *flowShell) rehearseCommand() *cobra.Command {
	var script string
	c := &cobra.Command{
		Use: "run NAME --script FILE", Short: "Rehearse a flow by a script, without the world", Args: cobra.ExactArgs(1),
		Long: "run walks a flow as the daemon would, but every action's result, every event and\n" +
			"the passing of time come from a script: no network, no model, no command. NAME\n" +
			"is a flow or a file.\n\n" +
			"Exit codes: 0 as the script expects, 1 otherwise or the flow ended in an error,\n" +
			"2 the script does not fit the flow.",
		RunE: func(c *cobra.Command, args []string) error {
			if script == "" {
				return usage("--script is needed: what each node returns; to work on an issue use `pipelinebot run OWNER/REPO#N --flow %s`", args[0])
			}
			f, reg, err := s.winner(args[0])
			if err != nil {
				return err
			}
			src, err := s.read("script", script)
			if err != nil {
				return err
			}
			parsed, err := flowscript.Load(script, src)
			if err != nil {
				return &exitError{ExitUsage, err}
			}
			rep, wrong := flowscript.Run(c.Context(), f, reg, parsed)
			switch {
			case rep.Flow == "": // it never began
			case s.json:
				s.emit(rep)
			default:
				fmt.Fprint(s.Out, rep)
			}
			if wrong != nil {
				return &exitError{ExitUsage, wrong}
			}
			switch {
			case !rep.OK():
				return said("the flow did not go as the script expects")
			case rep.Result == "error" && parsed.Expect == nil:
				return said("the flow ended in an error: %s", rep.Reason)
			}
			return nil
		},
	}
	c.Flags().StringVar(&script, "script", "", "the script, YAML")
	return c
}
