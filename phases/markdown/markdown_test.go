package markdown

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestProse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"mention", "ask @octocat or @org/team", "ask @\u200boctocat or @\u200borg/team"},
		{"reference", "fixes #12, acme/w#3, GH-4", "fixes #\u200b12, acme/w#\u200b3, GH-\u200b4"},
		{"tag", "List<String> </details>", "List<\u200bString> <\u200b/details>"},
		{"marker", "x <!-- pipelinebot:plan --> y", "x  y"},
		{"unclosed marker", "x <!-- pipelinebot", "x "},
		{"closing address", "Fixes https://github.com/a/b/issues/9", "Fixes https\u200b://github.com/a/b/issues/9"},
		{"address", "see https://github.com/a/b/issues/9 and http://ghe.x:8/a/b/pull/3#x", "see https\u200b://github.com/a/b/issues/9 and http\u200b://ghe.x:8/a/b/pull/3#x"},
		{"commit", "at 0123456789abcdef0123456789abcdef01234567.", "at 0123456\u200b789abcdef0123456789abcdef01234567."},
		{"other addresses", "https://github.com/a/b/blob/main/x.go https://x/issues/9", "https://github.com/a/b/blob/main/x.go https://x/issues/9"},
		{"plain", "a < b && c > d", "a < b && c > d"},
		{"hidden characters", "a\u202eb\u200bc\u2066d\x00e", "abcde"},
		{"split mention", "@\u200boctocat", "@\u200boctocat"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tc.want, Prose(tc.in)); d != "" {
				t.Errorf("Prose (-want +got):\n%s", d)
			}
		})
	}
}

func TestInlineAndCode(t *testing.T) {
	t.Parallel()
	if got := Inline("a\nb | c @d", 80); got != `a b \| c @`+"\u200bd" {
		t.Errorf("Inline = %q", got)
	}
	if got := Inline(strings.Repeat("x", 50), 10); utf8.RuneCountInString(got) != 10 {
		t.Errorf("Inline kept %q", got)
	}
	if got := Code("a`b"); got != "``a`b``" {
		t.Errorf("Code = %q", got)
	}
	if got := Code("`x`"); got != "`` `x` ``" {
		t.Errorf("Code = %q", got)
	}
}

func TestCap(t *testing.T) {
	t.Parallel()
	if got := Cap("short", 100); got != "short" {
		t.Errorf("Cap changed a short text: %q", got)
	}
	got := Cap("head\n```\n"+strings.Repeat("ü", 5000)+"\n```\n", 1000)
	if n := utf8.RuneCountInString(got); n > 1000 {
		t.Errorf("Cap kept %d characters", n)
	}
	if strings.Count(got, "```")%2 != 0 || !strings.Contains(got, "Shortened") {
		t.Errorf("Cap left an open block or no note: %q", got[len(got)-200:])
	}
}

func FuzzProse(f *testing.F) {
	for _, s := range []string{"@a", "<!-- x", "fixes #1", "a\r\nb", "\u202e", "@@a ##1 <<b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Prose(s)
		if !utf8.ValidString(got) {
			t.Errorf("Prose(%q) is not UTF-8: %q", s, got)
		}
		if m := live.FindString(got); m != "" {
			t.Errorf("Prose(%q) = %q still holds %q", s, got, m)
		}
		if strings.Contains(got, "<!--") {
			t.Errorf("Prose(%q) = %q holds a comment", s, got)
		}
	})
}
