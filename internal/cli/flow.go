package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
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
	c.PersistentFlags().StringVar(&f.dir, "flows-dir", "", "folder with your flows; the configuration's flows_dir when absent")
	return c
}

// folder is where the user's flows are, "" for nowhere. No configuration is
// needed: without one only the built-in flows are there. One that is wrong is
// an error, lest a user's flows be left out.
func (s *flowShell) folder() (string, error) {
	if s.dir != "" {
		return s.dir, nil
	}
	cfg, err := config.LoadWithoutSecrets(s.config)
	switch {
	case err == nil:
		return cfg.FlowsDir, nil
	case !errors.Is(err, config.ErrNoFile) || s.configNamed:
		return "", &exitError{ExitUsage, err}
	}
	return "", nil
}

func (s *flowShell) catalog() (*flows.Catalog, *flows.Registry, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, nil, err
	}
	reg, err := app.Registry()
	if err != nil {
		return nil, nil, err
	}
	c, err := app.Catalog(reg, dir)
	if err != nil {
		return nil, nil, usage("%v", err)
	}
	return c, reg, nil
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
// flows of one name that of the user's folder wins, and the later file of one
// folder.
func whyWins(e flows.Entry, all []flows.Entry) string {
	var others []string
	for _, o := range all {
		if o.Name == e.Name && (o.Source != e.Source || o.File != e.File) {
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
	if e.Source == "built in" {
		return "the built-in one"
	}
	return e.Source + "/" + e.File
}

func (s *flowShell) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [NAME | FILE]", Short: "Check flows; print their layers and what a run can cost at most", Args: cobra.MaximumNArgs(1),
		Long: "check reads all flows, the one of a name, or a file that need not be in a flows\n" +
			"folder, and prints every problem with its place, or the layers and the worst case.\n" +
			"Nothing is run.\n\n" +
			"Exit codes: 0 fine, 2 invalid, or there is no such flow.",
		RunE: func(_ *cobra.Command, args []string) error {
			c, _, err := s.catalog()
			if err != nil {
				return err
			}
			if len(args) == 1 && looksLikeFile(args[0]) {
				return s.checkFile(c, args[0])
			}
			return s.checkFlows(c, args)
		},
	}
}

// looksLikeFile tells a path from a flow's name, which has neither dots nor
// slashes.
func looksLikeFile(arg string) bool { return strings.ContainsAny(arg, "./\\") }

// checkFile checks a file as if it were in the flows folder: its subflows are
// found there.
func (s *flowShell) checkFile(c *flows.Catalog, file string) error {
	src, err := strictyaml.ReadFile(file)
	if err != nil {
		return usage("reading the flow: %v", err)
	}
	f, problems := flows.LoadWith(file, src, c.Options())
	entry := flows.Entry{Name: file, Source: "file", File: file, Problems: problems}
	if f != nil {
		entry.Name, entry.Hash, entry.Version, entry.Phase, entry.Notes = f.Name(), f.Hash(), f.Version(), f.Phase(), flows.Notes(f)
	}
	return s.printChecks([]flows.Entry{entry}, func(string) (*flows.Flow, error) { return f, nil })
}

func (s *flowShell) checkFlows(c *flows.Catalog, args []string) error {
	entries := c.List()
	if len(args) == 1 {
		entries = slices.DeleteFunc(entries, func(e flows.Entry) bool { return e.Name != args[0] || !e.Wins })
		if len(entries) == 0 {
			return noFlow(args[0])
		}
	}
	return s.printChecks(entries, c.Get)
}

func (s *flowShell) printChecks(entries []flows.Entry, get func(string) (*flows.Flow, error)) error {
	bad := 0
	for _, e := range entries {
		if len(e.Problems) > 0 {
			bad++
		}
		if err := s.printChecked(e, get); err != nil {
			return err
		}
	}
	if bad > 0 {
		return usage("%d of %s invalid", bad, markdown.Count(len(entries), "flow"))
	}
	return nil
}

func (s *flowShell) printChecked(e flows.Entry, get func(string) (*flows.Flow, error)) error {
	var f *flows.Flow
	if len(e.Problems) == 0 && (e.Wins || e.Source == "file") {
		var err error
		if f, err = get(e.Name); err != nil {
			return err
		}
	}
	if s.json {
		v := struct {
			flows.Entry
			Worst *flows.Spend `json:"worst_case,omitempty"`
		}{Entry: e}
		if f != nil {
			worst := flows.WorstCase(f)
			v.Worst = &worst
		}
		s.emit(v)
		return nil
	}
	if len(e.Problems) > 0 {
		fmt.Fprintf(s.Out, "%s (%s): invalid\n%v\n", e.Name, e.Source, e.Problems)
		return nil
	}
	fmt.Fprintf(s.Out, "%s (%s): fine\n", e.Name, e.Source)
	for _, note := range e.Notes {
		fmt.Fprintf(s.Out, "  note: %s\n", note)
	}
	if f != nil {
		fmt.Fprint(s.Out, flows.Layers(f))
		printWorst(s.shell, flows.WorstCase(f))
	}
	return nil
}

func printWorst(s *shell, w flows.Spend) {
	fmt.Fprintf(s.Out, "worst case: %s\n", w)
	for _, why := range w.Why {
		fmt.Fprintf(s.Out, "  unbounded: %s; only the configuration's budgets hold it\n", why)
	}
	for _, a := range w.Apart {
		fmt.Fprintf(s.Out, "  besides, %s of %s that go on by themselves, each %s\n", markdown.Count(int(a.Runs), "run"), a.Flow, a.Spend)
	}
}

// winner is the flow that counts for a name, or that a file holds.
func (s *flowShell) winner(arg string) (*flows.Flow, *flows.Registry, error) {
	c, reg, err := s.catalog()
	if err != nil {
		return nil, nil, err
	}
	if looksLikeFile(arg) {
		src, err := strictyaml.ReadFile(arg)
		if err != nil {
			return nil, nil, usage("reading the flow: %v", err)
		}
		f, problems := flows.LoadWith(arg, src, c.Options())
		return f, reg, problems.Err()
	}
	f, err := c.Get(arg)
	if errors.Is(err, flows.ErrNoFlow) {
		return nil, nil, noFlow(arg)
	}
	return f, reg, err
}

func noFlow(name string) error {
	return usage("there is no flow %q; `pipelinebot flow list` shows them", name)
}
