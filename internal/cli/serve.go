package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/replay"
)

func (s *shell) serveCommand() *cobra.Command {
	var moments string
	c := &cobra.Command{
		Use: "serve", Short: "Serve webhooks and poll until stopped", Args: cobra.NoArgs,
		Long: "serve answers webhooks, polls, and works on runs until it gets SIGTERM or\n" +
			"SIGINT; then nothing new begins and what is in flight stays resumable. A second\n" +
			"signal ends the process at once. With --json the first line of standard output\n" +
			"is the address once it listens; the log goes to standard error.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			a, err := app.New(c.Context(), cfg, app.Options{Log: logger(cfg, s.Err), Ready: s.ready, Moment: replay.Tell(moments)})
			if err != nil {
				return err
			}
			return a.Run(c.Context())
		},
	}
	c.Flags().StringVar(&moments, "moments", "", "address that is told of each commit and command, and may kill this process there")
	if err := c.Flags().MarkHidden("moments"); err != nil {
		panic(err) // the flag was declared one line above
	}
	return c
}

func (s *shell) ready(addr string) {
	if s.json {
		s.emit(map[string]any{"event": "ready", "listen": addr})
		return
	}
	fmt.Fprintf(s.Out, "pipelinebot listens on %s\n", addr)
}

// logger writes the log as the configuration says.
func logger(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo // checked when the configuration was read
	}
	o := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
