package flows

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A canonical form is JSON, which is read in half the time that YAML takes.

// parseFrozen is parse for a canonical form.
func (r *reader) parseFrozen(src []byte) (*yaml.Node, bool) {
	if len(src) > r.most || !json.Valid(src) || !utf8.Valid(src) {
		return r.parse(src)
	}
	t := &jsonTree{src: src}
	root := t.value()
	before := len(r.problems)
	r.inspectFlow(root, 0)
	return root, len(r.problems) == before
}

// jsonTree turns JSON that is known to be valid into the tree that the YAML
// parser makes of it.
type jsonTree struct {
	src   []byte
	next  int
	nodes nodeStock
}

func (t *jsonTree) node(kind yaml.Kind, tag string) *yaml.Node {
	n := t.nodes.take()
	n.Kind, n.Tag, n.Line, n.Column = kind, tag, 1, t.next+1
	return n
}

// peek is the next byte that is no blank.
func (t *jsonTree) peek() byte {
	for t.src[t.next] == ' ' || t.src[t.next] == '\t' || t.src[t.next] == '\n' || t.src[t.next] == '\r' {
		t.next++
	}
	return t.src[t.next]
}

func (t *jsonTree) value() *yaml.Node {
	switch c := t.peek(); c {
	case '{':
		n := t.node(yaml.MappingNode, "!!map")
		t.list(n, '}', true)
		return n
	case '[':
		n := t.node(yaml.SequenceNode, "!!seq")
		t.list(n, ']', false)
		return n
	case '"':
		return t.text()
	default:
		return t.word()
	}
}

// list reads the elements of an object or an array.
func (t *jsonTree) list(n *yaml.Node, end byte, pairs bool) {
	t.next++
	if t.peek() == end {
		t.next++
		return
	}
	for {
		if pairs {
			t.peek()
			n.Content = append(n.Content, t.text())
			t.peek()
			t.next++ // the colon
		}
		n.Content = append(n.Content, t.value())
		c := t.peek()
		t.next++
		if c == end {
			return
		}
	}
}

func (t *jsonTree) text() *yaml.Node {
	n := t.node(yaml.ScalarNode, "!!str")
	n.Style = yaml.DoubleQuotedStyle
	from := t.next
	escaped := false
	for t.next++; t.src[t.next] != '"'; t.next++ {
		if t.src[t.next] == '\\' {
			escaped = true
			t.next++
		}
	}
	t.next++
	if escaped {
		// Valid JSON can't fail here.
		_ = json.Unmarshal(t.src[from:t.next], &n.Value)
	} else {
		n.Value = string(t.src[from+1 : t.next-1])
	}
	return n
}

// word reads a number, a truth value or null.
func (t *jsonTree) word() *yaml.Node {
	n := t.node(yaml.ScalarNode, "!!int")
	from := t.next
	for t.next < len(t.src) && bytes.IndexByte([]byte(",]} \t\r\n"), t.src[t.next]) < 0 {
		t.next++
	}
	word := t.src[from:t.next]
	n.Value = string(word)
	switch {
	case n.Value == "true" || n.Value == "false":
		n.Tag = "!!bool"
	case n.Value == "null":
		n.Tag = "!!null"
	case bytes.ContainsAny(word, ".eE"):
		n.Tag = "!!float"
	}
	return n
}
