package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// flowShell is what the commands on flows share.
type flowShell struct {
	*shell
	dir string
}

func (s *shell) flowCommand() *cobra.Command {
	f := &flowShell{shell: s}
	c := group(
		"flow", "List, check, draw, rehearse and write flows",
		f.listCommand(), f.checkCommand(), f.showCommand(), f.graphCommand(), f.rehearseCommand(), f.newCommand(),
		f.diffCommand(), f.adoptCommand(),
	)
	c.PersistentFlags().StringVar(&f.dir, "flows-dir", "", "folder with your flows; the configuration's flows_dir when absent, and flows without a configuration")
	return c
}

func (s *flowShell) listCommand() *cobra.Command {
	var versions bool
	c := &cobra.Command{
		Use: "list", Short: "List flows, which one wins and why, and which are invalid", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := s.catalog()
			if err != nil {
				return err
			}
			if versions {
				return s.listVersions(cmd.Context(), c.List())
			}
			return s.listFlows(c.List())
		},
	}
	c.Flags().BoolVar(&versions, "versions", false, "list the definitions that flows were run with")
	return c
}

func (s *flowShell) listFlows(entries []flows.Entry) error {
	w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
	if !s.json {
		fmt.Fprintln(w, "FLOW\tVERSION\tPHASE\tSOURCE\tFILE\tSTATE\tSHA256\tWHY")
	}
	for _, e := range entries {
		why := whyWins(e, entries)
		if s.json {
			s.emit(struct {
				flows.Entry
				Why string `json:"why"`
			}{e, why})
			continue
		}
		state := "in use"
		switch {
		case len(e.Problems) > 0:
			state = "invalid, " + markdown.Count(len(e.Problems), "problem")
		case !e.Wins:
			state = "overridden"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%.12s\t%s\n", e.Name, e.Version, orDash(e.Phase), e.Source, e.File, state, orDash(e.Hash), why)
	}
	return w.Flush()
}

// whyWins says why a file is the one that counts, or which one is: of two
// flows of one name that of the user's folder wins, and of two in one folder
// neither.
func whyWins(e flows.Entry, all []flows.Entry) string {
	var others []string
	for _, o := range all {
		if o.Name == e.Name && o.Source == e.Source && o.File != e.File {
			return "has the name of " + place(o) + ", in the same folder: neither runs until one is renamed"
		}
		if o.Name == e.Name && o.Source != e.Source {
			if e.Wins != o.Wins && !e.Wins {
				return "overridden by " + place(o)
			}
			others = append(others, place(o))
		}
	}
	switch {
	case len(others) == 0 && len(e.Problems) > 0:
		return "the only one of its name, cannot run"
	case len(others) == 0:
		return "the only one of its name"
	case len(e.Problems) > 0:
		return "overrides " + strings.Join(others, ", ") + " although it is invalid: nothing runs until it is mended"
	}
	return "overrides " + strings.Join(others, ", ")
}

func place(e flows.Entry) string {
	if e.Source == app.BuiltInSource {
		return "the built-in one"
	}
	return e.Source + "/" + e.File
}
