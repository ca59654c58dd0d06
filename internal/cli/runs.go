package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

func (s *shell) runsCommand() *cobra.Command {
	var repo string
	var limit int
	list := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return s.withReader(c.Context(), func(r app.Reader) error {
				runs, err := r.List(c.Context(), checkpoints.Filter{Repo: repo, Limit: limit})
				if err != nil {
					return err
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
			return s.withReader(c.Context(), func(r app.Reader) error { return s.showRun(c.Context(), r, args[0]) })
		},
	}
	operate := func(use, short string, kind forge.EventKind) *cobra.Command {
		return &cobra.Command{
			Use: use + " RUN", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return s.operate(c.Context(), args[0], kind) },
		}
	}
	return group(
		"runs", "List, show, resume and cancel runs", list, show,
		operate("resume", "Lift the stop of a run's issue and go on", forge.ManualResume),
		operate("cancel", "Cancel a run, its work saved", forge.ManualCancel),
	)
}

func (s *shell) withReader(ctx context.Context, f func(app.Reader) error) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return f(r)
}

func (s *shell) printRuns(runs []checkpoints.Run) error {
	if s.json {
		for _, r := range runs {
			s.emit(runView(r))
		}
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
			dollars(r.Spent.MicroUSD), r.Created.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// runView is a run as JSON, without its definition.
func runView(r checkpoints.Run) map[string]any {
	return map[string]any{
		"id": r.ID, "issue": r.Key, "phase": r.Phase, "round": r.Round, "flow": r.Flow, "lineage": r.Lineage, "status": r.Status,
		"node": r.Node, "next": r.Next, "result": r.Result, "code": r.Code, "reason": r.Reason, "wait": r.Wait, "spent": r.Spent,
		"definition_sha256": r.DefinitionHash, "created": r.Created, "updated": r.Updated,
	}
}

func (s *shell) showRun(ctx context.Context, r app.Reader, id string) error {
	run, err := app.FindRun(ctx, r, id)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return usage("%v", err)
	}
	if err != nil {
		return err
	}
	history, err := r.History(ctx, run.ID)
	if err != nil {
		return err
	}
	if s.json {
		v := runView(run)
		v["state"], v["history"] = run.State, history
		s.emit(v)
		return nil
	}
	fmt.Fprintf(s.Out, "run      %s\nissue    %s\nphase    %s, round %d (flow %s, sha256 %.12s)\nstatus   %s\n",
		run.ID, run.Key, run.Phase, run.Round, run.Flow, run.DefinitionHash, run.Status)
	if run.Wait != nil {
		fmt.Fprintf(s.Out, "waits    for %s since %s; %s\n", orDash(run.Wait.Event), run.Wait.Since.Local().Format(time.DateTime), run.Wait.Why)
	}
	if run.Result != "" || run.Reason != "" {
		fmt.Fprintf(s.Out, "result   %s (%s): %s\n", orDash(run.Result), orDash(run.Code), run.Reason)
	}
	fmt.Fprintf(s.Out, "cost     %s, %d tokens, %d model calls, %d tool calls\n\n", dollars(run.Spent.MicroUSD), run.Spent.Tokens(), run.Spent.ModelCalls, run.Spent.ToolCalls)
	w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SEQ\tNODE\tKIND\tVISIT\tOUTCOME\tNEXT\tTOOK\tCOST\tNOTE")
	for _, n := range history {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", n.Seq, n.Node, n.Kind, n.Visit, n.Outcome, orDash(n.Next),
			n.Took.Round(time.Millisecond), dollars(n.Usage.MicroUSD), n.Note)
	}
	return w.Flush()
}

// operate sends an operator's event about a run and says what became of it
// when a daemon is there to decide.
func (s *shell) operate(ctx context.Context, id string, kind forge.EventKind) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	run, err := app.FindRun(ctx, r, id)
	if err != nil {
		return usage("%v", err)
	}
	if run.Status.Final() {
		return said("run %s is over (%s)", run.ID, run.Status)
	}
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return err
	}
	row, err := app.Send(ctx, cfg, forge.Event{Kind: kind, Issue: ref})
	if err != nil {
		return err
	}
	decided, err := app.AwaitDecision(ctx, r, row, 5*time.Second)
	if err != nil {
		return err
	}
	if s.json {
		s.emit(map[string]any{"run": run.ID, "event": row, "decision": decided.Decision, "why": decided.Explanation})
		return nil
	}
	if decided.Decision == "" {
		fmt.Fprintf(s.Out, "noted as %s; a running `pipelinebot serve` carries it out\n", row)
		return nil
	}
	fmt.Fprintf(s.Out, "%s: %s\n", decided.Decision, decided.Explanation)
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// dollars prints millionths of a dollar.
func dollars(micro int64) string {
	if micro == 0 {
		return "$0"
	}
	return fmt.Sprintf("$%.4f", float64(micro)/1e6)
}
