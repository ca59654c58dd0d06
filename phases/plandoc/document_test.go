package plandoc

import (
	"encoding/json"
	"strings"
	"testing"
)

func sample() Document {
	return Document{
		Summary: "Fix.", Steps: []string{"One\nline."}, Files: []File{{Path: "a.go", New: true, Why: "it"}},
		Tests: []Test{{"a_test.go", "TestA"}}, Acceptance: []string{"works"},
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	a, err := sample().Hash()
	if err != nil || len(a) != 64 || Short(a) != a[:8] || Short("abc") != "abc" {
		t.Fatalf("%q, %v", a, err)
	}
	// The hash survives being kept and read again, and changes with anything.
	raw, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	var back Document
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if b, err := back.Hash(); err != nil || b != a {
		t.Errorf("after a round trip: %q, %v", b, err)
	}
	for _, change := range []func(d *Document){
		func(d *Document) { d.Summary += "." },
		func(d *Document) { d.Files[0].New = false },
		func(d *Document) { d.Tests[0].Name = "TestB" },
		func(d *Document) { d.Acceptance = nil },
	} {
		d := sample()
		change(&d)
		if b, err := d.Hash(); err != nil || b == a {
			t.Errorf("%+v has the same hash", d)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := sample().Check(); err != nil {
		t.Error(err)
	}
	for name, d := range map[string]Document{
		"empty": {}, "no steps": {Summary: "x", Files: []File{{Path: "a"}}}, "no files": {Summary: "x", Steps: []string{"y"}},
	} {
		if d.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if (Notes{}).Check() == nil {
		t.Error("notes without findings are accepted")
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	if got := sample().Text(); !strings.Contains(got, "- a.go (new): it\n") || !strings.Contains(got, "- One line.\n") {
		t.Errorf("text:\n%s", got)
	}
	if got := sample().Markdown(); !strings.Contains(got, "1. One line.\n") || !strings.Contains(got, "- `TestA` in `a_test.go`") {
		t.Errorf("markdown:\n%s", got)
	}
}
