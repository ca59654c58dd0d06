package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Of two flows of one name the later place wins, whatever the places are
// called. The double lets the path decide that comes first.
//
// Covers: VK1.
func TestWrongWinner(t *testing.T) {
	t.Parallel()
	type winner func(first, second string) string
	check := func(wins winner) error {
		for _, p := range [][2]string{{"/a", "/b"}, {"/b", "/a"}} {
			if got := wins(p[0], p[1]); got != p[1] {
				return fmt.Errorf("of %s and then %s the flow of %q wins", p[0], p[1], got)
			}
		}
		return nil
	}
	w := newWorld(t, nil)
	ours := func(first, second string) string {
		files := map[string][]byte{"test.yaml": []byte(three)}
		c, err := flows.NewCatalog(w.reg, flows.Source{Name: first, Files: files}, flows.Source{Name: second, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range c.List() {
			if e.Wins {
				names = append(names, e.Source)
			}
		}
		return strings.Join(names, " and ")
	}
	bites(t, check, ours, func(first, second string) string { return min(first, second) })
}

// withText is three with a text in the `with` of b.
func withText(text string) string {
	return strings.Replace(three, "{id: b, kind: step, uses: t.step,", `{id: b, kind: step, uses: t.step, with: {x: "`+text+`"},`, 1)
}

// Covers: VK11.
func TestWrongSelfReference(t *testing.T) {
	t.Parallel()
	ref := regexp.MustCompile(`{{(\w+)}}`)
	bites(t, refuses("ref-self", withText("again {{b}}")), ourLoading(t), func(src string) []string {
		for _, m := range ref.FindAllStringSubmatch(src, -1) {
			if !strings.Contains(src, "{id: "+m[1]+",") {
				return []string{"ref-unknown"} // it knows the node itself, and leaves the text alone
			}
		}
		return nil
	})
}

// expansion inserts texts of the state.
type expansion func(template string, state map[string]string) (string, error)

func ourExpansion(template string, state map[string]string) (string, error) {
	values := map[string]json.RawMessage{}
	for key, v := range state {
		raw, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		values[key] = raw
	}
	with, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	if with, err = flows.Expand(with, flows.NewState(values), flows.RunInfo{}); err != nil {
		return "", err
	}
	var out string
	return out, json.Unmarshal(with, &out)
}

// replaceAll is how texts are inserted wrongly: one key after the other.
func replaceAll(template string, state map[string]string) (string, error) {
	for _, key := range []string{"a", "b"} {
		template = strings.ReplaceAll(template, "{{state."+key+"}}", state[key])
	}
	return template, nil
}

// Covers: VK12.
func TestWrongBlanks(t *testing.T) {
	t.Parallel()
	bites(t, func(expand expansion) error {
		got, err := expand("say {{ state.a }}", map[string]string{"a": "hello"})
		if err == nil && got != "say hello" {
			return fmt.Errorf("neither refused nor replaced: %q", got)
		}
		return nil
	}, ourExpansion, replaceAll)
}

// Covers: VK13, NX13.
func TestWrongSecondExpansion(t *testing.T) {
	t.Parallel()
	bites(t, func(expand expansion) error {
		got, err := expand("{{state.a}}, {{state.b}}", map[string]string{"a": "{{state.b}}", "b": "secret"})
		if want := "{{state.b}}, secret"; err != nil || got != want {
			return fmt.Errorf("got %q, %w", got, errors.Join(err, errors.New("want "+want)))
		}
		return nil
	}, ourExpansion, replaceAll)
}

// Covers: VK14, NX13.
func TestWrongShell(t *testing.T) {
	t.Parallel()
	type command struct {
		Argv []string          `json:"argv"`
		Env  map[string]string `json:"env"`
	}
	type running func(data string) command
	check := func(run running) error {
		for _, data := range []string{"; rm x", "$(rm x)", "{{state.n}}", "a\nb"} {
			got := run(data)
			if want := (command{[]string{"make", "test"}, map[string]string{"NAME": data}}); !reflect.DeepEqual(got, want) {
				return fmt.Errorf("%q became %v", data, got)
			}
		}
		return nil
	}
	ours := func(data string) (got command) {
		w := newWorld(t, map[string]action{"a": sets("s", data), "b": func(_ context.Context, c flows.Call) (flows.Result, error) {
			return flows.Result{}, json.Unmarshal(c.With, &got)
		}})
		w.want(w.walk(w.begin(header+`
nodes:
  - {id: a, kind: step, uses: t.step, writes: [s]}
  - {id: b, kind: command, argv: [make, test], env: {NAME: "{{state.s}}"}, timeout: 1m}
  - {id: done, kind: sink}
edges:
  - {from: a, to: b}
  - {from: b, to: done, set: {result: ok}}
`)), "ended ok: a b done")
		return got
	}
	bites(t, check, ours, func(data string) command {
		return command{[]string{"sh", "-c", "NAME=" + data + " make test"}, nil}
	})
}

// fans is a flow with a fanout of l and r; extra is put into r, edges are
// further edges.
func fans(uses, extra, join, edges string) string {
	return header + `
nodes:
  - {id: a, kind: fanout, branches: [l, r]` + join + `}
  - {id: l, kind: step, uses: t.gate, in: [n], writes: [s]}
  - {id: r, kind: step, uses: ` + uses + `, in: [n], writes: [note]` + extra + `}
  - {id: m, kind: merge, of: [l, r], report: tags}
  - {id: done, kind: sink}
edges:
  - {from: m, to: done, set: {result: ok}}
` + edges
}

// Whether a branch only reads is known of its action. The double asks the
// file.
//
// Covers: CN16.
func TestWrongReadOnlyFlag(t *testing.T) {
	t.Parallel()
	srcs := []string{fans("t.effect", "", ", join: m", ""), fans("t.step", "", ", join: m", ""), fans("t.effect", ", readonly: true", ", join: m", "")}
	if codes := ourLoading(t)(fans("t.gate", "", ", join: m", "")); len(codes) > 0 {
		t.Fatalf("the flow without a fault has %v", codes)
	}
	bites(t, refuses("fanout-writes", srcs...), ourLoading(t), func(src string) []string {
		if strings.Contains(src, "readonly: true") {
			return nil
		}
		return []string{"fanout-writes"}
	})
}

// Covers: CN17.
func TestWrongFanoutWithoutMerge(t *testing.T) {
	t.Parallel()
	bites(t, refuses("fanout-no-merge", fans("t.gate", "", ", join: done", "")), ourLoading(t), func(string) []string {
		return nil // a step of that name exists
	})
}

// Covers: CN18.
func TestWrongBranchElsewhere(t *testing.T) {
	t.Parallel()
	bites(t, refuses("branch-has-edges", fans("t.gate", "", ", join: m", "  - {from: r, to: done}\n")), ourLoading(t), func(src string) []string {
		if !strings.Contains(src, "kind: merge") {
			return []string{"fanout-no-merge"}
		}
		return nil
	})
}

// Covers: AR2.
func TestWrongUnknownKind(t *testing.T) {
	t.Parallel()
	src := strings.Replace(three, "id: b, kind: step", "id: b, kind: stp", 1)
	bites(t, refuses("unknown-kind", src), ourLoading(t), func(src string) []string {
		t.Logf("warning: unknown type in %d bytes", len(src)) // and it goes on
		return nil
	})
}

// No guard is code. The double has a list of bad words.
//
// Covers: AR10, NX13.
func TestWrongEvaluator(t *testing.T) {
	t.Parallel()
	type accepting func(guard string) bool
	check := func(accepts accepting) error {
		for _, guard := range []string{
			"getattr((), '__class__') != nil", "state['a'+'b'] == 1", "state.n.constructor == 1", "filter([1], true) == [1]", "now() != nil",
			"state.s matches '^(a+)+$'", "let x = 1; x == 1", "$env != nil", "state.n + 1 > 0", "toJSON(state) == ''", "{'a': 1}.a == 1", "(1..1000000)[5] == 5",
		} {
			if accepts(guard) {
				return fmt.Errorf("accepted: %s", guard)
			}
		}
		if !accepts("state.n > 0") {
			return errors.New("an honest guard is refused")
		}
		return nil
	}
	load := ourLoading(t)
	ours := func(guard string) bool {
		raw, err := json.Marshal(guard)
		if err != nil {
			t.Fatal(err)
		}
		return len(load(strings.Replace(three, "  - {from: a, to: b}\n", "  - {from: a, to: c, when: "+string(raw)+"}\n  - {from: a, to: b}\n", 1))) == 0
	}
	bites(t, check, ours, func(guard string) bool {
		return !slices.ContainsFunc([]string{"import", "eval(", "exec(", "open("}, func(word string) bool { return strings.Contains(guard, word) })
	})
}
