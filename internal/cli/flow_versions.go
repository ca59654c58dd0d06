package cli

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

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
