package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
)

// listVersions prints which definitions flows were run with.
func (s *flowShell) listVersions(ctx context.Context, entries []flows.Entry) error {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return s.withReader(ctx, func(r app.Reader, _ *config.Config) error {
		w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
		if !s.json {
			fmt.Fprintln(w, "FLOW\tN\tSHA256\tFIRST RUN\tSTATE")
		}
		for _, name := range slices.Compact(names) {
			all, err := r.Versions(ctx, name)
			if err != nil {
				return fmt.Errorf("reading the versions of flow %s: %w", name, err)
			}
			for _, v := range all {
				state := "earlier"
				if slices.ContainsFunc(entries, func(e flows.Entry) bool { return e.Wins && e.Name == name && e.Hash == v.Hash }) {
					state = "in use"
				}
				if s.json {
					s.emit(map[string]any{"flow": name, "n": v.N, "sha256": v.Hash, "first": v.First, "state": state})
					continue
				}
				fmt.Fprintf(w, "%s\t%d\t%.12s\t%s\t%s\n", name, v.N, v.Hash, moment(v.First), state)
			}
		}
		return w.Flush()
	})
}

func (s *flowShell) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@N]", Short: "Print a flow's definition, or that of an earlier version", Args: cobra.ExactArgs(1),
		Long: "show prints the canonical definition of a flow: of the one that counts now, or of\n" +
			"version N, which is the Nth that a run was started with; see `flow list --versions`.",
		RunE: func(c *cobra.Command, args []string) error {
			name, n, versioned := strings.Cut(args[0], "@")
			if !versioned {
				f, _, err := s.winner(args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "%s\n", f.Definition())
				return err
			}
			number, err := strconv.Atoi(n)
			if err != nil || number < 1 {
				return usage("version %q: want a number above 0", n)
			}
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
				return s.showVersion(c.Context(), r, name, number)
			})
		},
	}
}

func (s *flowShell) showVersion(ctx context.Context, r app.Reader, name string, number int) error {
	all, err := r.Versions(ctx, name)
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return fmt.Errorf("reading the versions of flow %s: %w", name, err)
	}
	for _, v := range all {
		if v.N == number {
			_, err := fmt.Fprintf(s.Out, "%s\n", v.Definition)
			return err
		}
	}
	return usage("flow %s has no version %d; it was run with %d", name, number, len(all))
}
