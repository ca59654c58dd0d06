package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) runsShowCommand() *cobra.Command {
	var why bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show a run: its nodes, branches and children", Args: cobra.ExactArgs(1),
		Long: "show prints a run with every completed node, finished branch and child run. With\n" +
			"--why it also prints each guard that was looked at with its value, and why the\n" +
			"nodes were skipped that it did not enter. RUN is an id, its beginning or its\n" +
			"end.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.withDesk(c.Context(), args[0], app.OpenAudit, func(d *app.Desk, run checkpoints.Run) error {
				return s.showRun(c.Context(), d, run, why)
			})
		},
	}
	c.Flags().BoolVar(&why, "why", false, "explain each edge taken and each node skipped")
	return c
}

// runView is a run as JSON, without its definition.
func runView(r checkpoints.Run) map[string]any {
	v := map[string]any{
		"id": r.ID, "issue": issueOf(r), "phase": r.Phase, "round": r.Round, "flow": r.Flow, "lineage": r.Lineage, "status": r.Status,
		"node": r.Node, "next": r.Next, "result": r.Result, "code": r.Code, "reason": r.Reason, "wait": r.Wait, "spent": r.Spent,
		"definition_sha256": r.DefinitionHash, "created": r.Created, "updated": r.Updated,
	}
	for key, text := range map[string]string{
		"parent": r.Parent, "parent_node": r.ParentNode, "close": r.Close, "forked": r.Forked, "forked_at": r.ForkedAt, "mode": r.Mode,
		"concurrency": r.Concurrency, "on_conflict": r.OnConflict, "replaces": r.Replaces,
	} {
		if text != "" {
			v[key] = text
		}
	}
	return v
}

// maxChildren is how many children are shown.
const maxChildren = 100

// shown is all that is known of a run.
type shown struct {
	history  []checkpoints.NodeRecord
	branches []checkpoints.BranchRecord
	children []checkpoints.Run
	more     bool // there are more children
	audits   []checkpoints.AuditLine
	skipped  []skip
}

// skip is a node that a run has not completed, with the reasons.
type skip struct {
	Node string   `json:"node"`
	Why  []string `json:"why"`
}

func (s *shell) showRun(ctx context.Context, d *app.Desk, run checkpoints.Run, why bool) error {
	all, err := gather(ctx, d, run, why)
	if err != nil {
		return err
	}
	if s.json {
		v := runView(run)
		v["state"], v["history"], v["branches"], v["audit"] = run.State, listed(all.history), listed(all.branches), auditViews(all.audits)
		children := []map[string]any{}
		for _, child := range all.children {
			children = append(children, runView(child))
		}
		v["children"] = children
		if why {
			v["skipped"] = listed(all.skipped)
		}
		s.emit(v)
		s.cutChildren(run, all)
		return nil
	}
	s.printRun(run)
	if err := s.printHistory(all, why); err != nil {
		return err
	}
	if len(all.children) > 0 {
		fmt.Fprintln(s.Out, "\nchildren")
		if err := s.printRuns(all.children); err != nil {
			return err
		}
	}
	if why && len(all.skipped) > 0 {
		fmt.Fprintln(s.Out, "\nskipped")
		for _, skip := range all.skipped {
			fmt.Fprintf(s.Out, "  %s: %s\n", skip.Node, strings.Join(skip.Why, "; "))
		}
	}
	s.printAudits(all.audits)
	s.cutChildren(run, all)
	return nil
}

// cutChildren says that not all children are shown.
func (s *shell) cutChildren(run checkpoints.Run, all shown) {
	if all.more {
		s.cut("only the newest %d children; `pipelinebot runs list --parent %s --limit N` shows more", maxChildren, run.ID)
	}
}

// listed is a list that JSON shows as one, also when it is empty.
func listed[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func gather(ctx context.Context, d *app.Desk, run checkpoints.Run, why bool) (all shown, err error) {
	if all.history, err = d.History(ctx, run.ID); err != nil {
		return all, fmt.Errorf("reading the nodes of run %s: %w", run.ID, err)
	}
	if all.branches, err = d.Branches(ctx, run.ID); err != nil {
		return all, fmt.Errorf("reading the branches of run %s: %w", run.ID, err)
	}
	if all.children, err = d.List(ctx, checkpoints.Filter{Parent: run.ID, Limit: maxChildren + 1}); err != nil {
		return all, fmt.Errorf("reading the children of run %s: %w", run.ID, err)
	}
	if all.more = len(all.children) > maxChildren; all.more {
		all.children = all.children[:maxChildren]
	}
	if all.audits, err = d.Audits(ctx, run.ID); err != nil {
		return all, fmt.Errorf("reading the audit of run %s: %w", run.ID, err)
	}
	if why {
		f, err := d.Frozen(run)
		if err != nil {
			return all, said("the flow of run %s cannot be read: %v", run.ID, err)
		}
		for _, e := range engine.Explain(f, all.history, all.branches...) {
			if e.Visits == 0 {
				all.skipped = append(all.skipped, skip{e.Node, listed(e.Why)})
			}
		}
	}
	return all, nil
}

// auditViews are audit lines as JSON.
func auditViews(lines []checkpoints.AuditLine) []map[string]any {
	views := []map[string]any{}
	for _, a := range lines {
		views = append(views, map[string]any{"by": a.By, "what": a.What, "why": a.Why, "at": a.At})
	}
	return views
}

func (s *shell) printAudits(lines []checkpoints.AuditLine) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(s.Out, "\noperators")
	for _, a := range lines {
		fmt.Fprintf(s.Out, "  %s  %s: %s", moment(a.At), a.By, a.What)
		if a.Why != "" {
			fmt.Fprintf(s.Out, " (%s)", oneLine(a.Why))
		}
		fmt.Fprintln(s.Out)
	}
}

func (s *shell) printRun(run checkpoints.Run) {
	fmt.Fprintf(s.Out, "run      %s\nissue    %s\nphase    %s, round %d (flow %s, sha256 %.12s)\nstarted  %s, last change %s\nstatus   %s\n",
		run.ID, issueOf(run), run.Phase, run.Round, run.Flow, run.DefinitionHash, moment(run.Created), moment(run.Updated), run.Status)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(s.Out, "%-9s"+format+"\n", append([]any{name}, args...)...)
	}
	if run.Parent != "" {
		line("parent", "run %s, node %s; when it ends: %s", run.Parent, run.ParentNode, run.Close)
	}
	if run.Forked != "" {
		line("fork", "of run %s, from %s", run.Forked, run.ForkedAt)
	}
	if run.Mode != "" {
		line("mode", "%s: nothing is written outside", run.Mode)
	}
	if run.Concurrency != "" {
		line("lines up", "by %q, %s", run.Concurrency, run.OnConflict)
	}
	if !run.Status.Final() && run.Next != "" {
		line("at", "%s", run.Next)
	}
	if w := run.Wait; w != nil && run.Status == checkpoints.Waiting {
		line("waits", "%s", waiting(*w))
	}
	switch {
	case run.Result != "":
		line("result", "%s", ending(run))
	case run.Code != "" || run.Reason != "":
		line("reason", "%s", ending(run))
	}
	fmt.Fprintf(s.Out, "cost     %s, %s, %s, %s\n\n", dollars(run.Spent.MicroUSD), markdown.Count(int(run.Spent.Tokens()), "token"),
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
	text := run.Result
	switch {
	case text == "":
		text = run.Code
	case run.Code != "" && run.Code != text:
		text += " (" + run.Code + ")"
	}
	switch {
	case text == "":
		return orDash(run.Reason)
	case run.Reason != "":
		text += ": " + run.Reason
	}
	return text
}

// printHistory prints a table of nodes. What explains one stands below its
// row, outside the table, so that it does not widen the columns.
func (s *shell) printHistory(all shown, why bool) error {
	if len(all.history) == 0 {
		fmt.Fprintln(s.Out, "no node is completed yet")
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SEQ\tNODE\tKIND\tVISIT\tOUTCOME\tNEXT\tTOOK\tCOST\tNOTE")
	below := map[int]string{} // by row
	rows := 1
	for _, n := range all.history {
		for _, b := range all.branches {
			if b.Fanout == n.Node && b.Visit == n.Visit {
				fmt.Fprintf(w, "\t  %s\tbranch\t%d\t%s\t\t%s\t%s\t%s\n", b.Branch, b.Visit, b.Outcome, took(b.Took), dollars(b.Usage.MicroUSD), firstLine(b.Note))
				rows++
			}
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", n.Seq, n.Node, n.Kind, n.Visit, n.Outcome, orDash(n.Next),
			took(n.Took), dollars(n.Usage.MicroUSD), firstLine(n.Note))
		if why && len(n.Guards) > 0 {
			below[rows] = guards(n.Guards)
		}
		rows++
	}
	if err := w.Flush(); err != nil || rows == 1 {
		return err
	}
	row := 0
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(s.Out, strings.TrimRight(line, " \n"))
		if text := below[row]; text != "" {
			fmt.Fprintf(s.Out, "       %s\n", text)
		}
		row++
	}
	return nil
}

// guards says what every edge that was looked at came to.
func guards(looked []checkpoints.Guard) string {
	var parts []string
	for _, g := range looked {
		text := "→ " + g.To
		if g.When != "" {
			text += fmt.Sprintf(" when %s, which is %v", g.When, g.Taken)
		}
		if g.Taken {
			text += " (taken)"
		}
		parts = append(parts, text)
	}
	return "why: " + strings.Join(parts, "; ")
}
