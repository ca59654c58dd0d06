// Package strictyaml decodes one YAML document into Go values and reports
// every problem at once, each with file, line, column and a hint: unknown and
// duplicate keys, wrong types, several documents, anchors and aliases.
//
// It must not know what it decodes. It may import the YAML library.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxBytes bounds a document: nobody writes a larger one by hand.
const maxBytes = 1 << 20

// Problem is one thing that is wrong.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1; 0 when the place is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is dotted, e.g. "github.app.id" or "repositories[2].name".
	Path string `json:"path"`
	Msg  string `json:"msg"`
	// Hint says what to do; may be empty.
	Hint string `json:"hint,omitempty"`
}

// String is "file:line:column: path: message (hint)".
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Line == 0 {
		s = p.File + ": "
	}
	if p.Path != "" {
		s += p.Path + ": "
	}
	s += p.Msg
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// Problems is an error that lists them all, one a line.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Sort orders problems by place.
func (ps Problems) Sort() {
	sort.SliceStable(ps, func(i, j int) bool {
		return ps[i].Line < ps[j].Line || (ps[i].Line == ps[j].Line && ps[i].Column < ps[j].Column)
	})
}

// Document remembers where each value stood, for checks after decoding.
type Document struct {
	File  string
	nodes map[string]*yaml.Node
}

// Problem places a message at a path; an absent path is placed at its nearest
// ancestor.
func (d *Document) Problem(path, hint, format string, args ...any) Problem {
	p := Problem{File: d.File, Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint}
	for at := path; ; {
		if n := d.nodes[at]; n != nil {
			p.Line, p.Column = n.Line, n.Column
			return p
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			if n := d.nodes[""]; n != nil {
				p.Line, p.Column = n.Line, n.Column
			}
			return p
		}
		at = at[:cut]
	}
}

// Has reports that the document sets a path.
func (d *Document) Has(path string) bool { return d.nodes[path] != nil }

// Decode reads src into the struct that into points to. Struct fields are
// named by their json tags. The Document is never nil.
func Decode(file string, src []byte, into any) (*Document, Problems) {
	d := &Document{File: file, nodes: map[string]*yaml.Node{}}
	if len(src) > maxBytes {
		return d, Problems{{File: file, Msg: fmt.Sprintf("the file has %d bytes; at most %d are read", len(src), maxBytes)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var root yaml.Node
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		return d, Problems{syntaxProblem(file, err)}
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		line := second.Line
		return d, Problems{{File: file, Line: line, Column: 1, Msg: "the file holds more than one YAML document", Hint: "keep one"}}
	}
	w := &walker{doc: d}
	w.value("", root.Content[0], reflect.ValueOf(into).Elem())
	w.problems.Sort()
	return d, w.problems
}

// syntaxProblem places a parser error by the line that its text names.
func syntaxProblem(file string, err error) Problem {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: file, Line: 1, Column: 1, Msg: msg}
	var line int
	if _, serr := fmt.Sscanf(msg, "line %d:", &line); serr == nil {
		p.Line = line
		_, p.Msg, _ = strings.Cut(msg, ": ")
	}
	return p
}
