package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func (s *shell) labelsCommand() *cobra.Command {
	var renames []string
	rename := func(c *cobra.Command) *cobra.Command {
		c.Flags().StringArrayVar(&renames, "rename", nil, "OLD=NEW: rename a label, so that issues keep it; NEW stands in the configuration (repeatable)")
		return c
	}
	sync := &cobra.Command{
		Use: "sync [OWNER/REPO …]", Short: "Create, rename and update the pipeline's labels", Args: cobra.ArbitraryArgs,
		Long: "sync creates the labels that are missing and corrects spelling, colour and\n" +
			"description of the others, in the given repositories or in all of the\n" +
			"configuration. It deletes nothing, and a second run changes nothing. After a\n" +
			"label got another name in the configuration, --rename OLD=NEW renames it on\n" +
			"GitHub.",
		RunE: func(c *cobra.Command, args []string) error {
			changes, err := s.labelChanges(c.Context(), args, renames, app.SyncLabels)
			if err == nil && len(changes) == 0 && !s.json {
				fmt.Fprintln(s.Out, "all labels are there")
			}
			return err
		},
	}
	plan := &cobra.Command{
		Use: "plan [OWNER/REPO …]", Short: "Say what labels sync would do", Args: cobra.ArbitraryArgs,
		Long: "plan says what sync would do, and changes nothing.\n" +
			"Exit codes: 0 there is nothing to do, 1 there is.",
		RunE: func(c *cobra.Command, args []string) error {
			changes, err := s.labelChanges(c.Context(), args, renames, app.PlanLabels)
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				return said("%d labels differ: `pipelinebot labels sync` puts them right", len(changes))
			}
			if !s.json {
				fmt.Fprintln(s.Out, "all labels are there")
			}
			return nil
		},
	}
	return group("labels", "Manage the pipeline's labels", rename(sync), rename(plan))
}

// labelChanges plans or makes the changes and prints them.
func (s *shell) labelChanges(ctx context.Context, args, renames []string,
	do func(context.Context, *config.Config, *slog.Logger, app.LabelOptions) ([]app.LabelChange, error),
) ([]app.LabelChange, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	var o app.LabelOptions
	for _, arg := range args {
		r, err := forge.ParseRepo(arg)
		if err != nil {
			return nil, usage("%v", err)
		}
		o.Repos = append(o.Repos, r)
	}
	for _, r := range renames {
		old, name, ok := strings.Cut(r, "=")
		if old, name = strings.TrimSpace(old), strings.TrimSpace(name); !ok || old == "" || name == "" {
			return nil, usage("--rename %q: want OLD=NEW", r)
		}
		o.Renames = append(o.Renames, app.Rename{Old: old, New: name})
	}
	changes, err := do(ctx, cfg, logger(cfg, s.Err), o)
	for _, ch := range changes {
		switch {
		case s.json:
			s.emit(ch)
		case ch.Was != "":
			fmt.Fprintf(s.Out, "%s: %s %s to %s\n", ch.Repo, ch.Did, ch.Was, ch.Label)
		default:
			fmt.Fprintf(s.Out, "%s: %s %s\n", ch.Repo, ch.Did, ch.Label)
		}
	}
	return changes, err
}
