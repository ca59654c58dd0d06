package gates

import (
	"bytes"
	"fmt"
	"strings"
)

// patch is what the checks need of a git patch: the added lines by file.
type patch []patchFile

type patchFile struct {
	path  string
	added []addedLine
}

type addedLine struct {
	number int // on the new side, from 1
	text   string
}

// content is what was added to a file, without line ends.
func (p patch) content(path string) string {
	for _, f := range p {
		if f.path == path {
			lines := make([]string, len(f.added))
			for i, l := range f.added {
				lines[i] = l.text
			}
			return strings.Join(lines, "\n")
		}
	}
	return ""
}

// parsePatch reads the output of `git diff`. Lines are counted by the hunk
// headers, so that content which looks like a header is content. Binary parts
// have no lines.
func parsePatch(raw []byte) patch {
	var (
		out            patch
		oldLeft, left  int
		number         int
		minus, current string
	)
	for len(raw) > 0 {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		raw = rest
		if oldLeft > 0 || left > 0 {
			var kind byte = ' '
			if len(line) > 0 {
				kind = line[0]
			}
			switch kind {
			case '+':
				if n := len(out); n > 0 {
					out[n-1].added = append(out[n-1].added, addedLine{number, string(line[1:])})
				}
				left--
				number++
			case '-':
				oldLeft--
			case '\\': // "\ No newline at end of file"
			default:
				oldLeft--
				left--
				number++
			}
			continue
		}
		text := string(line)
		switch {
		case strings.HasPrefix(text, "--- "):
			minus = headerPath(text[4:])
		case strings.HasPrefix(text, "+++ "):
			current = headerPath(text[4:])
			if current == "" {
				current = minus
			}
			out = append(out, patchFile{path: current})
		case strings.HasPrefix(text, "@@ -"):
			number, oldLeft, left = hunk(text)
		}
	}
	return out
}

// hunk reads "@@ -1,2 +3,4 @@"; a count that is absent is 1.
func hunk(line string) (start, oldCount, newCount int) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return 0, 0, 0
	}
	span := func(s string) (from, count int) {
		count = 1
		if _, err := fmt.Sscanf(s[1:], "%d,%d", &from, &count); err != nil && from == 0 {
			count = 0
		}
		return max(from, 0), max(count, 0)
	}
	_, oldCount = span(fields[1])
	start, newCount = span(fields[2])
	return start, oldCount, newCount
}

// headerPath is the path of a "+++ b/…" header; "" for /dev/null. A tab ends
// names with blanks in them; odd names are C-quoted.
func headerPath(s string) string {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) {
		s = unquote(s)
	} else {
		s, _, _ = strings.Cut(s, "\t")
	}
	if s == "/dev/null" {
		return ""
	}
	_, path, ok := strings.Cut(s, "/")
	if !ok {
		return s
	}
	return path
}

// unquote reads git's C-style quoting: \a \b \t \n \v \f \r \" \\ and three
// octal digits.
func unquote(s string) string {
	var b strings.Builder
	for i := 1; i < len(s) && s[i] != '"'; i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if at := strings.IndexByte("abtnvfr", s[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[at])
			continue
		}
		if i+2 < len(s) && octal(s[i]) && octal(s[i+1]) && octal(s[i+2]) {
			b.WriteByte((s[i]-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
