package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// runView is a run as JSON, without its definition.
func runView(r checkpoints.Run) map[string]any {
	return map[string]any{
		"id": r.ID, "issue": r.Key, "phase": r.Phase, "round": r.Round, "flow": r.Flow, "lineage": r.Lineage, "status": r.Status,
		"node": r.Node, "next": r.Next, "result": r.Result, "code": r.Code, "reason": r.Reason, "wait": r.Wait, "spent": r.Spent,
		"definition_sha256": r.DefinitionHash, "created": r.Created, "updated": r.Updated,
	}
}

func (s *shell) showRun(ctx context.Context, r app.Reader, id string) error {
	run, err := findRun(ctx, r, id)
	if err != nil {
		return err
	}
	history, err := r.History(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	if s.json {
		v := runView(run)
		v["state"], v["history"] = run.State, history
		s.emit(v)
		return nil
	}
	s.printRun(run)
	return s.printHistory(history)
}

func (s *shell) printRun(run checkpoints.Run) {
	fmt.Fprintf(s.Out, "run      %s\nissue    %s\nphase    %s, round %d (flow %s, sha256 %.12s)\nstarted  %s, last change %s\nstatus   %s\n",
		run.ID, run.Key, run.Phase, run.Round, run.Flow, run.DefinitionHash, moment(run.Created), moment(run.Updated), run.Status)
	if !run.Status.Final() && run.Next != "" {
		fmt.Fprintf(s.Out, "at       %s\n", run.Next)
	}
	if w := run.Wait; w != nil && run.Status == checkpoints.Waiting {
		fmt.Fprintf(s.Out, "waits    %s\n", waiting(*w))
	}
	if run.Result != "" || run.Reason != "" {
		fmt.Fprintf(s.Out, "result   %s\n", ending(run))
	}
	fmt.Fprintf(s.Out, "cost     %s, %s, %s, %s\n\n",
		dollars(run.Spent.MicroUSD), markdown.Count(int(run.Spent.Tokens()), "token"),
		markdown.Count(int(run.Spent.ModelCalls), "model call"), markdown.Count(int(run.Spent.ToolCalls), "tool call"))
}

// waiting says what a parked run waits for.
func waiting(w checkpoints.Wait) string {
	text := "since " + moment(w.Since)
	if w.Event != "" {
		text = "for " + w.Event + ", " + text
	}
	if !w.Until.IsZero() {
		text += ", until " + moment(w.Until)
	}
	if w.Why != "" {
		text += ": " + w.Why
	}
	return text
}

// ending says how a run ended, or why it is halted.
func ending(run checkpoints.Run) string {
	text := orDash(run.Result)
	if run.Code != "" {
		text += " (" + run.Code + ")"
	}
	if run.Reason != "" {
		text += ": " + run.Reason
	}
	return text
}

func (s *shell) printHistory(history []checkpoints.NodeRecord) error {
	w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SEQ\tNODE\tKIND\tVISIT\tOUTCOME\tNEXT\tTOOK\tCOST\tNOTE")
	for _, n := range history {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", n.Seq, n.Node, n.Kind, n.Visit, n.Outcome, orDash(n.Next),
			took(n.Took), dollars(n.Usage.MicroUSD), firstLine(n.Note))
	}
	return w.Flush()
}
