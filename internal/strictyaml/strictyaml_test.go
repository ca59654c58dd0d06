package strictyaml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

type inner struct {
	Name string        `json:"name"`
	Wait time.Duration `json:"wait"`
}

type outer struct {
	Count *int             `json:"count"`
	On    bool             `json:"on"`
	Rate  float64          `json:"rate"`
	List  []inner          `json:"list"`
	Map   map[string]inner `json:"map"`
	Free  any              `json:"free"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var got outer
	doc, problems := strictyaml.Decode("f.yaml", []byte("count: 0\non: true\nrate: 2\nlist:\n  - {name: a, wait: 90s}\nmap:\n  k: {name: b}\nfree: {x: [1, two]}\n"), &got)
	if problems != nil {
		t.Fatal(problems)
	}
	zero := 0
	want := outer{
		Count: &zero, On: true, Rate: 2, List: []inner{{"a", 90 * time.Second}},
		Map: map[string]inner{"k": {Name: "b"}}, Free: map[string]any{"x": []any{1, "two"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if p := doc.Problem("list[0].wait", "", "too long"); p.String() != "f.yaml:5:21: list[0].wait: too long" {
		t.Errorf("placed at %q", p)
	}
	if p := doc.Problem("map.k.missing", "", "missing"); p.Line != 7 {
		t.Errorf("an absent key is placed at line %d, want its parent's, 7", p.Line)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, src, want string }{
		{"all at once", "cout: 1\non: 7\nlist: {}\nrate: x\n", `f.yaml:1:1: cout: unknown key (did you mean "count"?)
f.yaml:2:5: on: want true or false, got the number 7
f.yaml:3:7: list: want a list, got a mapping
f.yaml:4:7: rate: want a number, got the text "x"`},
		{"duplicate", "on: true\non: false\n", "f.yaml:2:1: on: the key is set twice, first in line 1"},
		{"duration", "list: [{wait: 5}]\n", `f.yaml:1:15: list[0].wait: want a duration, got the number 5 (write it like "90s", "10m" or "24h")`},
		{"alias", "list: [&a {name: x}, *a]\n", `f.yaml:1:8: list[0]: anchors and aliases are not allowed (write the value out)
f.yaml:1:22: list[1]: anchors and aliases are not allowed (write the value out)`},
		{"merge", "map: {<<: {}}\n", `f.yaml:1:7: map: want a plain key, got the text "<<"`},
		{"two documents", "on: true\n---\non: false\n", "f.yaml:2:1: the file holds more than one YAML document (keep one)"},
		{"no mapping", "- a\n", "f.yaml:1:1: want a mapping (key: value), got a list"},
		{"syntax", "on: [\n", "f.yaml:1:1: did not find expected node content"},
		{"number as text", "map: {k: {name: 5}}\n", "f.yaml:1:17: map.k.name: want text, got the number 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var v outer
			_, problems := strictyaml.Decode("f.yaml", []byte(tt.src), &v)
			if diff := cmp.Diff(tt.want, problems.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	if _, problems := strictyaml.Decode("f", []byte(strings.Repeat("#", 2<<20)), &outer{}); len(problems) != 1 {
		t.Errorf("an oversized file gives %v", problems)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("count: 0\nlist: [{name: a}]\nfree: {x: &a [1], y: *a}\n"))
	f.Add([]byte("map: {<<: {a: 1}}\n---\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		var v outer
		_, problems := strictyaml.Decode("f.yaml", src, &v)
		for _, p := range problems {
			if p.Msg == "" {
				t.Fatal("a problem without words")
			}
		}
	})
}
