package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/templates"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *flowShell) newCommand() *cobra.Command {
	var from string
	var force bool
	c := &cobra.Command{
		Use: "new NAME --from TEMPLATE", Short: "Write a flow of your own from a template", Args: cobra.MaximumNArgs(1),
		Long: "new writes NAME.yaml into the flows folder: the template, under the new name.\n" +
			"Without NAME and --from it lists the templates.",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case from == "" && len(args) == 0:
				return s.listTemplates()
			case from == "":
				return usage("--from is needed: which template; `pipelinebot flow new` lists them")
			case len(args) == 0:
				return usage("say under which name: `pipelinebot flow new NAME --from %s`", from)
			}
			if err := flowops.CheckName(args[0]); err != nil {
				return usage("%v", err)
			}
			src, err := templates.New(from, args[0])
			if err != nil {
				return usage("%v", err)
			}
			return s.write(args[0], src, force)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the template")
	c.Flags().BoolVar(&force, "force", false, "write over a flow of that name")
	return c
}

func (s *flowShell) listTemplates() error {
	all, err := templates.All()
	if err != nil {
		return err
	}
	for _, t := range all {
		if s.json {
			s.emit(map[string]any{"template": t.Name, "about": t.About})
			continue
		}
		fmt.Fprintf(s.Out, "%-20s %s\n", t.Name, t.About)
	}
	return nil
}

// write puts a flow file into the user's folder, if it passes the checks and
// no flow has the name.
func (s *flowShell) write(name string, src []byte, force bool) error {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	if dir == "" {
		return usage("there is no folder for flows: set flows_dir in %s, or give --flows-dir", s.config)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return usage("making the flows folder: %v", err)
	}
	reg, err := app.Registry()
	if err != nil {
		return err
	}
	c, err := app.Catalog(reg, dir)
	if err != nil {
		return usage("%v", err)
	}
	for _, e := range c.List() {
		if e.Name == name && !force {
			return said("there is a flow %s already, %s; --force writes over the one in your folder, or overrides the built-in one", name, place(e))
		}
	}
	file := filepath.Join(dir, name+".yaml")
	if _, problems := flows.LoadWith(file, src, c.Options()); len(problems) > 0 {
		return said("the flow would not pass the checks, nothing was written:\n%v", problems)
	}
	if err := putFile(file, src, force); err != nil {
		return usage("writing the flow: %v", err)
	}
	if s.json {
		s.emit(map[string]any{"flow": name, "file": file})
		return nil
	}
	fmt.Fprintf(s.Out, "%s is written; `pipelinebot flow check %s` shows its layers\n", file, name)
	return nil
}

// putFile writes a file whole or not at all; one that is there is replaced only
// if that is wanted.
func putFile(file string, content []byte, force bool) error {
	if _, err := os.Stat(file); !force && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already", file))
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".flow-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

func (s *flowShell) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff RUN RUN", Short: "Compare what two runs did", Args: cobra.ExactArgs(2),
		Long: "diff compares two runs: whether they froze the same definition, their paths, what\n" +
			"each node returned, their endings and final states. No model is asked.\n\n" +
			"Exit codes: 0 identical, 1 they differ.",
		RunE: func(c *cobra.Command, args []string) error {
			a, b, err := s.twoRuns(c.Context(), args)
			if err != nil {
				return err
			}
			got := flowops.Diff(a, b)
			if s.json {
				s.emit(got)
			} else {
				same := "different definitions"
				if got.SameDefinition {
					same = "the same definition"
				}
				fmt.Fprintf(s.Out, "- %s\n+ %s\n%s\n", a.Run.ID, b.Run.ID, same)
				s.printDifferences(got.Differences)
				if got.Same {
					fmt.Fprintln(s.Out, "identical")
				}
			}
			if !got.Same {
				return said("the runs differ in %s", markdown.Count(len(got.Differences), "point"))
			}
			return nil
		},
	}
}
