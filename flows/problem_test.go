package flows

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// All problems are found in one go, each with its place and what to do.
//
// Covers: CN1, VK2, VK8.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	const src = `apiVersion: flows/v1
name: many
phase: test
entry: a
sink: done
state:
  n: {type: itn}
  result: {type: enum, values: [none, ok], default: none}
nodes:
  - {id: a, kind: step, uses: test.stpe, promt: x}
  - {id: b, kind: gaet}
  - {id: c, kind: loop, back_to: a}
  - {id: done, kind: sink}
edges:
  - {from: a, to: dnoe, when: "state.reslt == 'ok'"}
  - {from: c, to: done, on: [exhaustd]}
finlly: []
`
	f, problems := Load("many.yaml", []byte(src), testRegistry(t))
	if f != nil {
		t.Error("a flow was returned")
	}
	want := []string{
		"many.yaml:7:13: bad-value: no type is called itn (did you mean int?)",
		"many.yaml:10:5: not-total: node a: a may end with ok and have nowhere to go (add an edge without when, as the last)",
		"many.yaml:10:31: unknown-action: node a: no action is called test.stpe (did you mean test.step?)",
		"many.yaml:10:42: unknown-key: node a: a node of kind step has no key promt",
		"many.yaml:11:19: unknown-kind: node b: no kind is called gaet (did you mean gate?)",
		"many.yaml:12:5: loop-without-max: node c: the loop has no max (add max: 3)",
		"many.yaml:12:5: not-total: node c: c may end with ok and have nowhere to go (add an edge without when, as the last)",
		"many.yaml:15:19: dangling-edge: node a: the edge names dnoe, which is no node (did you mean done?)",
		"many.yaml:15:31: ref-unknown: node a: when: state has no field reslt (did you mean result?)",
		"many.yaml:16:30: outcome-unknown: node c: c never ends with exhaustd (did you mean exhausted?)",
		"many.yaml:17:1: unknown-key: the flow has no key finlly (did you mean finally?)",
	}
	got := strings.Split(problems.Error(), "\n")
	for i := range got { // the list of known keys is long
		got[i], _, _ = strings.Cut(got[i], " (known: ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLimitsOfAFile(t *testing.T) {
	t.Parallel()
	base := string(readFile(t, "testdata/flows/good/linear.yaml"))
	var fields, nodes strings.Builder
	for i := range maxKeys {
		fmt.Fprintf(&fields, "  f%d: {type: int}\n", i)
		fmt.Fprintf(&nodes, "  - {id: n%d, kind: sink}\n", i)
	}
	for name, tc := range map[string]struct{ src, code string }{
		"size":            {base + "#" + strings.Repeat("x", maxFile), "too-large"},
		"depth":           {base + "limits: " + strings.Repeat("[", 30) + strings.Repeat("]", 30) + "\n", "too-deep"},
		"fields":          {strings.Replace(base, "state:\n", "state:\n"+fields.String(), 1), "too-large"},
		"nodes":           {strings.Replace(base, "nodes:\n", "nodes:\n"+nodes.String(), 1), "too-large"},
		"key":             {base + strings.Repeat("k", 200) + ": 1\n", "too-large"},
		"list of many":    {base + "finally: [" + strings.Repeat("x, ", maxEntries) + "x]\n", "too-large"},
		"mapping of many": {base + "flows: {" + strings.Repeat("x: {}, ", maxEntries) + "x: {}}\n", "too-large"},
		"empty":           {"", "no-nodes"},
		"binary":          {"\x00\x01", "yaml-syntax"},
		"list":            {"- a", "bad-value"},
		"null":            {"null", "bad-value"},
		"bomb":            {"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "yaml-feature"},
	} {
		f, problems := Load("x.yaml", []byte(tc.src), testRegistry(t))
		if f != nil || len(problems) == 0 || !strings.Contains(strings.Join(problems.Codes(), " "), tc.code) {
			t.Errorf("%s: %v, want %s", name, problems.Codes(), tc.code)
		}
		if strings.HasSuffix(name, "of many") && len(problems) != 1 {
			t.Errorf("%s: %d problems, want one", name, len(problems))
		}
	}
}

// A problem is one line, whatever names it has to say.
func TestProblemsAreLines(t *testing.T) {
	t.Parallel()
	_, problems := Load("odd\nname.yaml", []byte("\"x\\nfake.yaml:1:1: fine\": 1\nname: \"a\\eb\"\n"), testRegistry(t))
	if len(problems) == 0 {
		t.Fatal("no problems")
	}
	for _, p := range problems {
		if s := p.String(); strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%q", s)
		}
	}
}

// Two files that differ in layout only are one flow; one that differs in
// meaning is another.
//
// Covers: VK20, VK24, CN24.
func TestHash(t *testing.T) {
	t.Parallel()
	reg := testRegistry(t)
	base := string(readFile(t, "testdata/flows/good/linear.yaml"))
	hash := func(src string) string {
		f, problems := Load("x.yaml", []byte(src), reg)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return f.Hash()
	}
	same := strings.NewReplacer("# The smallest", "# A small", "{from: a, to: done}", "{to: done, on: [ok], from: \"a\"}", "default: 0", "default:   0").Replace(base)
	if hash(base) != hash(same) {
		t.Error("layout changes the hash")
	}
	for _, other := range []string{"default: 0→default: 1", "uses: test.step→uses: test.effect", "phase: triage→phase: plan", "{type: int→{input: true, type: int"} {
		from, to, _ := strings.Cut(other, "→")
		if changed := strings.Replace(base, from, to, 1); changed == base || hash(base) == hash(changed) {
			t.Errorf("%s does not change the hash", other)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"finlly": "did you mean finally?", "ndoes": "did you mean nodes?", "zzzz": "", "Name": "did you mean name?",
	} {
		if got := didYouMean(word, append(topKeys(), make([]string, 20)...)); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// The words that a field may have are listed once, whether or not one is near.
func TestAllowedWordsOnce(t *testing.T) {
	t.Parallel()
	src := string(readFile(t, "testdata/flows/bad/bad-value.set.yaml"))
	for word, hint := range map[string]string{"qqqqqq": "", "acepted": "did you mean accepted?"} {
		_, problems := Load("words.yaml", []byte(strings.Replace(src, "result: nope", "result: "+word, 1)), testRegistry(t))
		if len(problems) != 1 || problems[0].Hint != hint || strings.Count(problems[0].Msg, "accepted") != 1 {
			t.Errorf("%s: %v, want one problem with the hint %q", word, problems, hint)
		}
	}
}
