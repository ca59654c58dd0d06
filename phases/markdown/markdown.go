// Package markdown makes text fit to be shown on a forge: what people, files
// and models wrote is data, so mentions ring nobody, references link nothing,
// hidden markers cannot be forged and bodies stay under the forge's limit. It
// also strips what people cannot see from text that is read.
//
// It must not know phases, forges or models, and imports only the standard
// library.
package markdown

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBody is the most characters of a comment, review or pull request body
// that we send; GitHub refuses more than 65,536 with a 422.
const MaxBody = 60_000

// breaker is a zero-width space: it ends a mention, a reference or a tag
// without being seen.
const breaker = "\u200b"

// live matches the characters that GitHub acts upon: a mention, an issue
// reference and the start of a tag, closing tag or comment.
var live = regexp.MustCompile(`@[A-Za-z0-9]|#[0-9]|<[A-Za-z/!?]|(?i:\bgh-)[0-9]`)

// closing matches a closing keyword before an address, which closes that
// issue when it stands in a pull request or commit.
var closing = regexp.MustCompile(`(?i)\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(:?\s+)(https?)(://)`)

// address matches the address of an issue, a pull request, a discussion or a
// commit: shown bare it becomes a reference, which notes itself over there.
var address = regexp.MustCompile(`(?i)\b(https?)(://[^\s/()<>]+/[^\s/()<>]+/[^\s/()<>]+/(?:issues|pull|discussions|commit)/[0-9a-f])`)

// commit matches the name of a commit, which becomes a reference as well.
var commit = regexp.MustCompile(`\b([0-9a-fA-F]{7})([0-9a-fA-F]{33})\b`)

// Prose makes text of others harmless as Markdown and keeps its lines.
func Prose(s string) string {
	s = live.ReplaceAllStringFunc(Visible(s), func(m string) string {
		last := len(m) - 1
		return m[:last] + breaker + m[last:]
	})
	s = closing.ReplaceAllString(s, "${1}${2}${3}"+breaker+"${4}")
	s = address.ReplaceAllString(s, "${1}"+breaker+"${2}")
	return commit.ReplaceAllString(s, "${1}"+breaker+"${2}")
}

// Inline is Prose on one line of at most limit characters, for titles, table
// cells and list items.
func Inline(s string, limit int) string {
	s = strings.Join(strings.Fields(Visible(s)), " ")
	return strings.ReplaceAll(Prose(cut(s, limit)), "|", "\\|")
}

// Code is a code span that holds s whatever backticks it contains.
func Code(s string) string {
	s = strings.Join(strings.Fields(Visible(s)), " ")
	if s == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		return ticks + " " + s + " " + ticks
	}
	return ticks + s + ticks
}

// Details is a collapsed block; body is Markdown already.
func Details(summary, body string) string {
	return "<details><summary>" + Inline(summary, 200) + "</summary>\n\n" + strings.TrimRight(body, "\n") + "\n\n</details>\n"
}

// Cap shortens a body to at most limit characters and says so at its end.
func Cap(s string, limit int) string {
	n := utf8.RuneCountInString(s)
	if n <= limit {
		return s
	}
	note := fmt.Sprintf("\n\n_Shortened: %d of %d characters are shown; the whole text is kept with the run._\n", limit, n)
	keep := cut(s, limit-utf8.RuneCountInString(note)-8)
	// A cut inside a code block would swallow the note.
	if strings.Count(keep, "\n```")%2 == 1 {
		keep += "\n```"
	}
	return keep + note
}

// hidden is an HTML comment, closed or not.
var hidden = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)

// Visible strips what a reader of the rendered page would not see: HTML
// comments, zero-width and direction-changing characters, control characters.
// Line ends become "\n".
func Visible(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	s = hidden.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r),
			r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF:
			// Cf holds zero-width, bidirectional and tag characters; the
			// ranges are variation selectors, which can carry hidden text.
			return -1
		}
		return r
	}, s)
}

// cut keeps at most limit characters.
func cut(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)
	return string(r[:limit-1]) + "…"
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	return longest
}
