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
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) runsCommand() *cobra.Command {
	return group(
		"runs", "List, show and operate on runs",
		s.runsListCommand(), s.runsShowCommand(), s.runsResumeCommand(), s.runsForkCommand(), s.runsCancelCommand(),
		s.runsAnswerCommand("approve", true), s.runsAnswerCommand("deny", false), s.runsAuditCommand(), s.runsPruneCommand(),
		s.runsTailCommand(), s.runsParityCommand(),
	)
}

func (s *shell) runsListCommand() *cobra.Command {
	var repo, parent string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit %d: want 1 or more", limit)
			}
			f := checkpoints.Filter{Limit: max(limit, limit+1)} // one more tells whether there are more
			if repo != "" {
				only, err := forge.ParseRepo(repo)
				if err != nil {
					return usage("--repo: %v", err)
				}
				f.Repo = only.String()
			}
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
				if parent != "" {
					run, err := findRun(c.Context(), r, parent)
					if err != nil {
						return err
					}
					f.Parent = run.ID
				}
				runs, err := r.List(c.Context(), f)
				if err != nil {
					return fmt.Errorf("listing the runs: %w", err)
				}
				if err := s.printRuns(runs[:min(limit, len(runs))]); err != nil || len(runs) <= limit {
					return err
				}
				s.cut("only the newest %s; --limit shows more", markdown.Count(limit, "run"))
				return nil
			})
		},
	}
	c.Flags().StringVar(&repo, "repo", "", "only this repository (owner/name)")
	c.Flags().StringVar(&parent, "parent", "", "only the children of this run")
	c.Flags().IntVar(&limit, "limit", 50, "most runs to show")
	return c
}

// cut says that a list was cut, beside the list, so that what is piped on is
// the list alone.
func (s *shell) cut(format string, args ...any) {
	fmt.Fprintf(s.Err, "pipelinebot: "+format+"\n", args...)
}

// ofStore is the configuration for what is kept of runs: without one nobody
// knows where that is.
func (s *shell) ofStore() (*config.Config, error) {
	cfg, err := config.LoadWithoutSecrets(s.config)
	if errors.Is(err, config.ErrNoFile) {
		return nil, usage("this needs the store of the runs, and the configuration says where that is: %w", err)
	}
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	return cfg, nil
}

// withReader opens the store to read; no credential is needed for that.
func (s *shell) withReader(ctx context.Context, f func(app.Reader, *config.Config) error) error {
	cfg, err := s.ofStore()
	if err != nil {
		return err
	}
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return f(r, cfg)
}

// withDesk opens the store for an operator's command about a run; no
// credential is needed for that, the daemon has them.
func (s *shell) withDesk(ctx context.Context, id string, open func(context.Context, *config.Config) (*app.Desk, error), f func(*app.Desk, checkpoints.Run) error) error {
	cfg, err := s.ofStore()
	if err != nil {
		return err
	}
	d, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	run, err := findRun(ctx, d, id)
	if err != nil {
		return err
	}
	return f(d, run)
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
	fmt.Fprintln(w, "RUN\tISSUE\tPHASE\tFLOW\tROUND\tSTATUS\tRESULT\tAT\tCOST\tSTARTED")
	for _, r := range runs {
		at := r.Next
		if r.Status.Final() {
			at = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.ID, issueOf(r), r.Phase, r.Flow+kindOf(r), r.Round, r.Status,
			orDash(r.Result), orDash(at), dollars(r.Spent.MicroUSD), moment(r.Created))
	}
	return w.Flush()
}

func issueOf(r checkpoints.Run) string { return fmt.Sprintf("%s#%d", r.Repo, r.Issue) }

// kindOf tells what is not an ordinary run of a phase.
func kindOf(r checkpoints.Run) string {
	text := ""
	if r.Parent != "" {
		text += " (child)"
	}
	if r.Forked != "" {
		text += " (fork)"
	}
	if r.Mode != "" {
		text += " (" + r.Mode + ")"
	}
	return text
}
