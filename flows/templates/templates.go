// Package templates holds whole flows to begin with: other uses than the four
// phases, made of actions that every program registers. A template is a flow
// file; New makes a flow of one under a name of its own.
//
// It must not know how flows are read or walked, and imports only the
// standard library.
package templates

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"strings"
)

//go:embed *.yaml scripts/*.yaml
var files embed.FS

// Template is a flow to begin with.
type Template struct {
	// Name is what New takes; About is the first line of the file's comment.
	Name, About string
	// Source is the whole file.
	Source []byte
	// Script is a rehearsal of the flow, under whatever name: a file for
	// `flow run --script` that says what each node returns on the usual way to
	// the end.
	Script []byte
}

// All are the templates, by name.
func All() ([]Template, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading the templates: %w", err)
	}
	var all []Template
	for _, e := range entries {
		if e.IsDir() {
			continue // the scripts
		}
		src, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the template %s: %w", e.Name(), err)
		}
		script, err := files.ReadFile(path.Join("scripts", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the script of the template %s: %w", e.Name(), err)
		}
		first, _, _ := strings.Cut(string(src), "\n")
		all = append(all, Template{
			Name: strings.TrimSuffix(e.Name(), ".yaml"), About: strings.TrimSpace(strings.TrimPrefix(first, "#")),
			Source: src, Script: script,
		})
	}
	return all, nil
}

// New is the template's file as a flow called name. The error names the
// templates there are.
func New(template, name string) ([]byte, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("%q can't be the name of a flow: use small letters, digits, _ and -, a letter first, at most 64", name)
	}
	t, err := Named(template)
	if err != nil {
		return nil, err
	}
	return nameLine.ReplaceAllLiteral(t.Source, []byte("name: "+name)), nil
}

// Named is the template of a name. The error names the templates there are.
func Named(template string) (Template, error) {
	all, err := All()
	if err != nil {
		return Template{}, err
	}
	var names []string
	for _, t := range all {
		if t.Name == template {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Template{}, fmt.Errorf("there is no template %q; there are %s", template, strings.Join(names, ", "))
}

var (
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	nameLine = regexp.MustCompile(`(?m)^name: .*$`)
)
