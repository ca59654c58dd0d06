package flowops

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Readable is a definition in canonical form as the YAML that people write. It
// loads as the same flow.
func Readable(definition []byte) ([]byte, error) {
	top, err := parsed(definition)
	if err != nil {
		return nil, err
	}
	return written(top)
}

// parsed is a definition as a tree.
func parsed(definition []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(definition, &doc); err != nil {
		return nil, fmt.Errorf("reading the definition: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the definition is no flow")
	}
	return doc.Content[0], nil
}

// written is a tree as text, restyled.
func written(top *yaml.Node) ([]byte, error) {
	restyle(top, 0)
	if edges := field(top, "edges"); edges != nil {
		for _, e := range edges.Content {
			e.Style = yaml.FlowStyle
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(top), enc.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// restyle turns JSON into the YAML that people write: blocks, but short
// mappings deep inside on one line, and quotes only where they must be.
func restyle(n *yaml.Node, depth int) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!str" {
			n.Style = 0
		}
		return
	}
	n.Style = 0
	if depth > 2 {
		n.Style = yaml.FlowStyle
	}
	for i, c := range n.Content {
		restyle(c, depth+1)
		if isKey := n.Kind == yaml.MappingNode && i%2 == 0; !isKey && alsoTruth(c) {
			c.Style = yaml.DoubleQuotedStyle
		}
	}
}

// alsoTruth is a text that some readers of YAML take for a truth value.
func alsoTruth(n *yaml.Node) bool {
	return n.Tag == "!!str" && slices.Contains([]string{"yes", "no", "on", "off", "y", "n"}, strings.ToLower(n.Value))
}
