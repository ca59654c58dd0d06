package flows

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// A list that would make a message too long loses its last items and says how
// many; one without items says so to people and nothing to programs.
//
// Covers: NX13.
func TestExpandMessage(t *testing.T) {
	t.Parallel()
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf("docs/päge-%02d.md", i)
	}
	s := mustState(t, map[string]any{
		"many": many, "few": []string{"a", "b"}, "none": []string{}, "nums": []int{1, 22, 333}, "huge": strings.Repeat("x", 90), "n": 7,
	})
	for _, tc := range []struct {
		template, want string
		most           int
	}{
		{"plain", "plain", 3},
		{"to: {{state.none}}?", "to: (none)?", 100},
		{"{{state.n}} of {{state.few}}", "7 of a, b", 100},
		{"{{state.nums}}", "1, 22, 333", 10},
		{"Write {{state.many}}?", "Write docs/päge-00.md, docs/päge-01.md … and 48 more?", 60},
		{"{{state.few}}: {{state.many}}", "a, b: docs/päge-00.md … and 49 more", 40},
		{"{{state.many}}", "50 items", 10},
		{"{{state.huge}} {{state.few}}", strings.Repeat("x", 90) + " 2 items", 50},
	} {
		got, err := ExpandMessage(tc.template, s, RunInfo{}, tc.most)
		if err != nil || got != tc.want {
			t.Errorf("%s within %d = %q, %v, want %q", tc.template, tc.most, got, err, tc.want)
		}
	}
	for most := 30; most < 900; most++ {
		got, err := ExpandMessage("Write {{state.many}} and {{state.few}}?", s, RunInfo{}, most)
		if n := utf8.RuneCountInString(got); err != nil || n > most {
			t.Fatalf("within %d: %d letters, %v: %q", most, n, err, got)
		}
	}
	if got, err := ExpandText("{{state.none}}", s, RunInfo{}); err != nil || got != "" {
		t.Errorf("an empty list for a program = %q, %v", got, err)
	}
	if got, err := ExpandMessage("{{state.ghost}}", s, RunInfo{}, 100); err == nil {
		t.Errorf("what is not set = %q", got)
	}
}
