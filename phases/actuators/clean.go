package actuators

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// These are compiled once and only read.
var (
	fenceTag = regexp.MustCompile(`(?i)<\s*/?\s*data\b`)
	comment  = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
)

// maxNested bounds the passes over a text.
const maxNested = 8

// CleanUntrusted removes what a person does not see but a model reads: HTML
// comments, zero-width and bidirectional controls, tag characters, variation
// selectors beyond the usual one, and control characters other than tab and
// newline. Line ends become \n and invalid UTF-8 is replaced. Cleaning twice
// changes nothing more.
func CleanUntrusted(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		if r == '\r' {
			return '\n'
		}
		if hidden(r) {
			return -1
		}
		return r
	}, text)
	// Removing a comment may put together another one. Who nests them deeper
	// than anybody writes by accident gets them shown instead.
	for range maxNested {
		if !strings.Contains(text, "<!--") {
			return text
		}
		text = comment.ReplaceAllString(text, "")
	}
	return strings.ReplaceAll(text, "<!--", "&lt;!--")
}

// ShowHidden makes visible what a person does not see: runes that
// CleanUntrusted removes are shown as <U+202E>, comments stay. A carriage return
// at the end of a line is no secret and goes. Invalid UTF-8 is replaced.
func ShowHidden(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\r\n", "\n")
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports a rune that changes what is read without being seen.
func hidden(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	case r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x180e: // soft hyphen, joiner, Arabic mark, Mongolian separator
		return true
	case r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0: // blank letters
		return true
	case r >= 0x180b && r <= 0x180f: // Mongolian variation selectors
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f: // zero width, bidi
		return true
	case r == 0x2028 || r == 0x2029: // separators that split lines unseen
		return true
	case r >= 0xfe00 && r <= 0xfe0e: // variation selectors; FE0F (emoji) stays
		return true
	case r == 0xfeff, r >= 0xfff9 && r <= 0xfffb: // byte order mark, annotations
		return true
	case r >= 0xe0000 && r <= 0xe0fff: // tags, further variation selectors
		return true
	default:
		return false
	}
}
