package cli

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) flowCommand() *cobra.Command {
	var dir string
	list := &cobra.Command{
		Use: "list", Short: "List flows, which one wins and which are invalid", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := s.catalog(dir)
			if err != nil {
				return err
			}
			return s.listFlows(c.List())
		},
	}
	check := &cobra.Command{
		Use: "check [NAME]", Short: "Check flows and print their layers", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := s.catalog(dir)
			if err != nil {
				return err
			}
			return s.checkFlows(c, args)
		},
	}
	graph := &cobra.Command{
		Use: "graph NAME", Short: "Draw a flow as Mermaid", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := s.catalog(dir)
			if err != nil {
				return err
			}
			f, err := winner(c, args[0])
			if err != nil {
				return err
			}
			if s.json {
				s.emit(map[string]any{"name": f.Name(), "mermaid": flows.Mermaid(f)})
				return nil
			}
			fmt.Fprint(s.Out, flows.Mermaid(f))
			return nil
		},
	}
	c := group("flow", "List, check and draw flows", list, check, graph)
	c.PersistentFlags().StringVar(&dir, "flows-dir", "", "folder with your flows; the configuration's flows_dir when absent")
	return c
}

// catalog needs no configuration: without one only the built-in flows are
// there. One that is wrong is an error, lest a user's flows be left out.
func (s *shell) catalog(dir string) (*flows.Catalog, error) {
	if dir == "" {
		cfg, err := config.LoadWithoutSecrets(s.config)
		switch {
		case err == nil:
			dir = cfg.FlowsDir
		case !errors.Is(err, config.ErrNoFile) || s.configNamed:
			return nil, &exitError{ExitUsage, err}
		}
	}
	reg, err := app.Registry()
	if err != nil {
		return nil, err
	}
	c, err := app.Catalog(reg, dir)
	if err != nil {
		return nil, usage("%v", err)
	}
	return c, nil
}

func (s *shell) listFlows(entries []flows.Entry) error {
	w := tabwriter.NewWriter(s.Out, 0, 4, 2, ' ', 0)
	if !s.json {
		fmt.Fprintln(w, "FLOW\tVERSION\tPHASE\tSOURCE\tFILE\tSTATE\tSHA256")
	}
	for _, e := range entries {
		if s.json {
			s.emit(e)
			continue
		}
		state := "in use"
		switch {
		case len(e.Problems) > 0:
			state = "invalid, " + markdown.Count(len(e.Problems), "problem")
		case !e.Wins:
			state = "overridden"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%.12s\n", e.Name, e.Version, orDash(e.Phase), e.Source, e.File, state, orDash(e.Hash))
	}
	return w.Flush()
}

func (s *shell) checkFlows(c *flows.Catalog, args []string) error {
	entries := c.List()
	if len(args) == 1 {
		entries = slices.DeleteFunc(entries, func(e flows.Entry) bool { return e.Name != args[0] || !e.Wins })
		if len(entries) == 0 {
			return noFlow(args[0])
		}
	}
	bad := 0
	for _, e := range entries {
		if len(e.Problems) > 0 {
			bad++
		}
		if s.json {
			s.emit(e)
			continue
		}
		if err := s.printChecked(c, e); err != nil {
			return err
		}
	}
	if bad > 0 {
		return usage("%d of %s invalid", bad, markdown.Count(len(entries), "flow"))
	}
	return nil
}

func (s *shell) printChecked(c *flows.Catalog, e flows.Entry) error {
	if len(e.Problems) > 0 {
		fmt.Fprintf(s.Out, "%s (%s): invalid\n%v\n", e.Name, e.Source, e.Problems)
		return nil
	}
	fmt.Fprintf(s.Out, "%s (%s): fine\n", e.Name, e.Source)
	if !e.Wins {
		return nil
	}
	f, err := c.Get(e.Name)
	if err != nil {
		return err
	}
	fmt.Fprint(s.Out, flows.Layers(f))
	return nil
}

func winner(c *flows.Catalog, name string) (*flows.Flow, error) {
	if !slices.ContainsFunc(c.List(), func(e flows.Entry) bool { return e.Name == name }) {
		return nil, noFlow(name)
	}
	return c.Get(name)
}

func noFlow(name string) error {
	return usage("there is no flow %q; `pipelinebot flow list` shows them", name)
}
