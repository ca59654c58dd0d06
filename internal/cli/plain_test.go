package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "",
		"a\tb\nc ü 漢 🎉":                "a\tb\nc ü 漢 🎉",
		"\x1b[2Jgone":                  `\u001b[2Jgone`,
		"a\x1b]0;title\ab":             `a\u001b]0;title\u0007b`,
		"real\rfake":                   `real\u000dfake`,
		"x\u009b31my\x7f":              `x\u009b31my\u007f`,
		"turn\u202edeR \u2066in\u2069": `turn\u202edeR \u2066in\u2069`,
		"not \xff utf8 \xc3":           "not \xff utf8 \xc3",
	} {
		var out bytes.Buffer
		if n, err := (plain{&out}).Write([]byte(in)); n != len(in) || err != nil {
			t.Errorf("%q: wrote %d of %d bytes: %v", in, n, len(in), err)
		}
		if got := out.String(); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// JSON that was made plain holds the same values.
func TestPlainKeepsJSON(t *testing.T) {
	t.Parallel()
	want := "a\x1b[2J\r\x7f\u009b\u202eb"
	var out bytes.Buffer
	(&shell{IO: IO{Out: plain{&out}}}).emit(map[string]string{"note": want})
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["note"] != want {
		t.Errorf("got %q, %v", got["note"], err)
	}
}

func TestPlainReportsErrors(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"plain", "\x1b"} {
		if _, err := (plain{broken{}}).Write([]byte(in)); err == nil {
			t.Errorf("%q: the error is lost", in)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// What comes from outside can't command the terminal of whoever looks at it.
func TestMainIsPlain(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"flow", "check", "\x1b[2J.yaml"},
		{"--json", "flow", "check", "\x1b[2J\u202e.yaml"},
		{"\x1b]0;owned\a"},
	} {
		var out, errs strings.Builder
		code := Main(t.Context(), args, IO{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(string) (string, bool) { return "", false }})
		if all := out.String() + errs.String(); code == ExitOK || all == "" || strings.ContainsAny(all, "\x1b\a\u202e") {
			t.Errorf("%q: exit code %d, %q", args, code, all)
		}
	}
}
