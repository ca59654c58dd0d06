package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/demo"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
	"github.com/pipelinebot/pipelinebot/internal/replay"
)

func (s *shell) demoCommand() *cobra.Command {
	var keep, unconfined bool
	c := &cobra.Command{
		Use: "demo", Short: "Walk an issue through the whole pipeline, offline", Args: cobra.NoArgs,
		Long: "demo starts a fake GitHub with a small Go repository that has a genuine bug, a\n" +
			"scripted model, and this program as `serve` would run it. People in the world\n" +
			"label the issue and approve the plan; git, HTTP, the sandbox and the tests are\n" +
			"real.",
		RunE: func(c *cobra.Command, _ []string) error {
			sc, err := scenario.Load(demo.Scenario())
			if err != nil {
				return err
			}
			if unconfined {
				sc.Bot.Config = scenario.Merge(sc.Bot.Config, map[string]any{"sandbox": map[string]any{"mode": "none"}})
			}
			return (&demoRun{timeline: timeline{shell: s, began: time.Now()}, keep: keep}).play(c.Context(), sc)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave the world up until stopped, and say what to open")
	c.Flags().BoolVar(&unconfined, "no-sandbox", false, "run the repository's tests without a sandbox")
	return c
}

// demoRun plays the demo and shows it.
type demoRun struct {
	timeline
	keep bool
	dir  string // holds the world, the bot's data and its log
}

func (d *demoRun) play(ctx context.Context, sc *scenario.Scenario) (err error) {
	if d.dir, err = os.MkdirTemp("", "pipelinebot-demo-"); err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	if !d.keep {
		defer os.RemoveAll(d.dir) //nolint:errcheck // a temporary folder
	}
	log, err := os.Create(d.logFile())
	if err != nil {
		return fmt.Errorf("making the demo's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	d.say(map[string]any{"event": "begin", "about": sc.About}, "%s\n\n", strings.TrimSpace(sc.About))
	launcher := replay.Inside{
		Log:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Observer: &d.timeline, Started: d.sandbox,
	}
	rep, err := scenario.Run(ctx, sc, launcher, scenario.Options{Dir: d.dir, Observe: d.world, Hold: d.finale})
	if err != nil {
		return fmt.Errorf("playing the demo: %w", err)
	}
	if rep.Passed {
		return nil
	}
	if d.json {
		d.emit(map[string]any{"event": "mismatches", "mismatches": rep.Mismatches})
	} else {
		fmt.Fprint(d.Err, rep)
	}
	return said("the demo did not end as it should")
}

func (d *demoRun) logFile() string { return filepath.Join(d.dir, "demo.log") }
