package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func (s *shell) runsCommand() *cobra.Command {
	var repo string
	var limit int
	list := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f := checkpoints.Filter{Limit: limit}
			if limit < 1 {
				return usage("--limit %d: want 1 or more", limit)
			}
			if repo != "" {
				only, err := forge.ParseRepo(repo)
				if err != nil {
					return usage("--repo: %v", err)
				}
				f.Repo = only.String()
			}
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
				runs, err := r.List(c.Context(), f)
				if err != nil {
					return fmt.Errorf("listing the runs: %w", err)
				}
				return s.printRuns(runs)
			})
		},
	}
	list.Flags().StringVar(&repo, "repo", "", "only this repository (owner/name)")
	list.Flags().IntVar(&limit, "limit", 50, "most runs to show")
	show := &cobra.Command{
		Use: "show RUN", Short: "Show a run and its nodes", Args: cobra.ExactArgs(1),
		Long: "show prints a run with every completed node. RUN is an id, its beginning or its end.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error { return s.showRun(c.Context(), r, args[0]) })
		},
	}
	operate := func(use, short string, kind forge.EventKind) *cobra.Command {
		return &cobra.Command{
			Use: use + " RUN", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				return s.withReader(c.Context(), func(r app.Reader, cfg *config.Config) error {
					return s.operate(c.Context(), cfg, r, args[0], kind)
				})
			},
		}
	}
	return group(
		"runs", "List, show, resume and cancel runs", list, show,
		operate("resume", "Lift the stop of a run's issue and go on", forge.ManualResume),
		operate("cancel", "Cancel a run, its work saved", forge.ManualCancel),
	)
}

// withReader opens the store to read; no credential is needed for that.
func (s *shell) withReader(ctx context.Context, f func(app.Reader, *config.Config) error) error {
	cfg, err := config.LoadWithoutSecrets(s.config)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return f(r, cfg)
}

// findRun is app.FindRun; an id that names no run, or several, is a wrong
// argument.
func findRun(ctx context.Context, r app.Reader, id string) (checkpoints.Run, error) {
	run, err := app.FindRun(ctx, r, id)
	if errors.Is(err, app.ErrNoRun) || errors.Is(err, app.ErrAmbiguous) {
		return run, usage("%v", err)
	}
	return run, err
}

func (s *shell) printRuns(runs []checkpoints.Run) error {
	if s.json {
		for _, r := range runs {
			s.emit(runView(r))
		}
		return nil
	}
	if len(runs) == 0 {
		fmt.Fprintln(s.Out, "no runs")
		return nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tISSUE\tPHASE\tROUND\tSTATUS\tRESULT\tAT\tCOST\tSTARTED")
	for _, r := range runs {
		at := r.Next
		if r.Status.Final() {
			at = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Key, r.Phase, r.Round, r.Status, orDash(r.Result), orDash(at),
			dollars(r.Spent.MicroUSD), moment(r.Created))
	}
	return w.Flush()
}
