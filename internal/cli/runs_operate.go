package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// decisionTime is how long an operator waits to be told what became of a
// command; without a daemon nobody decides.
const decisionTime = 5 * time.Second

func (s *shell) runsCancelCommand() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "cancel RUN", Short: "Cancel a run, its work saved; children end as they were started to", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return s.withDesk(c.Context(), args[0], app.OpenDesk, func(d *app.Desk, run checkpoints.Run) error {
				if err := stillOpen(run); err != nil {
					return refused(c.Context(), d, run, "cancel", err)
				}
				return s.cancel(c.Context(), d, run, why)
			})
		},
	}
	c.Flags().StringVar(&why, "why", "", "the reason, for the record")
	return c
}

func (s *shell) cancel(ctx context.Context, d *app.Desk, run checkpoints.Run, why string) error {
	row, err := d.Cancel(ctx, run, why)
	if err != nil || row != "" {
		return s.decided(ctx, d, run, row, err)
	}
	if s.json {
		s.emit(map[string]any{"run": run.ID, "event": "", "decision": "cancel", "why": "nobody had claimed the run", "daemon": false})
		return nil
	}
	fmt.Fprintf(s.Out, "cancel: run %s ends; no daemon is running, the next `pipelinebot serve` saves its work and puts the labels right\n", run.ID)
	return nil
}

// refused records on the run that what was asked for cannot be done, and
// passes the reason on.
func refused(ctx context.Context, d *app.Desk, run checkpoints.Run, what string, why error) error {
	if !classified(why) {
		return why // nobody has refused, something broke
	}
	return errors.Join(why, d.Refused(ctx, run, what, why))
}

func (s *shell) runsResumeCommand() *cobra.Command {
	var from string
	var accept bool
	c := &cobra.Command{
		Use: "resume RUN", Short: "Lift the stop of a run's issue and go on", Args: cobra.ExactArgs(1),
		Long: "resume lifts the stop of the run's issue, if there is one, and lets a halted run\n" +
			"go on behind its last completed node. A run that this program, or this\n" +
			"configuration, would walk otherwise than it began is not resumed unless\n" +
			"--accept-drift: then its frozen flow goes on with the actions of this program;\n" +
			"see `runs audit`. With --from a run that is over begins again at that node, as a\n" +
			"new run that is linked to it: `runs fork` without edits.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.withDesk(c.Context(), args[0], app.OpenDesk, func(d *app.Desk, run checkpoints.Run) error {
				if from != "" {
					return s.fork(c.Context(), d, run, from, nil)
				}
				if err := stillOpen(run); err != nil {
					return refused(c.Context(), d, run, "resume", err)
				}
				if err := s.checkDrift(c.Context(), d, run, accept); err != nil {
					return refused(c.Context(), d, run, "resume", err)
				}
				row, err := d.Order(c.Context(), run, forge.ManualResume, forge.Order{}, "resume", "")
				return s.decided(c.Context(), d, run, row, err)
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "begin again at this node, as a new run")
	c.Flags().BoolVar(&accept, "accept-drift", false, "go on although the flow or its actions changed")
	return c
}

// checkDrift refuses to resume what would not go on as it began, unless the
// operator accepts it.
func (s *shell) checkDrift(ctx context.Context, d *app.Desk, run checkpoints.Run, accept bool) error {
	a, err := d.Audit(ctx, run)
	if err != nil {
		return err
	}
	reasons := strings.Join(a.Reasons, "; ")
	switch {
	case a.Action == engine.Resume:
		return nil
	case a.Action == engine.Refuse || a.Snapshot == engine.Missing || !fits(d, run):
		return said("run %s cannot be resumed: %s; %s", run.ID, reasons, strings.Join(advice(run, a, false), "; "))
	case !accept:
		return said("run %[1]s has drifted: %[2]s; --accept-drift goes on with its frozen flow all the same, `pipelinebot runs audit %[1]s` tells of other ways", run.ID, reasons)
	case run.Status == checkpoints.Running || run.Status == checkpoints.Ending:
		return &exitError{ExitBusy, fmt.Errorf("run %s is at work", run.ID)}
	}
	if err := d.AcceptDrift(ctx, run); errors.Is(err, checkpoints.ErrBusy) {
		return &exitError{ExitBusy, err}
	} else if err != nil {
		return said("%v", err)
	}
	return nil
}

func (s *shell) runsForkCommand() *cobra.Command {
	var from string
	var set []string
	c := &cobra.Command{
		Use: "fork RUN --from NODE", Short: "Start a new run from a node of one that is over", Args: cobra.ExactArgs(1),
		Long: "fork starts a run of the same frozen flow that begins at NODE, with the state as\n" +
			"it was when NODE was last entered. --set KEY=VALUE changes it; VALUE is JSON, or\n" +
			"text where that is no JSON, and `null` unsets. The original is not touched.",
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return usage("--from is needed: the node to begin at; `pipelinebot runs show %s` names them", args[0])
			}
			edits, err := settings(set)
			if err != nil {
				return err
			}
			return s.withDesk(c.Context(), args[0], app.OpenDesk, func(d *app.Desk, run checkpoints.Run) error {
				return s.fork(c.Context(), d, run, from, edits)
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "the node to begin at")
	c.Flags().StringArrayVar(&set, "set", nil, "KEY=VALUE, a change of the state")
	return c
}

// settings reads KEY=VALUE.
func settings(set []string) (map[string]json.RawMessage, error) {
	edits := map[string]json.RawMessage{}
	for _, one := range set {
		key, text, ok := strings.Cut(one, "=")
		if !ok || key == "" {
			return nil, usage("--set %q: want KEY=VALUE", one)
		}
		if _, twice := edits[key]; twice {
			return nil, usage("--set %s is given twice", key)
		}
		if json.Valid([]byte(text)) {
			edits[key] = json.RawMessage(text)
			continue
		}
		encoded, err := json.Marshal(text)
		if err != nil {
			return nil, usage("--set %s: %v", key, err)
		}
		edits[key] = encoded
	}
	return edits, nil
}

func (s *shell) fork(ctx context.Context, d *app.Desk, run checkpoints.Run, from string, edits map[string]json.RawMessage) error {
	if err := forkable(ctx, d, run, from, edits); err != nil {
		return refused(ctx, d, run, "fork", err)
	}
	why := "from " + from
	for key, value := range edits {
		why += fmt.Sprintf(", %s=%s", key, value)
	}
	row, err := d.Order(ctx, run, forge.ManualFork, forge.Order{Node: from, Set: edits}, "fork", why)
	return s.decided(ctx, d, run, row, err)
}

func forkable(ctx context.Context, d *app.Desk, run checkpoints.Run, from string, edits map[string]json.RawMessage) error {
	switch {
	case run.Parent != "":
		return usage("run %s is a child: fork its parent, run %s, from the node %s", run.ID, run.Parent, run.ParentNode)
	case !run.Status.Final():
		return &exitError{ExitBusy, fmt.Errorf("run %s is open (%s): cancel it first", run.ID, run.Status)}
	}
	if err := d.CheckFork(ctx, run, from, edits); err != nil {
		return usage("%v", err)
	}
	return nil
}

func (s *shell) runsAnswerCommand(use string, yes bool) *cobra.Command {
	var note string
	short := "Let a run that waits for an approval go on"
	if !yes {
		short = "Turn down what a run asks approval for"
	}
	c := &cobra.Command{
		Use: use + " RUN", Short: short, Args: cobra.ExactArgs(1),
		Long: short + ",\n" +
			"as the operator of this machine, who always may. When RUN waits for a child of\n" +
			"it that asks, the child is answered.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.withDesk(c.Context(), args[0], app.OpenDesk, func(d *app.Desk, run checkpoints.Run) error {
				if err := stillOpen(run); err != nil {
					return refused(c.Context(), d, run, use, err)
				}
				asked, err := d.Asked(c.Context(), run)
				if errors.Is(err, app.ErrNotAsked) {
					return refused(c.Context(), d, run, use, said("%v", err))
				}
				if err != nil {
					return err
				}
				if err := d.Answer(c.Context(), asked, yes, note); err != nil {
					return err
				}
				if s.json {
					s.emit(map[string]any{"run": asked.ID, "node": asked.Next, "answer": use, "by": app.Operator()})
					return nil
				}
				answered := "approved"
				if !yes {
					answered = "denied"
				}
				fmt.Fprintf(s.Out, "%s: run %s, which asked: %s\na running `pipelinebot serve` goes on with it\n", answered, asked.ID, asked.Wait.Why)
				return nil
			})
		},
	}
	c.Flags().StringVar(&note, "note", "", "a remark, kept with the answer")
	return c
}

// stillOpen refuses what makes no sense with a run that is over.
func stillOpen(run checkpoints.Run) error {
	if run.Status.Final() {
		return said("run %s is over (%s)", run.ID, run.Status)
	}
	return nil
}

// decided says what became of an operator's command when a daemon is there to
// decide.
func (s *shell) decided(ctx context.Context, d *app.Desk, run checkpoints.Run, row string, err error) error {
	if err != nil {
		return err
	}
	served, err := d.Served()
	if err != nil {
		return err
	}
	limit := decisionTime
	if !served {
		limit = 0 // nobody is there to decide
	}
	got, err := app.AwaitDecision(ctx, d, row, limit)
	if err != nil {
		return err
	}
	if s.json {
		s.emit(map[string]any{"run": run.ID, "event": row, "decision": got.Decision, "why": got.Explanation, "daemon": served})
	}
	switch what := labels.Action(got.Decision); {
	case what == labels.Ignore, what == labels.Refuse:
		return said("%s: %s", got.Decision, got.Explanation)
	case s.json:
	case got.Decision == "" && !served:
		fmt.Fprintf(s.Out, "noted as %s; no daemon is running, the next `pipelinebot serve` carries it out\n", row)
	case got.Decision == "":
		fmt.Fprintf(s.Out, "noted as %s; a running `pipelinebot serve` carries it out\n", row)
	default:
		fmt.Fprintf(s.Out, "%s: %s\n", got.Decision, got.Explanation)
	}
	return nil
}
