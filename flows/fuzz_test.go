package flows

import (
	"bytes"
	"testing"
)

// Load never panics, and what it accepts has a canonical form that it accepts
// as the same flow.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		for _, file := range testFiles(f, pattern) {
			f.Add(readFile(f, file))
		}
	}
	reg := testRegistry(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		flow, problems := Load("fuzz.yaml", src, reg)
		if (flow == nil) == (len(problems) == 0) {
			t.Fatalf("flow %v with problems %v", flow, problems)
		}
		if flow == nil {
			return
		}
		again, problems := Load("definition", flow.Definition(), reg)
		if err := problems.Err(); err != nil {
			t.Fatalf("the canonical form is refused: %v\n%s", err, flow.Definition())
		}
		if !bytes.Equal(again.Definition(), flow.Definition()) {
			t.Fatalf("the canonical form is not stable:\n%s\n%s", flow.Definition(), again.Definition())
		}
		_, _ = Mermaid(flow), Layers(flow)
	})
}

// No text makes the guard compiler panic, and what it accepts gives a truth
// value or an error.
func FuzzGuard(f *testing.F) {
	for _, src := range []string{
		"state.n > 0", "state.kind == 'bug' && !state.flag", "has(state.late) && state.late == 'x'", "state.kind in ['bug']",
		"'a' in state.tags", "len(state.tags) >= 2", "visits(a) < 3", "outcome == 'ok' || -1 < state.n", "state['n']", "1..2", "let x = 1; x > 0",
		"event.by == 'x'", "(((true)))", "$env.state", "state?.n > 0", "true ? false : true", "all([1], # > 0)",
	} {
		f.Add(src)
	}
	scope := guardFields()
	s := mustState(f, map[string]any{"n": 1, "kind": "bug", "flag": true, "tags": []string{"a"}})
	f.Fuzz(func(t *testing.T, src string) {
		g, problems := compileGuard(src, scope)
		if (g == nil) == (len(problems) == 0) {
			t.Fatalf("guard %v with problems %v", g, problems)
		}
		if g != nil {
			_, _ = g.Eval(GuardEnv{State: s, Outcome: OK, Event: s})
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
		out, err := Expand(with, s, RunInfo{ID: "r1"})
		if err == nil && len(out) == 0 {
			t.Fatal("nothing came out")
		}
	})
}
