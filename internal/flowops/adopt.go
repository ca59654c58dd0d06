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
)

// ErrNothing means that a run has completed nothing that could be adopted.
var ErrNothing = errors.New("flowops: the run has completed no node")

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// CheckName refuses what cannot be the name of a flow.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q can't be the name of a flow: use small letters, digits and dashes, and begin with a letter", name)
	}
	return nil
}

// Adopt is a flow file, called name, of what a run ran: its frozen definition,
// with all defaults and children written out. Where it comes from, and with
// which versions of the actions it ran, is told in a comment; it is taken from
// the run and from nobody's word.
func Adopt(r Record, name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if len(r.History) == 0 {
		return nil, fmt.Errorf("run %s: %w", r.Run.ID, ErrNothing)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(r.Run.Definition, &doc); err != nil {
		return nil, fmt.Errorf("reading the definition of run %s: %w", r.Run.ID, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the definition of run %s is no flow", r.Run.ID)
	}
	top := doc.Content[0]
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value == "name" {
			top.Content[i+1].Value = name
		}
	}
	restyle(top, 0)
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The flow %s as run %s ran it on %s (%s).\n", r.Run.Flow, r.Run.ID, r.Run.Created.UTC().Format("2006-01-02"), ending(r.Run))
	fmt.Fprintf(&out, "# Its definition has the sha256 %s; its actions were of the versions\n# %s.\n",
		r.Run.DefinitionHash, strings.Join(versions(r.Run.Actions), ", "))
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(top), enc.Close()); err != nil {
		return nil, fmt.Errorf("writing the flow %s: %w", name, err)
	}
	return out.Bytes(), nil
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

// restyle turns JSON into the YAML that people write: blocks, but short
// mappings deep inside on one line.
func restyle(n *yaml.Node, depth int) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!str" {
			n.Style = 0 // quoted only where it must be
		}
		return
	}
	n.Style = 0
	if depth > 2 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		restyle(c, depth+1)
	}
}
