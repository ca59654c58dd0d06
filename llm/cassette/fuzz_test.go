package cassette

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode: no file makes the loader panic, and what it takes can be
// written and read again as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("version: 1\ninteractions: []\n"))
	f.Add([]byte("version: 1\ninteractions:\n- request: {model: m, prompt: p, max_tokens: 1, system: '', messages: [{role: user, text: \"a\\tb\"}], schema: {a: [1, 2.5, null, yes, '1']}}\n  response: {stop: end_turn, usage: {input: 3}, json: {$broken: '{'}}\n"))
	f.Add([]byte("version: 1\ninteractions:\n- request: {model: m}\n  error: {kind: transient, retry_after: 3s, message: x}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decode(b)
		if err != nil {
			return
		}
		out, err := encode(all)
		if err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		again, err := decode(out)
		if err != nil {
			t.Fatalf("reading what was written: %v\n%s", err, out)
		}
		if d := cmp.Diff(keys(all), keys(again)); d != "" {
			t.Errorf("keys (-first +again):\n%s", d)
		}
	})
}

func keys(all []entry) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.key)
	}
	return out
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	var a, b []string
	for i := range 5000 {
		a, b = append(a, string(rune('a'+i%26))), append(b, string(rune('A'+i%26)))
	}
	if n := len(diff(a, b)); n > 2000 {
		t.Errorf("diff of %d bytes", n)
	}
	if got, want := diff([]string{"x", "a", "y"}, []string{"x", "b", "y"}), "  x\n- a\n+ b\n  y\n"; got != want {
		t.Errorf("diff = %q, want %q", got, want)
	}
}
