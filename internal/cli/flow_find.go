package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// usualFolder is the folder of the user's flows where no configuration names
// another.
const usualFolder = "flows"

// folder is where the user's flows are, "" for nowhere. No configuration is
// needed: without one the flows in the usual folder are there. One that is
// wrong is an error, lest a user's flows be left out.
func (s *flowShell) folder() (string, error) {
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := s.configured()
	if err == nil || !errors.Is(err, config.ErrNoFile) || s.configNamed {
		return dir, err
	}
	if isFolder(usualFolder) {
		return usualFolder, nil
	}
	return "", nil
}

// configured is the folder that the configuration names, "" for none.
func (s *flowShell) configured() (string, error) {
	cfg, err := config.LoadWithoutSecrets(s.config)
	if err != nil {
		return "", &exitError{ExitUsage, err}
	}
	return cfg.FlowsDir, nil
}

func isFolder(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

func (s *flowShell) catalog() (*flows.Catalog, *flows.Registry, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, nil, err
	}
	if s.dir != "" && !isFolder(dir) {
		return nil, nil, usage("--flows-dir: there is no folder %s", dir)
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

// winner is the flow that counts for a name, or that a file holds.
func (s *flowShell) winner(arg string) (*flows.Flow, *flows.Registry, error) {
	c, reg, err := s.catalog()
	if err != nil {
		return nil, nil, err
	}
	if looksLikeFile(arg) {
		src, err := s.read("flow", arg)
		if err != nil {
			return nil, nil, err
		}
		f, problems := flows.LoadWith(arg, src, c.Options())
		return f, reg, problems.Err()
	}
	f, err := c.Get(arg)
	if errors.Is(err, flows.ErrNoFlow) {
		return nil, nil, s.noFlow(arg, c)
	}
	return f, reg, err
}

// looksLikeFile tells a path from a flow's name, which has neither dots nor
// slashes.
func looksLikeFile(arg string) bool { return strings.ContainsAny(arg, "./\\") }

// read reads a file that the command line names; what says what for.
func (s *flowShell) read(what, file string) ([]byte, error) {
	src, err := strictyaml.ReadFile(file)
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("reading the %s: there is no file %s%s", what, file, s.nearFile(file))
	case errors.Is(err, strictyaml.ErrNotRegular) && isFolder(file):
		return nil, usage("reading the %s: %s is a folder; name a file", what, file)
	case errors.As(err, &path):
		return nil, usage("reading the %s %s: %v", what, file, path.Err)
	case err != nil:
		return nil, usage("reading the %s %s: %v", what, file, err)
	}
	return src, nil
}

// nearFile is a hint at a file of the flows folder that may be meant.
func (s *flowShell) nearFile(file string) string {
	dir, err := s.folder()
	if err != nil || dir == "" {
		return ""
	}
	near := filepath.Join(dir, filepath.Base(file))
	if _, err := os.Stat(near); err != nil || near == filepath.Clean(file) {
		return ""
	}
	return fmt.Sprintf("; there is %s", near)
}

// noFlow says that there is no flow of a name, and where one may be that
// nothing reads.
func (s *flowShell) noFlow(name string, c *flows.Catalog) error {
	var names []string
	for _, e := range c.List() {
		names = append(names, e.Name)
	}
	hint := ""
	if near := strictyaml.DidYouMean(name, names); near != "" {
		hint = " (" + near + ")"
	}
	dir, err := s.folder()
	for _, beside := range []string{usualFolder, "."} {
		file := filepath.Join(beside, name+".yaml")
		if _, statErr := os.Stat(file); statErr != nil || err != nil {
			continue
		}
		switch {
		case beside == ".":
			return usage("there is no flow %q; for the file say `%s`", name, file)
		case dir == "":
			return usage("there is no flow %q, since %s names no folder for flows; there is %s: set flows_dir: %s, or give --flows-dir %s", name, s.config, file, beside, beside)
		}
	}
	return usage("there is no flow %q%s; `pipelinebot flow list` shows them", name, hint)
}
