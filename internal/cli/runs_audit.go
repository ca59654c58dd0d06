package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) runsAuditCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "audit [RUN]", Short: "Say whether a run can be resumed, and what operators did", Args: cobra.MaximumNArgs(1),
		Long: "Without RUN audit lists what operators asked for lately, with what came of it,\n" +
			"and what was pruned. With RUN it compares what a run has frozen with this\n" +
			"program and these flows: frozen, drifted, missing or corrupt; complete or\n" +
			"partial; and what follows: resume, repair, rebuild or refuse. Nothing is\n" +
			"changed.\n\n" +
			"Exit codes: 0 it can be resumed as it is, 1 it cannot.",
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit %d: want 1 or more", limit)
			}
			if len(args) == 0 {
				return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error { return s.acts(c.Context(), r, limit) })
			}
			return s.withDesk(c.Context(), args[0], app.OpenAudit, func(d *app.Desk, run checkpoints.Run) error {
				return s.audit(c.Context(), d, run)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 100, "without RUN, how many to show")
	return c
}

// lookedThrough is how many rows of the inbox are searched for what operators
// did.
const lookedThrough = 10_000

// acts prints what operators did lately, oldest first.
func (s *shell) acts(ctx context.Context, r app.Reader, limit int) error {
	acts, err := app.Acts(ctx, r, lookedThrough)
	if err != nil {
		return err
	}
	if more := len(acts) - limit; more > 0 {
		acts = acts[:limit]
		defer s.cut("and %d before that; --limit shows more", more)
	}
	for _, a := range slices.Backward(acts) {
		if s.json {
			s.emit(a)
			continue
		}
		about := cmp.Or(strings.TrimSpace(a.Issue+" "+a.Run), "the store")
		fmt.Fprintf(s.Out, "%s  %s: %s, %s: %s", moment(a.At), orDash(a.By), a.What, about, cmp.Or(a.Decision, "not decided yet"))
		if a.Why != "" {
			fmt.Fprintf(s.Out, " (%s)", oneLine(a.Why))
		}
		fmt.Fprintln(s.Out)
	}
	if len(acts) == 0 && !s.json {
		fmt.Fprintln(s.Out, "operators did nothing lately")
	}
	return nil
}

func (s *shell) audit(ctx context.Context, d *app.Desk, run checkpoints.Run) error {
	a, err := d.Audit(ctx, run)
	if err != nil {
		return err
	}
	lines, err := d.Audits(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("reading the audit of run %s: %w", run.ID, err)
	}
	ways := []string{}
	if a.Action != engine.Resume {
		ways = advice(run, a, fits(d, run))
	}
	if s.json {
		s.emit(map[string]any{
			"run": run.ID, "status": run.Status, "snapshot": a.Snapshot, "coverage": a.Coverage, "action": a.Action,
			"reasons": listed(a.Reasons), "advice": ways, "operators": auditViews(lines),
		})
	} else {
		s.printAudit(run, a, ways)
		s.printAudits(lines)
	}
	if a.Action != engine.Resume {
		return said("run %s can't be resumed as it is", run.ID)
	}
	return nil
}

func (s *shell) printAudit(run checkpoints.Run, a engine.Audit, ways []string) {
	mean := meanings()
	if run.Status.Final() {
		mean[engine.Resume] = "nothing stands in the way, but it is over; `pipelinebot runs fork` begins at a node of it"
	}
	fmt.Fprintf(s.Out, "run       %s (%s)\n", run.ID, run.Status)
	for _, row := range [][2]string{{"snapshot", a.Snapshot}, {"coverage", a.Coverage}, {"action", a.Action}} {
		fmt.Fprintf(s.Out, "%-9s %s: %s\n", row[0], row[1], mean[row[1]])
	}
	printListed(s.Out, "because", a.Reasons)
	printListed(s.Out, "do", ways)
}

// fits reports that this program can walk the frozen flow of a run, be it
// with actions of other versions. Without, drift can't be accepted.
func fits(d *app.Desk, run checkpoints.Run) bool {
	_, err := d.Frozen(run)
	return err == nil
}

// printListed prints texts below each other, the first beside a name.
func printListed(w io.Writer, name string, all []string) {
	for _, text := range all {
		fmt.Fprintf(w, "%-9s %s\n", name, text)
		name = ""
	}
}

// advice is the ways out for a run that can't be resumed as it is.
func advice(run checkpoints.Run, a engine.Audit, fits bool) []string {
	again := fmt.Sprintf("start the phase %s again, with its label on the issue", run.Phase)
	if run.Parent != "" {
		again = fmt.Sprintf("`pipelinebot runs audit %s` looks at the run that started it", run.Parent)
	}
	cancel := fmt.Sprintf("`pipelinebot runs cancel %s` ends it, its work saved; then %s", run.ID, again)
	hopeless := a.Action == engine.Refuse || a.Snapshot == engine.Missing || !fits
	switch {
	case run.Status.Final() && (hopeless || len(run.Initial) == 0):
		return []string{"nothing can be built on it; " + again}
	case run.Status.Final():
		return []string{fmt.Sprintf("`pipelinebot runs fork %s --from NODE` begins at a node of it, with the actions of this program", run.ID)}
	case hopeless:
		return []string{"this program can't go on with it: " + cancel}
	}
	return []string{
		fmt.Sprintf("`pipelinebot runs resume %s --accept-drift` goes on with its frozen flow and the actions of this program", run.ID),
		"or " + cancel,
	}
}

// meanings are the words of an audit for people.
func meanings() map[string]string {
	return map[string]string{
		engine.Frozen:   "this program would walk it as it was begun",
		engine.Drifted:  "this program, or its flows, are not those that it was begun with",
		engine.Missing:  "it has no frozen definition",
		engine.Corrupt:  "what is on record contradicts itself, or can't be read",
		engine.Complete: "its first state and all its nodes are on record",
		engine.Partial:  "not all of it is on record",
		engine.Resume:   "it can go on as it is",
		engine.Repair:   "its frozen flow can go on, if an operator accepts that the flow has changed since",
		engine.Rebuild:  "it can't go on as it was begun",
		engine.Refuse:   "nothing may be built on it",
	}
}

func (s *shell) runsPruneCommand() *cobra.Command {
	var age time.Duration
	var keep int
	c := &cobra.Command{
		Use: "prune", Short: "Delete old runs that are over", Args: cobra.NoArgs,
		Long: "prune deletes runs that are over for longer than --older-than, with their nodes,\n" +
			"branches, children and audit lines, but for the newest --keep. What runs have\n" +
			"cost stays on record, and so do the definitions of flows.",
		RunE: func(c *cobra.Command, _ []string) error {
			if age < 0 || keep < 0 {
				return usage("--older-than and --keep must not be below 0")
			}
			cfg, err := s.ofStore()
			if err != nil {
				return err
			}
			d, err := app.OpenDesk(c.Context(), cfg)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			n, err := d.Prune(c.Context(), age, keep)
			if err != nil {
				return err
			}
			if s.json {
				s.emit(map[string]any{"deleted": n})
				return nil
			}
			fmt.Fprintf(s.Out, "deleted %s\n", markdown.Count(n, "run"))
			return nil
		},
	}
	c.Flags().DurationVar(&age, "older-than", 90*24*time.Hour, "how long a run must be over")
	c.Flags().IntVar(&keep, "keep", 0, "newest runs to keep whatever their age")
	return c
}

func (s *shell) runsParityCommand() *cobra.Command {
	return &cobra.Command{
		Use: "parity SHADOW REAL", Short: "Compare a shadow run with the real one", Args: cobra.ExactArgs(2),
		Long: "parity says whether a shadow run took the decisions of the real one. What a\n" +
			"shadow cannot know, since it writes nothing outside, is listed and no\n" +
			"disagreement.\n\n" +
			"Exit codes: 0 they agree, 1 they do not.",
		RunE: func(c *cobra.Command, args []string) error {
			g, err := s.parity(c.Context(), args)
			if err != nil {
				return err
			}
			if s.json {
				s.emit(g)
			} else {
				s.printDifferences(g.Differences)
				if len(g.Undone) > 0 {
					fmt.Fprintln(s.Out, "not known to a shadow, which writes nothing outside:")
					s.printDifferences(g.Undone)
				}
			}
			if !g.Agrees {
				return said("the shadow differs from the real run in %s", markdown.Count(len(g.Differences), "point"))
			}
			if !s.json {
				fmt.Fprintln(s.Out, "they agree")
			}
			return nil
		},
	}
}

// parity compares two runs, and what they did outside.
func (s *shell) parity(ctx context.Context, ids []string) (g flowops.Agreement, err error) {
	a, b, err := s.twoRuns(ctx, ids)
	if err != nil {
		return g, err
	}
	if a.Run.Mode != checkpoints.ModeShadow {
		return g, usage("run %s is no shadow; start one with `pipelinebot run OWNER/REPO#N --shadow`", a.Run.ID)
	}
	g = flowops.Parity(a, b)
	err = s.withDesk(ctx, a.Run.ID, app.OpenAudit, func(d *app.Desk, _ checkpoints.Run) error {
		effects, err := d.EffectParity(ctx, a.Run, b.Run)
		for _, e := range effects {
			g.Differences = append(g.Differences, flowops.Difference{What: e.What, Where: e.Where, A: e.Shadow, B: e.Real})
		}
		g.Agrees = g.Agrees && len(effects) == 0
		return err
	})
	return g, err
}

// twoRuns reads two runs with what they did.
func (s *shell) twoRuns(ctx context.Context, ids []string) (a, b flowops.Record, err error) {
	err = s.withReader(ctx, func(r app.Reader, _ *config.Config) error {
		for i, into := range []*flowops.Record{&a, &b} {
			if into.Run, err = findRun(ctx, r, ids[i]); err != nil {
				return err
			}
			if into.History, err = r.History(ctx, into.Run.ID); err != nil {
				return fmt.Errorf("reading the nodes of run %s: %w", into.Run.ID, err)
			}
		}
		return nil
	})
	return a, b, err
}

func (s *shell) printDifferences(all []flowops.Difference) {
	for _, d := range all {
		where := d.What
		if d.Where != "" {
			where += " " + d.Where
		}
		fmt.Fprintf(s.Out, "%s\n  - %s\n  + %s\n", where, orDash(d.A), orDash(d.B))
	}
}
