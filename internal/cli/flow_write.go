package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/templates"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
)

func (s *flowShell) newCommand() *cobra.Command {
	var from string
	var force bool
	c := &cobra.Command{
		Use: "new NAME --from TEMPLATE", Short: "Write a flow of your own from a template", Args: cobra.MaximumNArgs(1),
		Long: "new writes NAME.yaml into the flows folder: the template, under the new name.\n" +
			"Beside the folder it writes NAME.script.yaml, a rehearsal for `flow run\n" +
			"--script` that passes; one that is there stays, unless --force. Without NAME and\n" +
			"--from it lists the templates.",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case from == "" && len(args) == 0:
				return s.listTemplates()
			case from == "":
				return needsTemplate(args[0])
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
			t, err := templates.Named(from)
			if err != nil {
				return usage("%v", err)
			}
			return s.write(args[0], src, t.Script, force)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the template")
	c.Flags().BoolVar(&force, "force", false, "write over a flow of that name, and over its script")
	return c
}

func (s *flowShell) listTemplates() error {
	if !s.json {
		text, err := templateList()
		fmt.Fprint(s.Out, text)
		return err
	}
	all, err := templates.All()
	for _, t := range all {
		s.emit(map[string]any{"template": t.Name, "about": t.About})
	}
	return err
}

// templateList is the templates, a line each.
func templateList() (string, error) {
	all, err := templates.All()
	var b strings.Builder
	for _, t := range all {
		fmt.Fprintf(&b, "%-20s %s\n", t.Name, t.About)
	}
	return b.String(), err
}

// needsTemplate says which templates there are and what to type.
func needsTemplate(name string) error {
	list, err := templateList()
	if err != nil {
		return err
	}
	return usage("say which template: `pipelinebot flow new %s --from TEMPLATE`, with one of\n%s", name, strings.TrimSuffix(list, "\n"))
}

// write puts a flow file into the user's folder, if it passes the checks and
// no flow has the name, and its script, if there is one, beside the folder.
// The folder is made for it; what is refused leaves nothing.
func (s *flowShell) write(name string, src, script []byte, force bool) error {
	dir, read, err := s.target()
	if err != nil {
		return err
	}
	present := dir
	switch fi, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		present = "" // nothing to read yet
	case err == nil && !fi.IsDir():
		return usage("%s is no folder: flows can't be written there", dir)
	}
	reg, err := app.Registry()
	if err != nil {
		return err
	}
	c, err := app.Catalog(reg, present)
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
	if err := putInto(dir, file, src, force); err != nil {
		return usage("writing the flow: %v", err)
	}
	beside, kept, err := putScript(dir, name, script, force)
	if err != nil {
		return said("%s is written, and its script is not: %v", file, err)
	}
	if s.json {
		told := map[string]any{"flow": name, "file": file}
		if beside != "" {
			told["script"] = beside
		}
		s.emit(told)
		return nil
	}
	fmt.Fprintf(s.Out, "%s is written; `pipelinebot flow check %s%s` shows its layers\n", file, name, s.folderFlag())
	if kept {
		fmt.Fprintf(s.Out, "%s was there already and stays as it is; --force writes over it\n", beside)
	} else if beside != "" {
		fmt.Fprintf(s.Out, "%s is written; `pipelinebot flow run %s --script %s%s` rehearses the flow\n", beside, name, beside, s.folderFlag())
	}
	if !read {
		fmt.Fprintf(s.Out, "to let the bot use it, set flows_dir: %s in %s\n", dir, s.config)
	}
	return nil
}

// target is the folder for new flows, and whether the configuration names it.
func (s *flowShell) target() (dir string, read bool, err error) {
	named, err := s.configured()
	none := errors.Is(err, config.ErrNoFile) && !s.configNamed
	switch {
	case s.dir != "":
		return s.dir, err == nil && sameFolder(s.dir, named), nil
	case none:
		return usualFolder, false, nil
	case err != nil:
		return "", false, err
	case named == "":
		return "", false, usage("there is no folder for flows: make one and set flows_dir in %s, e.g. flows_dir: %s, or give --flows-dir", s.config, usualFolder)
	}
	return named, true, nil
}

// sameFolder reports that a folder is the one that the configuration names,
// by its whole path.
func sameFolder(dir, named string) bool {
	whole, err := filepath.Abs(dir)
	return err == nil && whole == named
}

// folderFlag is what a command on the flow just written needs beside its name.
func (s *flowShell) folderFlag() string {
	if s.dir == "" {
		return ""
	}
	return " --flows-dir " + s.dir
}

// putInto writes a file into a folder, which is made for it.
func putInto(dir, file string, content []byte, force bool) error {
	_, err := os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	err = putFile(file, content, force)
	if err != nil && made {
		_ = os.Remove(dir) // it is empty, or somebody else needs it
	}
	return err
}

// putScript writes a flow's script beside the folder of the flows, in which
// every file is a flow. One that is there is somebody's work: it is kept, and
// that is no error. Without a script the file is "".
func putScript(dir, name string, script []byte, force bool) (file string, kept bool, err error) {
	if script == nil {
		return "", false, nil
	}
	file = filepath.Join(dir, "..", name+".script.yaml")
	if _, err := os.Stat(file); err == nil && !force {
		return file, true, nil
	}
	return file, false, putFile(file, script, force)
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
