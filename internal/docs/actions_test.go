package docs_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/docs"
	"github.com/pipelinebot/pipelinebot/internal/flowscript"
)

var update = flag.Bool("update", false, "rewrite docs/actions.md")

func TestActionsPage(t *testing.T) {
	t.Parallel()
	want, err := docs.Actions(registry(t), docs.Abouts())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "actions.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, read(t, "actions.md")); diff != "" {
		t.Errorf("docs/actions.md is not what the registry says; run make generate (-want +got):\n%s", diff)
	}
}

// What is missing or too much is an error that names it.
func TestActionsPageBites(t *testing.T) {
	t.Parallel()
	none := func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, nil }
	takes := func(raw json.RawMessage) error { return flows.CheckWith[struct{ A int }](raw) }
	reg := &flows.Registry{}
	if err := reg.Add(
		flows.Action{Name: "a.plain", Version: "1", Run: none, Writes: []string{}},
		flows.Action{Name: "a.with", Version: "1", Run: none, CheckWith: takes},
	); err != nil {
		t.Fatal(err)
	}
	with := docs.About{What: "x", With: []docs.Key{{Name: "A", What: "a number"}}, Example: `{"A": 1}`}
	silent := &flows.Registry{}
	if err := silent.Add(flows.Action{Name: "a.ends", Version: "1", Run: none, Writes: []string{"result"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := docs.Actions(silent, map[string]docs.About{"a.ends": {What: "x"}}); err == nil || !strings.Contains(err.Error(), "a.ends writes result or does not") {
		t.Errorf("an action that does not declare its ends: %v", err)
	}
	tests := []struct {
		name  string
		about map[string]docs.About
		want  string
	}{
		{"fine", map[string]docs.About{"a.plain": {What: "x"}, "a.with": with}, ""},
		{"unexplained", map[string]docs.About{"a.with": with}, "a.plain is not explained"},
		{"unknown", map[string]docs.About{"a.plain": {What: "x"}, "a.with": with, "a.gone": {}}, "a.gone is explained and is no action"},
		{"with of none", map[string]docs.About{"a.plain": with, "a.with": with}, "a.plain takes no with"},
		{"no with", map[string]docs.About{"a.plain": {}, "a.with": {}}, "a.with takes a with"},
		{"refused", map[string]docs.About{"a.plain": {}, "a.with": {With: with.With, Example: `{"A": "x"}`}}, "refuses its example"},
		{"absent key", map[string]docs.About{"a.plain": {}, "a.with": {With: []docs.Key{{Name: "B"}}, Example: `{"A": 1}`}}, "lacks B"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := docs.Actions(reg, tt.about)
			switch {
			case tt.want == "" && (err != nil || !strings.Contains(page, "### `a.with`")):
				t.Errorf("%v\n%s", err, page)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// What an action looks like in a flow is loaded and walked.
func TestActionsInFlows(t *testing.T) {
	t.Parallel()
	const before = `apiVersion: flows/v1
name: shown
phase: implement
entry: look
sink: done
state:
  base_sha: {type: string, max_len: 64, default: ""}
  files: {type: list, of: string, default: []}
  result: {type: enum, values: [none, ok, closed, needs_human], default: none}
stop: {to: done}
`
	const around = `
  - {id: look, kind: step, uses: agent.read, with: {prompt: "Which files?", out: {files: list}}, in: [base_sha], writes: [files]}
  - {id: done, kind: sink}
`
	scripts := map[string]string{
		"flow.end": `{nodes: {
  look: [{delta: {files: [` + strings.Repeat("a, ", 41) + `]}}],
  too_large: [{delta: {result: needs_human}, stop: {code: too-large, reason: These files need a person.}}]},
  expect: {result: needs_human, code: too-large, path: [look, too_large, done]}}`,
	}
	for name, about := range docs.Abouts() {
		if (about.Flow != "") != (scripts[name] != "") {
			t.Errorf("%s is shown in a flow or not, and its script says otherwise", name)
		}
		if about.Flow == "" {
			continue
		}
		nodes, edges, _ := strings.Cut(about.Flow, "edges:\n")
		flow, problems := flows.Load(name, []byte(before+strings.TrimSuffix(nodes, "\n")+around+"edges:\n"+edges), registry(t))
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		script, err := flowscript.Load(name, []byte(scripts[name]))
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := flowscript.Run(t.Context(), flow, registry(t), script); err != nil || !rep.OK() {
			t.Errorf("%s: %v\n%s", name, err, rep)
		}
	}
}
