package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// runFlags are the flags of `run`.
type runFlags struct {
	phase, flow string
	shadow      bool
}

func (s *shell) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run OWNER/REPO#N", Short: "Start a phase or a flow for one issue and follow it", Args: cobra.ExactArgs(1),
		Long: "run starts a phase as an operator, follows the issue and returns when the\n" +
			"pipeline is through, waits for a person, or is halted. With a running\n" +
			"`pipelinebot serve` on the same data the daemon does the work; otherwise this\n" +
			"process does, for this issue alone. --flow runs a flow of your own in the place\n" +
			"of its phase's; a result that the phase does not know goes to a person. --shadow\n" +
			"runs beside the real runs and writes nothing outside: no label, comment, branch\n" +
			"or pull request; `runs parity` compares it afterwards.\n\n" +
			"Exit codes: 0 done, 1 the pipeline said no, 2 usage, 3 waits for a person or\n" +
			"halted.",
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := forge.ParseRef(args[0])
			if err != nil {
				return usage("%v", err)
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(cfg.Repositories, func(r config.Repository) bool { return labels.Same(r.Repo.String(), ref.Repo.String()) }) {
				return usage("%s is not among the repositories of %s", ref.Repo, s.config)
			}
			ev, err := s.manualRun(cfg, ref, f, c.Flags().Changed("phase"))
			if err != nil {
				return err
			}
			err = s.runIssue(c.Context(), cfg, ev)
			if err != nil && c.Context().Err() != nil && !classified(err) {
				return said("interrupted: %w; the run goes on behind its last completed node with `pipelinebot serve` or the next `run`", err)
			}
			return err
		},
	}
	c.Flags().StringVar(&f.phase, "phase", string(labels.Triage), "triage, plan, implement or review")
	c.Flags().StringVar(&f.flow, "flow", "", "run this flow, in its phase")
	c.Flags().BoolVar(&f.shadow, "shadow", false, "write nothing outside")
	return c
}

// manualRun is the event that starts what the flags say. A flow runs under the
// label of its phase.
func (s *shell) manualRun(cfg *config.Config, ref forge.Ref, f runFlags, phased bool) (forge.Event, error) {
	if f.flow != "" {
		flow, _, err := (&flowShell{shell: s, dir: cfg.FlowsDir}).winner(f.flow)
		if err != nil {
			return forge.Event{}, &exitError{ExitUsage, err}
		}
		if phased && f.phase != flow.Phase() {
			return forge.Event{}, usage("the flow %s is of the phase %s, not %s", f.flow, flow.Phase(), f.phase)
		}
		f.phase = flow.Phase()
	}
	label := cfg.Labels.For(labels.Phase(f.phase))
	if label == "" {
		return forge.Event{}, usage("there is no phase %q: use triage, plan, implement or review", f.phase)
	}
	order := &forge.Order{By: app.Operator(), Flow: f.flow, Shadow: f.shadow}
	return forge.Event{Kind: forge.ManualRun, Issue: ref, Label: label, Order: order}, nil
}

func (s *shell) runIssue(ctx context.Context, cfg *config.Config, ev forge.Event) error {
	// One issue needs no webhooks, and the address is a daemon's.
	alone := *cfg
	alone.GitHub.Webhooks, alone.Listen = false, "127.0.0.1:0"
	a, err := app.New(ctx, &alone, app.Options{Log: logger(cfg, s.Err), Only: &ev.Issue, Trouble: s.trouble()})
	if errors.Is(err, checkpoints.ErrInUse) {
		return s.runByDaemon(ctx, cfg, ev)
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := a.Run(ctx)
		stop() // nobody is left to follow
		ended <- err
	}()
	row, err := a.Receive(ctx, ev)
	if err == nil {
		err = s.follow(ctx, a.Store(), ev.Issue, row, modeOf(ev))
	}
	stop()
	broke := <-ended
	if broke != nil && !classified(err) {
		return broke // what following said is a consequence of it
	}
	return errors.Join(err, broke)
}

func (s *shell) runByDaemon(ctx context.Context, cfg *config.Config, ev forge.Event) error {
	row, err := sendTo(ctx, cfg, ev)
	if err != nil {
		return err
	}
	r, err := app.OpenReader(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	// A daemon that cannot reach GitHub says why in its own log only.
	late := time.AfterFunc(decisionTime, func() {
		if got, err := r.Received(ctx, row); err == nil && got.Decision == "" {
			s.trouble()(errors.New("the daemon has not decided yet; its log says what it waits for"))
		}
	})
	defer late.Stop()
	return s.follow(ctx, r, ev.Issue, row, modeOf(ev))
}

// modeOf is the mode of the runs that an event starts.
func modeOf(ev forge.Event) string {
	if ev.Order != nil && ev.Order.Shadow {
		return checkpoints.ModeShadow
	}
	return ""
}

// trouble says on the terminal, whatever the log's level, why nothing happens:
// once for each reason.
func (s *shell) trouble() func(error) {
	var mu sync.Mutex
	last := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text := err.Error()
		if text == last {
			return
		}
		last = text
		if s.json {
			s.emit(map[string]any{"trouble": text})
			return
		}
		fmt.Fprintf(s.Err, "pipelinebot: trying again, since it did not work: %s\n", text)
	}
}

// follow prints what happens and turns the end into an exit code.
func (s *shell) follow(ctx context.Context, r app.Reader, ref forge.Ref, row, mode string) error {
	decided, run, err := app.Follow(ctx, r, ref, row, mode, s.printNode)
	if err != nil {
		return err
	}
	if run == nil {
		return said("%s: %s", decided.Decision, decided.Explanation)
	}
	if s.json {
		s.emit(runView(*run))
	}
	if err := verdict(ref, *run); err != nil {
		return err
	}
	if !s.json {
		fmt.Fprintf(s.Out, "%s: %s, %s\n", ref, run.Phase, run.Result)
	}
	return nil
}

// verdict is nil when the pipeline is through with its work done, and else
// says why not, with the exit code.
func verdict(ref forge.Ref, run checkpoints.Run) error {
	switch {
	case run.Status == checkpoints.Halted:
		return &exitError{ExitBusy, fmt.Errorf("the %s phase of %s is halted: %s", run.Phase, ref, run.Reason)}
	case run.Status == checkpoints.Queued:
		return &exitError{ExitBusy, fmt.Errorf("the %s phase of %s waits until an earlier run of the concurrency key %q is over", run.Phase, ref, run.Concurrency)}
	case run.Status == checkpoints.Waiting && run.Parent != "":
		return &exitError{ExitBusy, fmt.Errorf("the flow %s of %s, run %s, waits for %s: %s", run.Flow, ref, run.ID, run.Wait.Event, run.Wait.Why)}
	case run.Status == checkpoints.Waiting && run.Mode == checkpoints.ModeShadow:
		return &exitError{ExitBusy, fmt.Errorf("the shadow of the %s phase of %s waits for %s: answer with `pipelinebot runs approve %s`", run.Phase, ref, run.Wait.Event, run.ID)}
	case run.Mode == checkpoints.ModeShadow:
		if run.Status == checkpoints.Done {
			return nil
		}
		return said("the shadow of the %s phase of %s ended with %s", run.Phase, ref, ending(run))
	case run.Status == checkpoints.Waiting:
		return &exitError{ExitBusy, fmt.Errorf("the %s phase of %s waits for %s; the issue says what to do", run.Phase, ref, run.Wait.Event)}
	case run.Status != checkpoints.Done || !labels.After(labels.Phase(run.Phase), run.Result).Completes():
		return said("the %s phase of %s ended with %s", run.Phase, ref, ending(run))
	}
	return nil
}

func (s *shell) printNode(run checkpoints.Run, n checkpoints.NodeRecord) {
	if s.json {
		s.emit(map[string]any{"run": run.ID, "phase": run.Phase, "node": n})
		return
	}
	fmt.Fprintf(s.Out, "%-10s %-16s %-8s %8s  %s\n", run.Phase, n.Node, n.Outcome, took(n.Took), firstLine(n.Note))
}

// sendTo puts an event into the inbox of a running daemon.
func sendTo(ctx context.Context, cfg *config.Config, ev forge.Event) (string, error) {
	d, err := app.OpenDesk(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer func() { _ = d.Close() }()
	return d.Send(ctx, ev)
}
