package cli

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *flowShell) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [NAME | FILE]", Short: "Check flows; print their layers and what a run can cost at most", Args: cobra.MaximumNArgs(1),
		Long: "check of the flow of a name, or of a file that need not be in a flows folder,\n" +
			"prints every problem with its place, or the layers and the worst case. Without\n" +
			"an argument it looks at all flows: a line for each that is fine, then those that\n" +
			"are not, with their problems. Nothing is run.\n\n" +
			"Exit codes: 0 fine, 2 invalid, or there is no such flow.",
		RunE: func(_ *cobra.Command, args []string) error {
			c, _, err := s.catalog()
			switch {
			case err != nil:
				return err
			case len(args) == 0:
				return s.checkAll(c)
			case looksLikeFile(args[0]):
				return s.checkFile(c, args[0])
			}
			return s.checkFlow(c, args[0])
		},
	}
}

// checkFile checks a file as if it were in the flows folder: its subflows are
// found there.
func (s *flowShell) checkFile(c *flows.Catalog, file string) error {
	src, err := s.read("flow", file)
	if err != nil {
		return err
	}
	f, problems := flows.LoadWith(file, src, c.Options())
	entry := flows.Entry{Name: file, Source: "file", File: file, Problems: problems}
	if f != nil {
		entry.Name, entry.Hash, entry.Version, entry.Phase, entry.Notes = f.Name(), f.Hash(), f.Version(), f.Phase(), flows.Notes(f)
	}
	s.printChecked(entry, f)
	if len(problems) > 0 {
		return usage("%s is invalid: %s", file, markdown.Count(len(problems), "problem"))
	}
	return nil
}

// checkFlow checks the flow that counts for a name.
func (s *flowShell) checkFlow(c *flows.Catalog, name string) error {
	entries := c.List()
	i := slices.IndexFunc(entries, func(e flows.Entry) bool { return e.Name == name && e.Wins })
	if i < 0 {
		return s.noFlow(name, c)
	}
	e := entries[i]
	if len(e.Problems) > 0 {
		s.printChecked(e, nil)
		return usage("the flow %s is invalid: %s", name, markdown.Count(len(e.Problems), "problem"))
	}
	f, err := c.Get(name)
	if err != nil {
		return err
	}
	s.printChecked(e, f)
	return nil
}

// checkAll prints a line for each flow that is fine, and the others last.
func (s *flowShell) checkAll(c *flows.Catalog) error {
	var fine, invalid []flows.Entry
	for _, e := range c.List() {
		if len(e.Problems) > 0 {
			invalid = append(invalid, e)
			continue
		}
		fine = append(fine, e)
	}
	for _, e := range fine {
		// While a file can't be read nobody knows whether it wins over this one;
		// the file is among the invalid ones.
		f, err := c.Get(e.Name)
		if !e.Wins || err != nil {
			f = nil
		}
		if s.json {
			s.printChecked(e, f)
			continue
		}
		s.printFine(e, f)
	}
	for _, e := range invalid {
		s.printChecked(e, nil)
	}
	all := len(fine) + len(invalid)
	if len(invalid) > 0 {
		return usage("%d of %s invalid", len(invalid), markdown.Count(all, "flow"))
	}
	if !s.json {
		fmt.Fprintf(s.Out, "%s, all fine; `pipelinebot flow check NAME` shows the layers of one, and what it can spend\n", markdown.Count(all, "flow"))
	}
	return nil
}

// printFine is the one line of a flow that is fine; f is nil when another file
// counts for its name. What its author may not have meant stands below it.
func (s *flowShell) printFine(e flows.Entry, f *flows.Flow) {
	line := fmt.Sprintf("%s (%s): fine", e.Name, origin(e))
	switch {
	case !e.Wins:
		line += ", but overridden"
	case f == nil:
		line += ", but not used while a file can't be read that might replace it"
	default:
		line += fmt.Sprintf(", %s, %s", markdown.Count(len(f.Nodes()), "node"), flows.WorstCase(f))
	}
	fmt.Fprintln(s.Out, line)
	for _, note := range e.Notes {
		fmt.Fprintf(s.Out, "  note: %s\n", note)
	}
}

// origin is where a flow comes from, for people.
func origin(e flows.Entry) string {
	if e.Source == app.BuiltInSource || e.Source == "file" {
		return e.Source
	}
	return filepath.Join(e.Source, filepath.FromSlash(e.File))
}

// placed are a flow's problems with the paths that an editor opens.
func placed(e flows.Entry) flows.Problems {
	all := slices.Clone(e.Problems)
	for i, p := range all {
		if e.Source != app.BuiltInSource && e.Source != "file" && p.File == e.File {
			all[i].File = origin(e)
		}
	}
	return all
}

// printChecked prints all that a check finds; f is nil for a flow that is
// invalid or overridden.
func (s *flowShell) printChecked(e flows.Entry, f *flows.Flow) {
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
		return
	}
	if len(e.Problems) > 0 {
		fmt.Fprintf(s.Out, "%s (%s): invalid\n%v\n", e.Name, origin(e), placed(e))
		return
	}
	fmt.Fprintf(s.Out, "%s (%s): fine\n", e.Name, origin(e))
	for _, note := range e.Notes {
		fmt.Fprintf(s.Out, "  note: %s\n", note)
	}
	if f != nil {
		fmt.Fprint(s.Out, flows.Layers(f))
		printWorst(s.shell, flows.WorstCase(f))
	}
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
