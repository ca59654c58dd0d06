package gates

import (
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// report is what an output says about the tests.
type report struct {
	// known says that the counts were read.
	known                   bool
	passed, failed, skipped int
	failing                 []string
	// text is the whole output for people, excerpt its telling part.
	text, excerpt string
}

// ran is the number of executed tests, -1 when unknown.
func (r report) ran() int {
	if !r.known {
		return -1
	}
	return r.passed + r.failed
}

// reader reads one tool's output; not known when it is not that tool's.
type reader func(lines []string) report

// readReport finds out what was run and how it went. The format is known for
// go test and otherwise recognised, most telling first.
func readReport(argv []string, res command.Result) report {
	if isGoTest(argv) {
		return readGoJSON(res)
	}
	text := stripANSI(strings.ToValidUTF8(string(res.Output), "\uFFFD"))
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	rep := report{}
	for _, read := range []reader{readCargo, readPytest, readNode, readJest, readGoText, readPlain} {
		if got := read(lines); got.known {
			rep = got
			break
		}
	}
	// A program that succeeds may still print such words.
	if len(rep.failing) == 0 && res.ExitCode != 0 {
		rep.failing = readFailNames(lines)
	}
	rep.text = text
	rep.excerpt = strings.TrimSpace(text)
	return rep
}

// stripANSI removes colour and cursor sequences (CSI and OSC).
func stripANSI(s string) string {
	if !strings.ContainsRune(s, '\x1b') {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\x1b' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 >= len(s) {
			break
		}
		i++
		switch s[i] {
		case '[':
			for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
				if s[i] == '\n' { // an unfinished sequence ends with its line
					i--
					break
				}
			}
		case ']':
			for i++; i < len(s) && s[i] != '\a' && s[i] != '\n'; i++ {
			}
		}
	}
	return b.String()
}
