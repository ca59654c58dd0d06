package flows

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Flow files use a small part of YAML: mappings and lists in block and in flow
// style, plain and quoted words within a line, literal texts, comments. That
// part is read here in a tenth of the time that the library takes. The first
// thing that is not of it, right or wrong, ends the attempt, and the library
// reads the whole file and says what is wrong. FuzzPlainYAML holds the two to
// the same tree.

// maxPlainDepth bounds the recursion; inspect has the bound for people.
const maxPlainDepth = 4 * maxDepth

// maxPlainKey bounds a key as it is written. The library has the bound in
// letters, of which no text has more than bytes.
const maxPlainKey = 1024

// plainYAML reads a file of that part.
type plainYAML struct {
	src  string
	next int
	// line counts from 1; start is where it begins, end where its break is.
	line, start, end int
	// The letters of the line up to counted. They are not counted again for
	// each node, since a line may be as long as the file.
	counted, letters int
	depth            int
	// refused says that something was not of the part.
	refused bool
	nodes   nodeStock
}

// parsePlain gives the tree that the library would make of the file, but for
// comments, or nil if the file needs the library.
func parsePlain(src []byte) *yaml.Node {
	p := &plainYAML{src: string(src)}
	if !plainLetters(p.src) {
		return nil
	}
	p.newLine(0)
	p.skip()
	root := p.block(-1)
	if p.skip(); p.refused || p.next < len(p.src) || root.Kind != yaml.MappingNode {
		return nil
	}
	return root
}

// plainLetters refuses what YAML takes for line breaks or forbids, tabs, and
// lines that may be the bounds of documents.
func plainLetters(src string) bool {
	for _, bound := range []string{"---", "...", "%"} {
		if strings.HasPrefix(src, bound) || strings.Contains(src, "\n"+bound) {
			return false
		}
	}
	for _, c := range src {
		switch {
		case c >= ' ' && c < 0x7f || c == '\n':
		case c < 0xa0, c == 0x2028, c == 0x2029, c == utf8.RuneError, notYAML(c):
			return false
		}
	}
	return true
}

func (p *plainYAML) refuse() *yaml.Node {
	p.refused, p.next = true, len(p.src)
	return &yaml.Node{}
}

// peek is the byte at an offset from the next one; a line break at the end.
func (p *plainYAML) peek(offset int) byte {
	if i := p.next + offset; i < len(p.src) {
		return p.src[i]
	}
	return '\n'
}

// column counts bytes from 0.
func (p *plainYAML) column() int { return p.next - p.start }

func (p *plainYAML) node(kind yaml.Kind, tag string) *yaml.Node {
	n := p.nodes.take()
	n.Kind, n.Tag = kind, tag
	n.Line, n.Column = p.mark()
	return n
}

// mark is the place of what is next; columns count letters from 1.
func (p *plainYAML) mark() (line, column int) {
	p.letters += utf8.RuneCountInString(p.src[p.counted:p.next])
	p.counted = p.next
	return p.line, p.letters + 1
}

// newLine says that a line begins.
func (p *plainYAML) newLine(start int) {
	p.line++
	p.start, p.end = start, start+lineEnd(p.src[start:])
	p.counted, p.letters = start, 0
}

// skip goes on to what is no blank, line break or comment.
func (p *plainYAML) skip() {
	for p.next < len(p.src) {
		switch c := p.src[p.next]; {
		case c == ' ':
			p.next++
		case c == '\n':
			p.next++
			p.newLine(p.next)
		case c == '#' && (p.next == p.start || p.src[p.next-1] == ' '):
			p.next = p.end
		default:
			return
		}
	}
}

// endLine goes on to the next content after a value that ends its line.
func (p *plainYAML) endLine() {
	line := p.line
	if p.skip(); p.line == line && p.next < len(p.src) {
		p.refuse()
	}
}

// lineRest is what is left of the line.
func (p *plainYAML) lineRest() string { return p.src[p.next:p.end] }

func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

// isEntry says that a list's dash is next.
func (p *plainYAML) isEntry() bool {
	return p.peek(0) == '-' && blank(p.peek(1))
}

// isKey says that what was read from an offset on is a key, whose colon is
// next.
func (p *plainYAML) isKey(n *yaml.Node, from int) bool {
	return p.peek(0) == ':' && blank(p.peek(1)) && n.Kind == yaml.ScalarNode && n.Style != yaml.LiteralStyle && p.next-from <= maxPlainKey
}

func blank(c byte) bool { return c == ' ' || c == '\n' }

// block reads what stands within something that is indented by the given
// number of columns, and goes on to what follows it.
func (p *plainYAML) block(indent int) *yaml.Node {
	p.depth++
	defer func() { p.depth-- }()
	column := p.column()
	switch {
	case p.depth > maxPlainDepth:
		return p.refuse()
	case p.isEntry():
		return p.list(column)
	}
	from := p.next
	n := p.inline(indent)
	if !p.isKey(n, from) {
		return p.ended(n, indent)
	}
	return p.mapping(n, column)
}

// ended goes on to what follows a value within its line. What is indented more
// than the value's surroundings would belong to it.
func (p *plainYAML) ended(n *yaml.Node, indent int) *yaml.Node {
	if n.Style != yaml.LiteralStyle {
		p.endLine()
	}
	if p.next < len(p.src) && p.column() > indent {
		return p.refuse()
	}
	return n
}

// mapping reads a block mapping, whose first key has been read.
func (p *plainYAML) mapping(key *yaml.Node, column int) *yaml.Node {
	m := p.node(yaml.MappingNode, "!!map")
	m.Line, m.Column, m.Content = key.Line, key.Column, make([]*yaml.Node, 0, 8)
	for {
		p.next++ // the colon
		m.Content = append(m.Content, key, p.valueAfter(column, true))
		switch {
		case p.next >= len(p.src) || p.column() < column:
			return m
		case p.column() > column:
			return p.refuse()
		}
		from := p.next
		key = p.inline(column)
		if !p.isKey(key, from) {
			return p.refuse()
		}
	}
}

// list reads a block list.
func (p *plainYAML) list(column int) *yaml.Node {
	n := p.node(yaml.SequenceNode, "!!seq")
	for p.column() == column && p.isEntry() {
		p.next++ // the dash
		n.Content = append(n.Content, p.valueAfter(column, false))
	}
	if p.next < len(p.src) && p.column() > column {
		return p.refuse()
	}
	return n
}

// valueAfter reads the value after a key's colon or a list's dash, which may
// begin in the same line or in a later one.
func (p *plainYAML) valueAfter(column int, ofKey bool) *yaml.Node {
	line, letter := p.mark()
	p.skip()
	switch {
	case p.next < len(p.src) && p.line == line && ofKey:
		return p.ended(p.inline(column), column)
	case p.next < len(p.src) && p.column() > column:
		return p.block(column)
	case p.column() == column && ofKey && p.isEntry():
		return p.list(column)
	}
	nothing := p.nodes.take()
	nothing.Kind, nothing.Tag, nothing.Line, nothing.Column = yaml.ScalarNode, "!!null", line, letter
	return nothing
}

// inline reads a value that begins in this line and is no block.
func (p *plainYAML) inline(indent int) *yaml.Node {
	switch p.peek(0) {
	case '{', '[':
		return p.flow()
	case '"', '\'':
		return p.quoted()
	case '|':
		return p.literal(indent)
	}
	return p.word(false)
}

// flow reads a mapping or a list in flow style, which may go over lines.
func (p *plainYAML) flow() *yaml.Node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxPlainDepth {
		return p.refuse()
	}
	pairs, end := p.src[p.next] == '{', byte(']')
	n := p.node(yaml.SequenceNode, "!!seq")
	if pairs {
		n.Kind, n.Tag, end = yaml.MappingNode, "!!map", '}'
	}
	n.Style = yaml.FlowStyle
	for p.next++; ; {
		if p.skip(); p.peek(0) == end {
			break
		}
		if n.Content == nil {
			n.Content = make([]*yaml.Node, 0, 4)
		}
		if pairs {
			from := p.next
			key := p.flowValue()
			if !p.isKey(key, from) {
				return p.refuse()
			}
			n.Content = append(n.Content, key)
			p.next++
			p.skip()
		}
		n.Content = append(n.Content, p.flowValue())
		if p.skip(); p.peek(0) == ',' {
			p.next++
		} else if p.peek(0) != end {
			return p.refuse()
		}
	}
	p.next++
	return n
}

func (p *plainYAML) flowValue() *yaml.Node {
	switch p.peek(0) {
	case '{', '[':
		return p.flow()
	case '"', '\'':
		return p.quoted()
	}
	return p.word(true)
}
