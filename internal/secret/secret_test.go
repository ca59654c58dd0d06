package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/secret"
)

const text = "tops3cr3t-value"

// TestValuePrintsAsStars tries every way by which a value might be printed.
func TestValuePrintsAsStars(t *testing.T) {
	t.Parallel()
	v := secret.New(text)
	holder := struct{ V secret.Value }{v}
	encoded, err := json.Marshal(map[string]any{"v": v, "h": holder})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v, "h", holder)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v, "h", holder)
	out := fmt.Sprintf("%v %+v %#v %s %q %x %v %+v %#v", v, v, v, v, v, v, holder, holder, holder) + string(encoded) + log.String()
	if strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) {
		t.Errorf("the secret was printed: %s", out)
	}
	if v.Reveal() != text || v.Empty() || !secret.New("").Empty() {
		t.Error("the value is not kept")
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	s := secret.NewScrubber(secret.New(text), secret.New(text+"-longer"), secret.New("ab"))
	for in, want := range map[string]string{
		"a " + text + " b":                          "a **** b",
		text + "-longer":                            "****",
		"ab is too short to hide":                   "ab is too short to hide",
		"ghs_0123456789abcdefABCDEF":                "****",
		"github_pat_11AAAAAAA0abcdefghijklmnop":     "****",
		"Authorization: Bearer abcdef0123456789xyz": "Authorization: ****",
		"https://user:hunter22@host/x":              "https://****@host/x",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----": "****",
		"nothing": "nothing",
	} {
		if got := s.Scrub(in); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", in, got, want)
		}
	}
	var none *secret.Scrubber
	if got := none.Scrub("ghp_0123456789abcdefABCDEF"); got != secret.Stars {
		t.Errorf("a nil scrubber gives %q", got)
	}
	doc := "docs say ghp_0123456789abcdefABCDEF and " + text
	if got := s.Known(doc); got != "docs say ghp_0123456789abcdefABCDEF and ****" {
		t.Errorf("Known gives %q", got)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("x " + text + " y")
	f.Add("://a:b@c")
	s := secret.NewScrubber(secret.New(text))
	f.Fuzz(func(t *testing.T, in string) {
		if out := s.Scrub(in); strings.Contains(out, text) {
			t.Fatalf("left in %q", out)
		}
	})
}
