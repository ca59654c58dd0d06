package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// Covers: AR1.
func TestEntryLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, problems := flows.Load("test.yaml", []byte(strings.Replace(three, "entry: a\n", "", 1)), w.reg)
	if len(problems) != 1 || problems[0].Code != "no-entry" || problems[0].Hint != "add entry: a" {
		t.Errorf("problems = %v", problems)
	}
}

// However many edges lead to a node, each arrival enters it once.
//
// Covers: CN14, AR6, AR25.
func TestManyWaysToANode(t *testing.T) {
	t.Parallel()
	const src = header + `
nodes:
  - {id: a, kind: gate, uses: t.gate, writes: [n]}
  - {id: l, kind: step, uses: t.step}
  - {id: r, kind: step, uses: t.step}
  - {id: other, kind: step, uses: t.step}
  - {id: m, kind: step, uses: t.step}
  - {id: done, kind: sink}
edges:
  - {from: a, to: l, when: "state.n == 1"}
  - {from: a, to: r, when: "state.n == 2"}
  - {from: a, to: other}
  - {from: l, to: m}
  - {from: r, to: m}
  - {from: other, to: m}
  - {from: m, to: done, set: {result: ok}}
`
	for n, want := range []string{"a other m", "a l m", "a r m", "a other m"} {
		if got := newWorld(t, map[string]action{"a": sets("n", n)}).goes(src); got != (going{want, true}) {
			t.Errorf("n = %d: %+v, want %s", n, got, want)
		}
	}
}

// What an action is given is its configuration, refused at load when it can't
// be read.
//
// Covers: AR24, CN8.
func TestConfiguredWork(t *testing.T) {
	t.Parallel()
	type settings struct {
		Aim  string `json:"aim"`
		Many int    `json:"many"`
	}
	var got settings
	w := newWorld(t, nil)
	if err := w.reg.Add(flows.Action{
		Name: "t.configured", Version: "1", CheckWith: flows.CheckWith[settings],
		Run: func(_ context.Context, c flows.Call) (_ flows.Result, err error) {
			got, err = flows.With[settings](c.With)
			return flows.Result{Delta: flows.Delta{"result": "ok"}}, err
		},
	}); err != nil {
		t.Fatal(err)
	}
	src := func(with string) string {
		return header + "nodes:\n  - {id: a, kind: step, uses: t.configured, with: " + with + ", writes: [result]}\n" +
			"  - {id: done, kind: sink}\nedges:\n  - {from: a, to: done}\n"
	}
	w.want(w.walk(w.begin(src("{aim: \"{{state.n}} things\", many: 3}"))), "ended ok: a done")
	if got != (settings{"0 things", 3}) {
		t.Errorf("it was given %+v", got)
	}
	for _, with := range []string{"{aim: x, manny: 3}", "{many: three}", "7"} {
		if _, problems := flows.Load("test.yaml", []byte(src(with)), w.reg); len(problems) != 1 || problems[0].Code != "bad-with" {
			t.Errorf("with %s: %v", with, problems)
		}
	}
}
