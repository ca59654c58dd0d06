package flows

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// word reads a plain scalar.
func (p *plainYAML) word(inFlow bool) *yaml.Node {
	first := p.peek(0)
	if strings.IndexByte("-?:,[]{}#&*!|>'\"%@` \n", first) >= 0 && (first != '-' || !isDigit(p.peek(1))) {
		return p.refuse()
	}
	n := p.node(yaml.ScalarNode, "")
	line := p.lineRest()
	end := wordEnd(line, inFlow)
	n.Value = strings.TrimRight(line[:end], " ")
	if n.Tag = plainTag(n); n.Tag == "!!merge" {
		return p.refuse()
	}
	p.next += len(n.Value)
	return n
}

// wordEnd is where a plain scalar at the begin of a line ends.
func wordEnd(line string, inFlow bool) int {
	for i := range len(line) {
		last := i+1 == len(line)
		switch line[i] {
		case ' ':
			if !last && line[i+1] == '#' {
				return i
			}
		case ':':
			if last || line[i+1] == ' ' {
				return i
			}
		case ',', '?', '[', ']', '{', '}':
			if inFlow {
				return i
			}
		}
	}
	return len(line)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// plainTag is what the library makes of a plain scalar; the frequent cases are
// told apart here.
func plainTag(n *yaml.Node) string {
	first := n.Value[0]
	if first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z' {
		switch strings.ToLower(n.Value) {
		case "true", "false", "null":
			return n.ShortTag()
		}
		return "!!str"
	}
	if isDigit(first) && strings.ContainsAny(n.Value, "hms") {
		return "!!str" // a duration; neither numbers nor times have these letters
	}
	for i := range len(n.Value) {
		if !isDigit(n.Value[i]) || i > 0 && first == '0' || i > 16 {
			return n.ShortTag()
		}
	}
	return "!!int"
}

// quoted reads a quoted text within a line.
func (p *plainYAML) quoted() *yaml.Node {
	n := p.node(yaml.ScalarNode, "!!str")
	quote := p.src[p.next]
	n.Style = yaml.DoubleQuotedStyle
	if quote == '\'' {
		n.Style = yaml.SingleQuotedStyle
	}
	p.next++
	line := p.lineRest()
	if end := strings.IndexByte(line, quote); end >= 0 && strings.IndexByte(line[:end], '\\') < 0 && !strings.HasPrefix(line[end+1:], "'") {
		n.Value = line[:end]
		p.next += end + 1
		return n
	}
	var out strings.Builder
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\'' && quote == '\'' && strings.HasPrefix(line[i+1:], "'"):
			i++
		case c == quote:
			n.Value = out.String()
			p.next += i + 1
			return n
		case c == '\\' && quote == '"':
			i++
			at := -1
			if i < len(line) {
				at = strings.IndexByte(`"\nt`, line[i])
			}
			if at < 0 {
				return p.refuse()
			}
			c = "\"\\\n\t"[at]
		}
		out.WriteByte(c)
	}
	return p.refuse()
}

// literal reads a text under | or |- and goes on to what follows it.
func (p *plainYAML) literal(indent int) *yaml.Node {
	n := p.node(yaml.ScalarNode, "!!str")
	n.Style = yaml.LiteralStyle
	header := p.lineRest()
	word, comment, _ := strings.Cut(header, " ")
	if comment = strings.TrimLeft(comment, " "); word != "|" && word != "|-" || comment != "" && comment[0] != '#' {
		return p.refuse()
	}
	p.next += len(header)
	var out strings.Builder
	margin, empty := 0, 0
	for p.next < len(p.src) {
		start := p.next + 1
		text := p.src[start : start+lineEnd(p.src[start:])]
		content := strings.TrimLeft(text, " ")
		blanks := len(text) - len(content)
		switch {
		case content == "" && (margin == 0 && text != "" || p.next+1+len(text) == len(p.src) && text != ""):
			return p.refuse()
		case content == "" && blanks <= margin:
			empty++
		case margin == 0 && blanks <= indent || margin > 0 && blanks < margin:
			return p.literalEnd(n, &out, word)
		default:
			if margin == 0 {
				margin = blanks
			}
			for ; empty > 0; empty-- {
				out.WriteByte('\n')
			}
			out.WriteString(text[margin:])
			out.WriteByte('\n')
		}
		p.newLine(start)
		p.next = p.end
	}
	if p.src[len(p.src)-1] != '\n' {
		return p.refuse()
	}
	return p.literalEnd(n, &out, word)
}

func (p *plainYAML) literalEnd(n *yaml.Node, out *strings.Builder, header string) *yaml.Node {
	if out.Len() == 0 {
		return p.refuse()
	}
	n.Value = out.String()
	if header == "|-" {
		n.Value = strings.TrimSuffix(n.Value, "\n")
	}
	p.skip()
	return n
}
