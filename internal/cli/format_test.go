package cli

import (
	"strings"
	"testing"
)

func TestFirstLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"one\ntwo":               "one",
		"a\fb\vc\td\r":           "a b c d ",
		"\x1b[2Jgone":            " [2Jgone",
		strings.Repeat("é", 100): strings.Repeat("é", 90) + "…",
	} {
		if got := firstLine(in); got != want {
			t.Errorf("firstLine(%q) = %q, want %q", in, got, want)
		}
	}
}
