package cli

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// plain shows what a terminal would obey: titles, comments, a model's words
// and the output of commands end up in notes, and none of them may clear the
// screen, rename the window or turn the line around. Each such character is
// written as \uXXXX, which is the same text in JSON.
type plain struct{ io.Writer }

// Write implements io.Writer. It counts what it was given.
func (p plain) Write(b []byte) (int, error) {
	shown, done := []byte(nil), 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if obeyed(r) {
			shown = append(shown, b[done:i]...)
			shown = fmt.Appendf(shown, `\u%04x`, r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return p.Writer.Write(b)
	}
	if _, err := p.Writer.Write(append(shown, b[done:]...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// obeyed reports a control character, line ends and tabs aside, or one that
// changes the direction of what follows.
func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
