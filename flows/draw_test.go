package flows

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Every node and edge is drawn once.
//
// Covers: CN6, VK27.
func TestDraw(t *testing.T) {
	t.Parallel()
	for _, file := range testFiles(t, "good/*.yaml") {
		f, problems := LoadWith(file, readFile(t, file), testOptions(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		mermaid := Mermaid(f)
		for _, n := range f.Nodes() {
			open, _ := shape(n.Kind)
			if got := strings.Count(mermaid, "  n_"+n.ID+open+`"`); got != 1 {
				t.Errorf("%s: node %s is drawn %d times", file, n.ID, got)
			}
		}
		lines := 0
		for _, e := range f.Edges() {
			if n, _ := f.Node(e.From); n.Kind == Fanout && e.Takes(OK) {
				lines += 2 * len(n.Branches)
			} else {
				lines++
			}
		}
		if got, want := strings.Count(mermaid, "-->")+strings.Count(mermaid, "-.-> n_")+strings.Count(mermaid, "-.->|\"optional"), lines; got != want {
			t.Errorf("%s: %d edges are drawn, want %d", file, got, want)
		}
		layers := Layers(f)
		if got, want := strings.Count(layers, "    -> "), lines; got != want {
			t.Errorf("%s: %d edges in the layers, want %d", file, got, want)
		}
		golden := filepath.Join("testdata", "drawings", strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt")
		got := mermaid + "\n" + layers
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(readFile(t, golden)), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
	}
}

// A label can't break out of its quotes.
//
// Covers: NX13.
func TestMermaidEscapes(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, strings.Replace(schemaFlow, "edges:\n", "edges:\n  - {from: a, to: done, when: 'state.title == \"]; click x <script> #` | end\"'}\n", 1)+"\n")
	for line := range strings.Lines(Mermaid(f)) {
		if quotes := strings.Count(line, `"`); quotes != 0 && quotes != 2 {
			t.Errorf("quotes in %q", line)
		}
		if strings.Contains(line, "<script>") || strings.Contains(line, "`") {
			t.Errorf("not escaped: %q", line)
		}
	}
}
