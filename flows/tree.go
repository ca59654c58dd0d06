package flows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Limits of a flow file.
const (
	maxFile  = 256 << 10
	maxDepth = 24
	// maxDefinition bounds a canonical form, with all defaults and children.
	maxDefinition = 2 << 20
	maxNodes      = 200
	maxEdges      = 1000
	maxKeys       = 200
	// maxEntries bounds every list and mapping: what looks through them need
	// not be quick with tens of thousands.
	maxEntries = 2000
)

// reader turns a YAML tree into values and collects what is wrong with it.
type reader struct {
	file     string
	most     int // bytes
	problems Problems
}

// place is where a problem is: a position in the file and the node concerned.
type place struct {
	line, column int
	node         string
}

func at(n *yaml.Node, id string) place {
	if n == nil {
		return place{1, 1, id}
	}
	return place{max(n.Line, 1), max(n.Column, 1), id}
}

func (r *reader) add(p place, code, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Code: code, File: r.file, Line: p.line, Column: p.column, Node: p.node,
		Msg: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// parse reads the one document of a file and refuses what could make a file
// mean something else than it shows.
func (r *reader) parse(src []byte) (*yaml.Node, bool) {
	if len(src) > r.most {
		r.add(place{1, 1, ""}, "too-large", "move prompts and data out of the flow", "the file has %d bytes, the limit is %d", len(src), r.most)
		return nil, false
	}
	root, rest, err := firstDocument(src)
	switch {
	case err != nil:
		r.syntax(src, err)
		return nil, false
	case root == nil:
		r.add(place{1, 1, ""}, "no-nodes", "", "the file is empty")
		return nil, false
	}
	if rest != nil {
		var second yaml.Node
		switch err := rest.Decode(&second); {
		case err == nil:
			r.add(at(&second, ""), "multi-document", "one flow a file", "a second document begins")
			return nil, false
		case !errors.Is(err, io.EOF):
			r.syntax(src, err)
			return nil, false
		}
	}
	before := len(r.problems)
	r.inspectFlow(root, 0)
	return root, len(r.problems) == before
}

// firstDocument is the tree of a file's first document, nil if the file has
// none. What comes after it is in rest, which is nil if nothing does.
func firstDocument(src []byte) (root *yaml.Node, rest *yaml.Decoder, err error) {
	if root = parsePlain(src); root != nil {
		return root, nil, nil
	}
	rest = yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	switch err = rest.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return doc.Content[0], rest, nil
}

// inspectFlow inspects a flow; those within it may be as deep as it may be.
func (r *reader) inspectFlow(n *yaml.Node, level int) {
	if level > maxLevels {
		r.add(at(n, ""), "too-deep", "", "flows within flows over more than %d levels", maxLevels)
		return
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			within := n.Content[i+1]
			if n.Content[i].Value != "flows" || within.Kind != yaml.MappingNode || within.Anchor != "" || entries(within) > maxEntries {
				continue
			}
			for j := 0; j+1 < len(within.Content); j += 2 {
				r.inspectFlow(within.Content[j+1], level+1)
			}
			shell := *within
			shell.Content = nil
			for j := 0; j+1 < len(within.Content); j += 2 {
				shell.Content = append(shell.Content, within.Content[j], &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: within.Content[j].Line})
			}
			whole := *n
			whole.Content = slices.Clone(n.Content)
			whole.Content[i+1] = &shell
			n = &whole
		}
	}
	r.inspect(n, 1)
}

// entries is how many a list or a mapping has.
func entries(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode {
		return len(n.Content) / 2
	}
	return len(n.Content)
}

func (r *reader) inspect(n *yaml.Node, depth int) {
	if depth > maxDepth {
		r.add(at(n, ""), "too-deep", "", "nested deeper than %d levels", maxDepth)
		return
	}
	switch {
	case entries(n) > maxEntries:
		r.add(at(n, ""), "too-large", "", "a list or mapping has %d entries, the limit is %d", entries(n), maxEntries)
		return
	case n.Kind == yaml.AliasNode:
		r.add(at(n, ""), "yaml-feature", "write the value out", "the alias *%s is refused", n.Value)
		return
	case n.Anchor != "":
		r.add(at(n, ""), "yaml-feature", "write the value out where it is used", "the anchor &%s is refused", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		r.add(at(n, ""), "yaml-feature", "", "the tag %s is refused", n.Tag)
	}
	if n.Kind == yaml.MappingNode {
		lines := keyLinesOf(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Tag == "!!merge":
				r.add(at(key, ""), "yaml-feature", "write the keys out", "the merge key << is refused")
			case key.Kind != yaml.ScalarNode:
				r.add(at(key, ""), "bad-value", "", "a key must be a plain word")
			case len(key.Value) > 128:
				r.add(at(key, ""), "too-large", "", "a key has %d bytes, the limit is 128", len(key.Value))
			default:
				if line := lines.before(i); line > 0 {
					r.add(at(key, ""), "duplicate-key", "remove one of the two", "the key %s stands in line %d already", key.Value, line)
				}
			}
		}
	}
	for _, c := range n.Content {
		r.inspect(c, depth+1)
	}
}

// keyLines tells in which lines the keys of a mapping stand. Most mappings are
// so small that looking through them is cheaper than an index.
type keyLines struct {
	of   *yaml.Node
	many map[string]int
}

func keyLinesOf(n *yaml.Node) keyLines {
	if len(n.Content) > 32 {
		return keyLines{n, make(map[string]int, len(n.Content)/2)}
	}
	return keyLines{n, nil}
}

// before is the line of an equal key before the one at a place, or 0. It is
// asked for all keys in their order. A merge key is no equal of a quoted "<<".
func (k keyLines) before(place int) int {
	key := k.of.Content[place]
	if k.many != nil {
		line := k.many[key.Value]
		if line == 0 {
			k.many[key.Value] = key.Line
		}
		return line
	}
	for i := 0; i < place; i += 2 {
		if other := k.of.Content[i]; other.Value == key.Value && other.Kind == yaml.ScalarNode && other.Tag != "!!merge" {
			return other.Line
		}
	}
	return 0
}
