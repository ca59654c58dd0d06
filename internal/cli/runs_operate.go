package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// decisionTime is how long an operator waits to be told what became of a
// command; without a daemon nobody decides.
const decisionTime = 5 * time.Second

// operate sends an operator's event about a run and says what became of it
// when a daemon is there to decide.
func (s *shell) operate(ctx context.Context, cfg *config.Config, r app.Reader, id string, kind forge.EventKind) error {
	run, err := findRun(ctx, r, id)
	if err != nil {
		return err
	}
	if run.Status.Final() {
		return said("run %s is over (%s)", run.ID, run.Status)
	}
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	row, err := app.Send(ctx, cfg, forge.Event{Kind: kind, Issue: ref})
	if err != nil {
		return err
	}
	decided, err := app.AwaitDecision(ctx, r, row, decisionTime)
	if err != nil {
		return err
	}
	if s.json {
		s.emit(map[string]any{"run": run.ID, "event": row, "decision": decided.Decision, "why": decided.Explanation})
	}
	switch d := labels.Action(decided.Decision); {
	case d == labels.Ignore, d == labels.Refuse:
		return said("%s: %s", decided.Decision, decided.Explanation)
	case s.json:
	case decided.Decision == "":
		fmt.Fprintf(s.Out, "noted as %s; a running `pipelinebot serve` carries it out\n", row)
	default:
		fmt.Fprintf(s.Out, "%s: %s\n", decided.Decision, decided.Explanation)
	}
	return nil
}
