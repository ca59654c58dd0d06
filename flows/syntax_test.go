package flows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is no YAML is said with its place once, and with what to do.
func TestSyntaxInWords(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"a: 1\nb:\n  \tc: 2\n": "x.yaml:3:3: yaml-syntax: a tab is in the indentation, which YAML does not allow (indent with blanks)",
		"a: 1\nb: {c: [}\n":    "x.yaml:2:1: yaml-syntax: did not find expected node content (look for a missing quote, within {…} and […] above all, and at the indentation)",
	} {
		_, problems := Load("x.yaml", []byte(src), testRegistry(t))
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", src, diff)
		}
	}
}

// A tab in a text is no indentation.
func TestTabInText(t *testing.T) {
	t.Parallel()
	src := strings.Replace(string(readFile(t, "testdata/flows/good/linear.yaml")), "in: [n]", "with: {a: \"x\ty\"}, in: [n]", 1)
	if _, problems := Load("x.yaml", []byte(src), testRegistry(t)); len(problems) > 0 {
		t.Error(problems)
	}
}

// Too many nodes is one problem, not one for each edge.
func TestTooManyNodesIsOneProblem(t *testing.T) {
	t.Parallel()
	var nodes, edges strings.Builder
	for i := range maxNodes + 1 {
		fmt.Fprintf(&nodes, "  - {id: n%d, kind: step, uses: test.step}\n", i)
		fmt.Fprintf(&edges, "  - {from: n%d, to: n%d}\n", i, i+1)
	}
	src := "apiVersion: flows/v1\nname: x\nphase: triage\nentry: n0\nsink: done\nstate:\n  result: {type: enum, values: [none], default: none}\n" +
		"nodes:\n" + nodes.String() + "edges:\n" + edges.String()
	_, problems := Load("x.yaml", []byte(src), testRegistry(t))
	if len(problems) != 1 || problems[0].Code != "too-large" {
		t.Errorf("%v", problems)
	}
}

// A command without an edge on failed is noted: it may be meant so.
func TestNoteOfCommand(t *testing.T) {
	t.Parallel()
	src := strings.Replace(string(readFile(t, "testdata/flows/good/linear.yaml")), "kind: step, uses: test.step, in: [n], writes: [n, result]", "kind: command, argv: [make]", 1)
	for more, want := range map[string]int{"": 1, "  - {from: a, to: done, on: [failed]}\n": 0} {
		f, problems := Load("x.yaml", []byte(src+more), testRegistry(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		if got := Notes(f); len(got) != want {
			t.Errorf("notes: %v, want %d", got, want)
		}
	}
}

// A flow in the place of a phase's own may end in fewer ways, which is noted.
func TestNoteOfResults(t *testing.T) {
	t.Parallel()
	linear := string(readFile(t, "testdata/flows/good/linear.yaml"))
	c, err := NewCatalogWith(LoadOptions{Registry: testRegistry(t), Phases: map[string][]string{"triage": {noResult, "accepted", "declined"}}},
		Source{Name: "mine", Files: map[string][]byte{"triage.yaml": []byte(strings.Replace(linear, "name: linear", "name: triage", 1))}})
	if err != nil {
		t.Fatal(err)
	}
	e := c.List()[0]
	if diff := cmp.Diff([]string{"it never ends with declined, which the phase triage knows"}, e.Notes); diff != "" || len(e.Problems) > 0 {
		t.Errorf("%v, notes (-want +got):\n%s", e.Problems, diff)
	}
}
