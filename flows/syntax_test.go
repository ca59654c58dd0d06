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
		"a: 1\nb: {c: [}\n":    "x.yaml:2:1: yaml-syntax: did not find expected node content (look in this line and before it for a missing quote, within {…} and […] above all, and at the indentation)",
	} {
		_, problems := Load("x.yaml", []byte(src), testRegistry(t))
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", src, diff)
		}
	}
}

// A slip is said to be in or before the line in which the file stops making
// sense, not at the beginning of the list around it.
func TestSyntaxPlaces(t *testing.T) {
	t.Parallel()
	src := string(readFile(t, "testdata/flows/good/base.yaml"))
	line := func(part string) int { return 1 + strings.Count(src[:strings.Index(src, part)], "\n") }
	_, problems := Load("x.yaml", []byte(strings.Replace(src, "  - {id: again", "   - {id: again", 1)), testRegistry(t))
	if want := line("  - {id: again"); len(problems) != 1 || problems[0].Line != want || problems[0].Code != "yaml-syntax" {
		t.Errorf("an item too far to the right: %v, want line %d", problems, want)
	}
	const file = "a: 1\nb: \"x\n# it's \"fine\"\nc: 'a \" b'\nd: \"y\"\n"
	_, problems = Load("x.yaml", []byte(file), testRegistry(t))
	if len(problems) != 1 || problems[0].Hint != "is a quote missing in line 2? The text that begins there ends in line 3" {
		t.Errorf("a missing quote: %v", problems)
	}
}

// One slip is one problem, with what to write instead.
func TestOneSlipIsOneProblem(t *testing.T) {
	t.Parallel()
	read := func(name string) string { return string(readFile(t, "testdata/flows/good/"+name+".yaml")) }
	const fanout = `apiVersion: flows/v1
name: bad
phase: triage
entry: f
sink: done
state:
  n: {type: int, default: 0}
  x: {type: string, default: ""}
  text: {type: string, default: ""}
  lines: {type: list, of: string, max_items: 2, default: []}
  result: {type: enum, values: [none, accepted, closed], default: none}
nodes:
  - {id: f, kind: fanout, branches: [one, two], join: m, max_parallel: 2}
  - {id: one, kind: step, uses: test.read, in: [n], writes: [x]}
  - {id: two, kind: step, uses: test.read, in: [n], writes: [], required: false}
  - {id: m, kind: merge, of: [one, two], report: lines}
  - {id: after, kind: step, uses: test.ends}
  - {id: done, kind: sink}
stop: {to: done}
edges:
  - {from: f, to: done, on: [failed], set: {result: accepted}}
  - {from: m, to: after, when: "state.n > 0"}
  - {from: m, to: done, set: {result: accepted}}
  - {from: after, to: done, set: {result: accepted}}
`
	asks := strings.Replace(fanout, "{id: after, kind: step, uses: test.ends}", `{id: after, kind: approval, message: "Go?", approvers: [role:write], expires: 1h}`, 1)
	asks = strings.Replace(asks, "stop: {to: done}\n", "", 1) + "  - {from: after, to: done, on: [denied]}\n"
	for name, tc := range map[string]struct{ src, from, to, want string }{
		"a key":               {asks, "expires: 1h", "expire: 1h", "unknown-key: node after: a node of kind approval has no key expire (did you mean expires?)"},
		"a required key":      {asks, "approvers:", "aprovers:", "unknown-key: node after: a node of kind approval has no key aprovers (did you mean approvers?)"},
		"the entry":           {asks, "entry: f", "entri: f", "unknown-key: the flow has no key entri (did you mean entry?)"},
		"the sink":            {asks, "sink: done", "sinc: done", "unknown-key: the flow has no key sinc (did you mean sink?)"},
		"the join":            {asks, "join: m", "joins: m", "unknown-key: node f: a node of kind fanout has no key joins (did you mean join?)"},
		"the way back":        {read("base"), "back_to:", "backto:", "unknown-key: node again: a node of kind loop has no key backto (did you mean back_to?)"},
		"the bound":           {read("base"), "max: 2", "maxx: 2", "unknown-key: node again: a node of kind loop has no key maxx (did you mean max?)"},
		"an outcome":          {asks, "on: [denied]", "on: [deny]", "outcome-unknown: node after: after never ends with deny (did you mean denied?)"},
		"an outcome alone":    {asks, "on: [denied]", "on: denied", "bad-value: node after: on of an edge must be a list (write [denied])"},
		"a comma":             {asks, `"Go?"`, "Go, please", "unknown-key: node after: a node of kind approval has no key please (a comma ends a text within {…}: put the text before it into quotes)"},
		"a comma in with":     {read("linear"), "uses: test.step, in: [n], writes: [n, result]", "uses: test.strict, with: {field: a b, please}", "bad-with: node a: test.strict takes no please (a comma ends a text within {…}: put the text before it into quotes)"},
		"a name":              {asks, "name: bad", "name: Bad", `bad-name: name "Bad" of the flow is no name (small letters, digits, _ and -, a letter first, at most 64)`},
		"an id":               {read("linear"), "name: linear", "name: lin-ea_r2", ""},
		"a writer":            {fanout, "of: [one, two]", "of: [one, two, after]", "fanout-writes: node after: the action test.ends is not registered as one that only reads, so it can't be a branch (use a subflow for work that writes)"},
		"a place too few":     {fanout, "max_items: 2", "max_items: 1", "take-mismatch: node m: report needs a place for each branch: max_items of state.lines is 1, and there are 2 branches (max_items: 2)"},
		"no list":             {fanout, "report: lines", "report: text", "take-mismatch: node m: report needs a list of texts, and state.text is of type string ({type: list, of: string, default: []})"},
		"a renamed node":      {fanout, "- {id: after", "- {id: tell_all", "dangling-edge: node m: the edge names after, which is no node (did you mean tell_all? no edge leads there)\ndangling-edge: node after: the edge names after, which is no node (did you mean tell_all? no edge leaves it)"},
		"an end":              {fanout, "  - {from: after, to: done, set: {result: accepted}}\n", "", "dead-end: node after: no edge leaves after (add an edge to done, also where the action ends the flow itself)"},
		"a number for a text": {fanout, "state.n > 0", "state.x == 3", "guard-type: node m: when: state.x is of type string and can't equal a number"},
		"a text for a number": {fanout, "state.n > 0", "state.n == 'a'", "guard-type: node m: when: state.n is of type int and can't equal a text"},
	} {
		src := strings.Replace(tc.src, tc.from, tc.to, 1)
		if name == "a writer" {
			src = strings.Replace(src, "branches: [one, two]", "branches: [one, two, after]", 1)
		}
		if src == tc.src {
			t.Fatalf("%s: %s is not in the flow", name, tc.from)
		}
		_, problems := Load("x.yaml", []byte(src), testRegistry(t))
		var got []string
		for _, p := range problems {
			_, rest, _ := strings.Cut(p.String(), ": ")
			got = append(got, rest)
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
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
