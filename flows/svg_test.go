package flows

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// titles are the texts of all title elements of an XML document.
func titles(t *testing.T, src string) []string {
	t.Helper()
	var got []string
	d := xml.NewDecoder(strings.NewReader(src))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("no XML: %v\n%s", err, src)
		}
		switch el := tok.(type) {
		case xml.StartElement:
			switch el.Name.Local {
			case "title":
				var text string
				if err := d.DecodeElement(&text, &el); err != nil {
					t.Fatal(err)
				}
				got = append(got, text)
			case "svg", "style", "rect", "path", "polygon", "g", "text":
			default:
				t.Errorf("element %s", el.Name.Local)
			}
		}
	}
}

// A picture is XML without script that shows every node once.
//
// Covers: CN6.
func TestSVG(t *testing.T) {
	t.Parallel()
	for _, file := range testFiles(t, "good/*.yaml") {
		f, problems := LoadWith(file, readFile(t, file), testOptions(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		got := SVG(f)
		count := map[string]int{}
		for _, title := range titles(t, got) {
			count[title]++
		}
		for _, n := range f.Nodes() {
			if count[n.label()] != 1 {
				t.Errorf("%s: node %s is drawn %d times", file, n.ID, count[n.label()])
			}
		}
		if got, want := strings.Count(got, `class="tip"`), len(f.ways()); got != want && !f.Stops() {
			t.Errorf("%s: %d lines, want %d", file, got, want)
		}
		if SVG(f) != got {
			t.Errorf("%s: two drawings differ", file)
		}
		if name := strings.TrimSuffix(filepath.Base(file), ".yaml"); name == "fanout" {
			golden(t, name+".svg", got)
			golden(t, name+"-path.svg", SVG(f, MarkPath([]string{"explore", "synth", "more", "explore", "synth"}, "second")))
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "drawings", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, file)), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// Nothing in a flow can break out of a picture.
//
// Covers: NX13.
func TestSVGEscapes(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, strings.Replace(schemaFlow, "edges:\n", "edges:\n  - {from: a, to: done, when: 'state.title == \"<script>alert(1)</script> & ]]> -->\"'}\n", 1)+"\n")
	got := SVG(f)
	if strings.Contains(got, "<script") {
		t.Error("not escaped")
	}
	found := false
	for _, title := range titles(t, got) {
		found = found || strings.Contains(title, "<script>alert(1)</script> & ]]> -->")
	}
	if !found {
		t.Error("the guard is not in the picture")
	}
}

// What a run visited and took stands out, over fanouts and stops too.
//
// Covers: HF6, NX17.
func TestMarks(t *testing.T) {
	t.Parallel()
	load := func(name string) *Flow {
		f, problems := LoadWith(name, readFile(t, filepath.Join("testdata", "flows", "good", name)), testOptions(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := load("fanout.yaml")
	m := MarkPath([]string{"explore", "synth", "more", "explore"}, "synth")
	want := Marks{
		Visits: map[string]int{"explore": 2, "synth": 1, "more": 1},
		Taken:  map[[2]string]int{{"explore", "synth"}: 2, {"synth", "more"}: 1, {"more", "explore"}: 1}, At: "synth",
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	mermaid := Mermaid(f, m)
	for _, line := range []string{
		"  class n_explore visited", "  class n_docs visited", "  class n_synth here", "  linkStyle 1,3,6,7,8,9,10,11 stroke:#2da44e,stroke-width:3px",
	} {
		if !strings.Contains(mermaid, line+"\n") {
			t.Errorf("no line %q in\n%s", line, mermaid)
		}
	}
	if strings.Contains(mermaid, "class n_second") {
		t.Errorf("a node that was not visited is marked:\n%s", mermaid)
	}
	if got := Mermaid(f, Marks{}); got != Mermaid(f) {
		t.Error("no marks change the drawing")
	}
	stopped := MarkPath([]string{"a", "b"}, "done")
	base := load("base.yaml")
	if got := Mermaid(base, stopped); !strings.Contains(got, "linkStyle 0,7 ") {
		t.Errorf("the stop edge is not marked:\n%s", got)
	}
	if got := strings.Count(SVG(base, stopped), `taken"`); got != 2 {
		t.Errorf("%d lines of the picture are marked, want 2", got)
	}
}
