package gates

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Covers: HF19.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	at := func(tree string, failing ...string) Attempt { return Attempt{tree, failing} }
	for name, tt := range map[string]struct {
		history []Attempt
		what    string // part of the words; empty = goes on
	}{
		"none":                      {nil, ""},
		"first":                     {[]Attempt{at("A", "x")}, ""},
		"same twice":                {[]Attempt{at("A", "x"), at("A", "x")}, "attempt 2 left exactly the same content as attempt 1"},
		"same, though set shrank":   {[]Attempt{at("A", "x", "y"), at("A", "x")}, "same content"},
		"A-B-A":                     {[]Attempt{at("A", "x"), at("B", "y"), at("A", "x")}, "attempt 3 went back to exactly the content of attempt 1, with 1 other attempt"},
		"A-B-C-A":                   {[]Attempt{at("A", "x", "y", "z"), at("B", "x", "y"), at("C", "x"), at("A", "x")}, "went back"},
		"shrinks":                   {[]Attempt{at("A", "x", "y", "z"), at("B", "x", "y"), at("C", "x"), at("D")}, ""},
		"two without":               {[]Attempt{at("A", "x"), at("B", "x")}, "attempt 2 settled nothing of what failed in attempt 1: 1 item still failing (x)"},
		"one settled, one new":      {[]Attempt{at("A", "x"), at("B", "y")}, ""},
		"from unknown to known":     {[]Attempt{at("A"), at("B", "y")}, ""},
		"others fail, just as many": {[]Attempt{at("A", "x"), at("B", "y"), at("C", "z")}, "did not make the failing set smaller"},
		"grows":                     {[]Attempt{at("A", "x"), at("B", "x", "y")}, "settled nothing"},
		"shrank within the window":  {[]Attempt{at("A", "x", "y"), at("B", "x"), at("C", "z")}, ""},
		"then stood still":          {[]Attempt{at("A", "x", "y"), at("B", "x"), at("C", "x")}, "attempt 3 settled nothing"},
		"repeated names count once": {[]Attempt{at("A", "x", "y"), at("B", "x", "x"), at("C", "z")}, ""},
		"unknown sets say nothing":  {[]Attempt{at("A"), at("B"), at("C")}, ""},
		"no trees":                  {[]Attempt{at("", "x"), at("", "y")}, ""},
	} {
		stuck, what := NoProgress(tt.history)
		if stuck != (tt.what != "") || !strings.Contains(what, tt.what) {
			t.Errorf("%s: %v, %q", name, stuck, what)
		}
	}
}

func TestShrinkingIsProgress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var history []Attempt
		left := rapid.IntRange(1, 12).Draw(t, "failing at first")
		for left > 0 {
			failing := make([]string, left)
			for i := range failing {
				failing[i] = fmt.Sprint("Test", i)
			}
			history = append(history, Attempt{Tree: fmt.Sprint("tree", left), Failing: failing})
			if stuck, what := NoProgress(history); stuck {
				t.Fatalf("a shrinking set was stopped: %s", what)
			}
			left -= rapid.IntRange(1, 3).Draw(t, "fixed")
		}
	})
}

func TestSignature(t *testing.T) {
	t.Parallel()
	a := Signature("t", []string{"x", "y"}, []string{"f"})
	if len(a) != 16 || a != Signature("t", []string{"y", "x", "x"}, []string{"f"}) {
		t.Errorf("%q is not stable", a)
	}
	for _, b := range []string{Signature("u", []string{"x", "y"}, []string{"f"}), Signature("t", []string{"x"}, []string{"y", "f"}),
		Signature("t", []string{"x", "y", "f"}, nil), Signature("t", []string{"xy"}, []string{"f"})} {
		if a == b {
			t.Error("different attempts share a signature")
		}
	}
}
