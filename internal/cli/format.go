package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// orDash keeps a table's empty cell visible.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// dollars prints millionths of a dollar.
func dollars(micro int64) string {
	if micro == 0 {
		return "$0"
	}
	return fmt.Sprintf("$%.4f", float64(micro)/1e6)
}

// took rounds a duration for people.
func took(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// moment is a time for people, in their zone.
func moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// oneLine is a text's first line, however long. What would move the cursor or
// break a table is a space.
func oneLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
}

// firstLine shortens a note to what fits behind a table.
func firstLine(s string) string {
	const most = 90
	line := oneLine(s)
	if r := []rune(line); len(r) > most {
		line = string(r[:most]) + "…"
	}
	return line
}
