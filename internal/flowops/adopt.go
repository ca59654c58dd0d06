package flowops

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// ErrNothing means that a run has completed nothing that could be adopted.
var ErrNothing = errors.New("it has completed no node that could be adopted")

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// CheckName refuses what cannot be the name of a flow.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q can't be the name of a flow: use small letters, digits, _ and -, a letter first, at most 64", name)
	}
	return nil
}

// AdoptWhole is a flow file, called name, of the definition that a run has
// frozen, with all defaults and children written out. Where it comes from, and
// with which versions of the actions it ran, is told in a comment; it is taken
// from the run and from nobody's word.
func AdoptWhole(r Record, name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if len(r.History) == 0 {
		return nil, fmt.Errorf("run %s: %w", r.Run.ID, ErrNothing)
	}
	top, err := document(r.Run)
	if err != nil {
		return nil, err
	}
	put(top, "name", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name})
	return file(r.Run, fmt.Sprintf("The flow %s as run", r.Run.Flow), name, top)
}

// document is a run's definition, to be changed.
func document(run checkpoints.Run) (*yaml.Node, error) {
	top, err := parsed(run.Definition)
	if err != nil {
		return nil, fmt.Errorf("the definition of run %s: %w", run.ID, err)
	}
	return top, nil
}

// put sets a key of a mapping; without a value it removes the key.
func put(m *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != key {
			continue
		}
		if value == nil {
			m.Content = slices.Delete(m.Content, i, i+2)
		} else {
			m.Content[i+1] = value
		}
		return
	}
	if value != nil {
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	}
}

// file writes a flow, under a comment that says where it comes from.
func file(run checkpoints.Run, what, name string, top *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s %s ran it on %s (%s).\n", what, run.ID, run.Created.UTC().Format("2006-01-02"), ending(run))
	fmt.Fprintf(&out, "# Its definition has the sha256 %s; its actions were of the versions\n# %s.\n",
		run.DefinitionHash, strings.Join(versions(run.Actions), ", "))
	text, err := written(top)
	if err != nil {
		return nil, fmt.Errorf("writing the flow %s: %w", name, err)
	}
	return append(out.Bytes(), text...), nil
}

func versions(actions map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		all = append(all, name+"@"+actions[name])
	}
	if len(all) == 0 {
		return []string{"none"}
	}
	return all
}
