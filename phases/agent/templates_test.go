package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/templates"
	"github.com/pipelinebot/pipelinebot/internal/flowscript"
	"github.com/pipelinebot/pipelinebot/phases/agent"
)

func registry(t testing.TB) *flows.Registry {
	t.Helper()
	reg := &flows.Registry{}
	if err := reg.Add(agent.Actions(agent.Deps{})...); err != nil {
		t.Fatal(err)
	}
	return reg
}

// Every template passes the loader, under its own name and under a phase's,
// and every path that a script describes is walked, that of the script which
// comes with it too.
//
// Covers: AR33, AR35, HF21, NX12.
func TestTemplates(t *testing.T) {
	t.Parallel()
	all, err := templates.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Errorf("%d templates", len(all))
	}
	reg := registry(t)
	own, err := filepath.Glob(filepath.Join("..", "..", "flows", "templates", "scripts", "*.yaml"))
	if err != nil || len(own) != len(all) {
		t.Fatalf("%d scripts come with the templates: %v", len(own), err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "scripts", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, own...)
	used := map[string]bool{}
	for _, tmpl := range all {
		if tmpl.About == "" || strings.HasPrefix(tmpl.About, "#") {
			t.Errorf("%s says nothing of itself: %q", tmpl.Name, tmpl.About)
		}
		src, err := templates.New(tmpl.Name, "implement")
		if err != nil {
			t.Fatal(err)
		}
		flow, problems := flows.Load(tmpl.Name, src, reg)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		if flow.Name() != "implement" || flow.Phase() != "implement" {
			t.Errorf("%s as implement is %s of %s", tmpl.Name, flow.Name(), flow.Phase())
		}
		entered := map[string]bool{}
		for _, file := range files {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			if name != tmpl.Name {
				continue
			}
			used[file] = true
			for _, id := range rehearse(t, flow, reg, file) {
				entered[id] = true
			}
		}
		for _, n := range flow.Nodes() {
			if !entered[n.ID] {
				t.Errorf("%s: no script enters node %s", tmpl.Name, n.ID)
			}
		}
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("%s is no template's", file)
		}
	}
}

// rehearse returns the nodes that were entered.
func rehearse(t *testing.T, flow *flows.Flow, reg *flows.Registry, file string) []string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := flowscript.Load(file, src)
	if err != nil {
		t.Error(err)
		return nil
	}
	if s.Expect == nil || s.Expect.Result == "" {
		t.Errorf("%s expects nothing", file)
	}
	rep, err := flowscript.Run(t.Context(), flow, reg, s)
	if err != nil {
		t.Errorf("%s:\n%v", file, err)
		return nil
	}
	if !rep.OK() {
		t.Errorf("%s:\n%s", file, rep)
	}
	var ids []string
	for _, v := range rep.Path {
		ids = append(ids, v.Node)
	}
	return ids
}

// A template that is not there is named together with those that are.
func TestNewTemplate(t *testing.T) {
	t.Parallel()
	if _, err := templates.New("dependency-bumb", "x"); err == nil || !strings.Contains(err.Error(), "documentation-fix") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "Bad", "a b", "../x", "x: y"} {
		if _, err := templates.New("documentation-fix", name); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
}
