package flows

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// Load never panics, and what it accepts has a canonical form that it accepts
// as the same flow.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		for _, file := range testFiles(f, pattern) {
			f.Add(readFile(f, file))
		}
	}
	opts := testOptions(f)
	reg := opts.Registry
	f.Fuzz(func(t *testing.T, src []byte) {
		flow, problems := LoadWith("fuzz.yaml", src, opts)
		if (flow == nil) == (len(problems) == 0) {
			t.Fatalf("flow %v with problems %v", flow, problems)
		}
		if flow == nil {
			return
		}
		again, problems := LoadWith("definition", flow.Definition(), LoadOptions{Registry: reg, frozen: true})
		if err := problems.Err(); err != nil {
			t.Fatalf("the canonical form is refused: %v\n%s", err, flow.Definition())
		}
		if _, err := Thaw(flow.Definition(), flow.Hash(), flow.Actions(), reg); err != nil {
			t.Fatalf("thawing: %v", err)
		}
		if len(flow.Definition()) <= maxFile {
			asYAML, problems := Load("definition", flow.Definition(), reg)
			if len(problems) > 0 || !bytes.Equal(asYAML.Definition(), again.Definition()) {
				t.Fatalf("read as YAML it is another flow: %v\n%s", problems, flow.Definition())
			}
		}
		if !bytes.Equal(again.Definition(), flow.Definition()) {
			t.Fatalf("the canonical form is not stable:\n%s\n%s", flow.Definition(), again.Definition())
		}
		path := MarkPath([]string{flow.Entry(), flow.Sink()}, flow.Sink())
		_, _, _ = Mermaid(flow, path), Layers(flow), SVG(flow, path)
		if s := WorstCase(flow); s.Steps < 1 || s.Wall < 0 && s.Wall != Unbounded {
			t.Fatalf("worst case %+v", s)
		}
	})
}

// No text makes the guard compiler panic, and what it accepts gives the truth
// value that the expression library gives, or an error where that has one.
//
// Covers: AR10, CN10.
func FuzzGuard(f *testing.F) {
	values := []string{
		`{"n":1,"kind":"bug","flag":true,"tags":["a"],"nums":[1,-2],"x":"a","by":1,"late":"b\u0061"}`,
		`{"n":-7,"kind":"feature","flag":false,"tags":[],"late":"","x":2.5,"by":true}`,
		`{"n":null,"by":{"a":1},"x":[1],"late":"<ä>","flag":true,"n":2}`, `{}`, `{"x":"ok","by":"bug","n":3}`,
	}
	for i, src := range []string{
		"state.n > 0", "state.kind == 'bug' && !state.flag", "has(state.late) && state.late == 'x'", "state.kind in ['bug']",
		"'a' in state.tags", "len(state.tags) >= 2", "visits(a) < 3", "outcome == 'ok' || -1 < state.n", "state['n']", "1..2", "let x = 1; x > 0",
		"event.by == 'x'", "(((true)))", "$env.state", "state?.n > 0", "true ? false : true", "all([1], # > 0)",
		"event.by in ['bug', 1, true]", "event.x > 2", "event.x >= event.by", "event.x", "!event.by", "event.by && event.x == 1", "event.x in state.nums",
		"state.late < 'c' != state.flag", "state.tags == state.tags", "state.nums != state.nums", "state.n in [-1, 2]", "state.late == state.kind", "has(event.x) == true",
		"2 == event.x", "event.x == event.x", "outcome in ['ok', 'failed']", "len(state.late) == visits(a)", "event.by in state.tags", "true == false", "'a' < 'b'",
	} {
		f.Add(src, values[i%len(values)], values[(i+1)%len(values)])
	}
	scope := guardFields()
	f.Fuzz(func(t *testing.T, src, state, event string) {
		g, problems := compileGuard(src, scope)
		if (g == nil) == (len(problems) == 0) {
			t.Fatalf("guard %v with problems %v", g, problems)
		}
		s, err := DecodeState([]byte(state))
		if g == nil || err != nil {
			return
		}
		ev, err := DecodeState([]byte(event))
		if err != nil {
			return
		}
		env := GuardEnv{State: s, Outcome: OK, Event: ev, Visits: map[string]int{"a": 2}}
		got, gotErr := g.Eval(env)
		want, wantErr := evalExpr(src, scope, env)
		if got != want || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%s over %s and %s = %v, %v; the library says %v, %v", src, state, event, got, gotErr, want, wantErr)
		}
	})
}

// A template is expanded or refused, and what it inserts is not expanded.
func FuzzTemplate(f *testing.F) {
	f.Add("a {{state.s}} b", "{{run.id}}")
	f.Add("{{ state.s }}", "x")
	f.Add("{{{{state.s}}}}", "}}")
	f.Fuzz(func(t *testing.T, src, value string) {
		with, err := encode(map[string]string{"x": src})
		if err != nil {
			t.Skip()
		}
		s, err := StateOf(map[string]any{"s": value})
		if err != nil {
			t.Skip()
		}
		run := RunInfo{ID: "r1"}
		out, err := Expand(with, s, run)
		if err == nil && len(out) == 0 {
			t.Fatal("nothing came out")
		}
		// Both ways of expanding agree, and what was inserted stays as it was.
		got, textErr := ExpandText(src, s, run)
		if !utf8.ValidString(src) || !utf8.ValidString(value) {
			return
		}
		var want struct{ X string }
		if (err == nil) != (textErr == nil) || err == nil && (json.Unmarshal(out, &want) != nil || want.X != got) {
			t.Fatalf("%q with %q: %s (%v) or %q (%v)", src, value, out, err, got, textErr)
		}
		if err == nil && src == "{{state.s}}" && value != "" && got != value {
			t.Fatalf("%q became %q", value, got)
		}
	})
}

// The quick way accepts nothing that the long way refuses.
func FuzzFieldCheck(f *testing.F) {
	sum := strings.Repeat("a", 64)
	for _, raw := range []string{
		"1", "-0", "007", "+1", "1e3", "true", `"a"`, `"\u0061"`, `"\"`, `["a","b"]`, `["a" ,"b"]`, "[1,-2]", "[1,]", `["a,b"]`, "[]", `["a""b"]`, `"s"`,
		`{"path":"p","sha256":"` + sum + `","bytes":1}`, `{"path":"p","sha256":"` + sum + `","bytes":-1}`, `{"path":"p","sha256":"` + sum + `","bytes":1}}`, "null", "",
	} {
		f.Add([]byte(raw))
	}
	fields := []Field{
		{Type: IntField}, {Type: BoolField}, {Type: StringField, MaxLen: 5}, {Type: EnumField, Values: []string{"s", "a,b"}}, {Type: ArtifactField},
		{Type: ListField, Of: StringField, MaxLen: 4, MaxItems: 2}, {Type: ListField, Of: IntField, MaxItems: 2}, {Type: ObjectField, MaxBytes: 20},
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, fd := range fields {
			if err := fd.check(raw); fd.quick(raw) && err != nil {
				t.Fatalf("%s %s: the quick way accepts what the long way refuses: %v", fd.Type, raw, err)
			}
		}
	})
}

// A JSON document is the same tree whether it is read as JSON or as YAML.
func FuzzJSONTree(f *testing.F) {
	for _, src := range []string{
		`{"a":[1,-2.5,1e3,true,false,null,"x"],"b":{},"c":[]}`, `  [ "\u0061\n\\" , "ä" ]  `, `"a"`, `12`, `{"":{"<<":"<<"}}`, `["",[[]],{"a":{"b":[{}]}}]`, `"\ud83d\ude00"`,
	} {
		f.Add([]byte(src))
	}
	for _, file := range testFiles(f, "good/*.yaml") {
		if flow, problems := LoadWith(file, readFile(f, file), testOptions(f)); len(problems) == 0 {
			f.Add(flow.Definition())
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !json.Valid(src) || !utf8.Valid(src) {
			return
		}
		var doc yaml.Node
		if yaml.Unmarshal(src, &doc) != nil || len(doc.Content) == 0 {
			return // YAML refuses some characters and long keys
		}
		got, want := (&jsonTree{src: src}).value(), doc.Content[0]
		if diff := cmp.Diff(plainTree(want), plainTree(got)); diff != "" {
			t.Fatalf("%s (-YAML +JSON):\n%s", src, diff)
		}
	})
}

func plainTree(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		list := []any{n.ShortTag()}
		for _, c := range n.Content {
			list = append(list, plainTree(c))
		}
		return list
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	tag := n.ShortTag()
	if n.Style == 0 && n.Value != "" && strings.ContainsRune("-0123456789", rune(n.Value[0])) {
		tag = "number" // what YAML takes huge ones for no canonical form has
	}
	return tag + " " + n.Value
}
