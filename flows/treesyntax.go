package flows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlLine = regexp.MustCompile(`line (\d+)`)

// syntax says where a file stops being YAML. The library often names the line
// in which the list or mapping around it begins.
func (r *reader) syntax(src []byte, err error) {
	if line, column, ok := tabbed(src); ok {
		r.add(place{line, column, ""}, "yaml-syntax", "indent with blanks", "a tab is in the indentation, which YAML does not allow")
		return
	}
	p := place{1, 1, ""}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			p.line = n
		}
		msg = strings.TrimPrefix(msg, m[0]+": ")
		// The library counts the lines of what its parser refuses from 0, and
		// those of its scanner from 1.
		for _, parsers := range []string{"node content", "',' or", "key", "'-' indicator", "<"} {
			if strings.HasPrefix(msg, "did not find expected "+parsers) {
				p.line++
				break
			}
		}
	}
	if strings.HasPrefix(msg, "did not find expected key") || strings.HasPrefix(msg, "did not find expected '-'") {
		p.line = max(p.line, givesUp(src, err))
	}
	hint := "look in this line and before it for a missing quote, within {…} and […] above all, and at the indentation"
	if from, to := longQuote(src, p.line); from > 0 {
		hint = fmt.Sprintf("is a quote missing in line %d? The text that begins there ends in line %d", from, to)
	}
	r.add(p, "yaml-syntax", hint, "%s", msg)
}

// givesUp is the first line with which a file is refused in the same words as
// the whole of it: what comes after it is never read.
func givesUp(src []byte, refusal error) int {
	lines := bytes.SplitAfter(src, []byte("\n"))
	return 1 + sort.Search(len(lines)-1, func(last int) bool {
		d := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:last+1], nil)))
		for {
			var doc yaml.Node
			if err := d.Decode(&doc); err != nil {
				return !errors.Is(err, io.EOF) && err.Error() == refusal.Error()
			}
		}
	})
}

// longQuote is where the last text in double quotes begins and ends that goes
// over more than a line and touches the lines up to most; 0 if none does.
func longQuote(src []byte, most int) (from, to int) {
	line, opened, single := 1, 0, false
	for i := 0; i < len(src) && line <= most; i++ {
		before := byte('\n')
		if i > 0 {
			before = src[i-1]
		}
		begins := strings.IndexByte(" \n,[{", before) >= 0
		switch c := src[i]; {
		case c == '\n':
			line, single = line+1, false
		case opened > 0 && c == '\\':
			i++
		case opened > 0 && c == '"':
			if line > opened {
				from, to = opened, line
			}
			opened = 0
		case opened > 0:
		case c == '\'' && (begins || single):
			single = !single
		case single:
		case c == '"' && begins:
			opened = line
		case c == '#' && begins:
			if end := bytes.IndexByte(src[i:], '\n'); end >= 0 {
				i += end - 1
			} else {
				return from, to
			}
		}
	}
	return from, to
}

// tabbed finds the first tab in the indentation of a file that is no YAML.
func tabbed(src []byte) (line, column int, ok bool) {
	for text := range bytes.Lines(src) {
		line++
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if i := bytes.IndexByte(indent, '\t'); i >= 0 && len(bytes.TrimSpace(text)) > 0 {
			return line, i + 1, true
		}
	}
	return 0, 0, false
}
