package review

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
)

// newLines are the lines that a git patch shows on its new side, by path.
// Inline comments may sit only there; anything else is refused with a 422.
func newLines(patch []byte) map[string]map[int]bool {
	out := map[string]map[int]bool{}
	path, line, left := "", 0, 0
	oldLeft := 0
	s := bufio.NewScanner(bytes.NewReader(patch))
	s.Buffer(make([]byte, 0, 64<<10), 16<<20)
	for s.Scan() {
		text := s.Text()
		if left > 0 || oldLeft > 0 {
			switch {
			case strings.HasPrefix(text, "+"):
				mark(out, path, line)
				line, left = line+1, left-1
				continue
			case strings.HasPrefix(text, "-"):
				oldLeft--
				continue
			case strings.HasPrefix(text, " "), text == "":
				mark(out, path, line)
				line, left, oldLeft = line+1, left-1, oldLeft-1
				continue
			case strings.HasPrefix(text, `\`):
				continue
			}
			left, oldLeft = 0, 0 // not a patch any more
		}
		switch {
		case strings.HasPrefix(text, "diff --git "):
			path = ""
		case strings.HasPrefix(text, "+++ "):
			path = newPath(strings.TrimPrefix(text, "+++ "))
		case strings.HasPrefix(text, "@@ "):
			oldLeft, line, left = hunk(text)
		}
	}
	return out
}

func mark(out map[string]map[int]bool, path string, line int) {
	if path == "" {
		return
	}
	if out[path] == nil {
		out[path] = map[int]bool{}
	}
	out[path][line] = true
}

// newPath reads the path of a "+++" line: "b/…", quoted when it has unusual
// characters, "/dev/null" for a deletion.
func newPath(s string) string {
	s = strings.TrimRight(s, "\t")
	if strings.HasPrefix(s, `"`) {
		q, err := strconv.Unquote(s)
		if err != nil {
			return ""
		}
		s = q
	}
	path, ok := strings.CutPrefix(s, "b/")
	if !ok {
		return ""
	}
	return path
}

// hunk reads "@@ -a,b +c,d @@"; a count that is left out is 1.
func hunk(s string) (oldCount, start, count int) {
	fields := strings.Fields(s)
	if len(fields) < 4 || fields[3] != "@@" || !strings.HasPrefix(fields[1], "-") || !strings.HasPrefix(fields[2], "+") {
		return 0, 0, 0
	}
	_, oldCount, ok1 := span(fields[1][1:])
	start, count, ok2 := span(fields[2][1:])
	if !ok1 || !ok2 {
		return 0, 0, 0
	}
	return oldCount, start, count
}

func span(s string) (start, count int, ok bool) {
	a, b, two := strings.Cut(s, ",")
	start, err := strconv.Atoi(a)
	count = 1
	if err == nil && two {
		count, err = strconv.Atoi(b)
	}
	return start, count, err == nil && start >= 0 && count >= 0
}
