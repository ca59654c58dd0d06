package flows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func goodFlow(t testing.TB, name string) *Flow {
	t.Helper()
	f, problems := LoadWith(name+".yaml", readFile(t, filepath.Join("testdata", "flows", "good", name+".yaml")), testOptions(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

// Higher priority first, equal ones as they stand; what is frozen is the order.
//
// Covers: AR4, AR5, HF4.
func TestPriority(t *testing.T) {
	t.Parallel()
	f := goodFlow(t, "priority")
	var got []string
	for _, e := range f.Out("a") {
		got = append(got, string(e.Set["result"]))
	}
	if diff := cmp.Diff([]string{`"first"`, `"third"`, `"second"`, `"last"`}, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	if bytes.Contains(f.Definition(), []byte("priority\":")) {
		t.Error("the canonical form has a priority")
	}
	if diff := cmp.Diff(Concurrency{Key: "issue-{{state.issue}}-{{run.repo}}", OnConflict: "replace"}, f.Concurrency()); diff != "" {
		t.Errorf("concurrency (-want +got):\n%s", diff)
	}
	if got := goodFlow(t, "linear").Concurrency(); got != (Concurrency{}) {
		t.Errorf("a flow without has %+v", got)
	}
}

// What the file leaves out is written out.
//
// Covers: VK4, VK5, AR29, NX11.
func TestKindDefaults(t *testing.T) {
	t.Parallel()
	again, _ := goodFlow(t, "approval").Node("again")
	want := Node{
		ID: "again", Kind: Approval, Message: "Sure?", Approvers: []string{"role:triage"}, Event: ApprovalEvent, Expires: 30 * time.Minute, OnExpire: Denied,
	}
	if diff := cmp.Diff(want, again, cmp.AllowUnexported(Guard{})); diff != "" {
		t.Errorf("approval (-want +got):\n%s", diff)
	}
	f := goodFlow(t, "command")
	test := f.Lookup("test")
	const with = `{"argv":["make","-j","2","test","-k","-k"],"env":{"EMPTY":"","N":"3","PATCH":"{{state.patch_ref.path}}","RUN":"{{run.id}}","TITLE":"{{state.title}}; rm -rf /"},"accept":[["git","diff","--check"],["./check.sh","-c"]]}`
	if diff := cmp.Diff(with, string(test.With)); diff != "" {
		t.Errorf("a command's with (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"code", "log_ref"}, test.Writes); diff != "" || test.Uses != CommandAction || f.Actions()[CommandAction] != "1" {
		t.Errorf("command uses %s and writes (-want +got):\n%s", test.Uses, diff)
	}
	script := f.Lookup("script")
	if diff := cmp.Diff(`{"argv":["bash","./ci/run.sh"],"env":{},"accept":[]}`, string(script.With)); diff != "" {
		t.Errorf("a plain command's with (-want +got):\n%s", diff)
	}
	f = goodFlow(t, "subflow")
	each, apart := f.Lookup("each"), f.Lookup("apart")
	if !each.Await || each.Close != "cancel" || each.OnExpire != Timeout || apart.Await || apart.Close != "abandon" || apart.OnExpire != "" {
		t.Errorf("subflows are %+v and %+v", each, apart)
	}
	docs := goodFlow(t, "fanout").Lookup("docs")
	if !docs.Optional || goodFlow(t, "fanout").FanoutOf("docs") != "explore" {
		t.Errorf("branch %+v", docs)
	}
}

// A gate may use its result again, as a step may; one that writes may not.
func TestGateMayBeCached(t *testing.T) {
	t.Parallel()
	src := string(readFile(t, "testdata/flows/good/base.yaml"))
	cached := strings.Replace(src, "kind: gate, uses: test.gate", "kind: gate, cache: run, uses: test.gate", 1)
	if n := mustLoad(t, cached).Lookup("b"); n.Cache != "run" || n.Kind != Gate {
		t.Errorf("node %+v", n)
	}
	_, problems := Load("x.yaml", []byte(strings.Replace(cached, "test.gate", "test.save", 1)), testRegistry(t))
	if !slices.Contains(problems.Codes(), "cache-writes") {
		t.Errorf("a gate that writes: %v", problems)
	}
}

// Data reaches a command through its environment, as data, once.
//
// Covers: VK13, VK14, NX13.
func TestCommandEnvIsData(t *testing.T) {
	t.Parallel()
	n := goodFlow(t, "command").Lookup("test")
	s := mustState(t, map[string]any{"title": "$(touch x) `id` {{run.id}} \"q\"", "patch_ref": Artifact{Path: "a b", SHA256: strings.Repeat("a", 64), Bytes: 1}})
	raw, err := Expand(n.With, s, RunInfo{ID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Argv []string
		Env  map[string]string
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"PATCH": "a b", "TITLE": "$(touch x) `id` {{run.id}} \"q\"; rm -rf /", "RUN": "r1", "N": "3", "EMPTY": ""}
	if diff := cmp.Diff(want, got.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(n.Argv, got.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
}

// Covers: VK11, VK12, VK13, NX13.
func TestExpandText(t *testing.T) {
	t.Parallel()
	s := mustState(t, map[string]any{"n": 7, "title": "{{state.n}}", "gone": nil})
	for src, want := range map[string]string{
		"plain": "plain", "#{{state.n}} of {{run.repo}}": "#7 of acme/w", "{{state.title}}{{state.title}}": "{{state.n}}{{state.n}}", "": "",
	} {
		if got, err := ExpandText(src, s, RunInfo{Repo: "acme/w"}); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", src, got, err, want)
		}
	}
	for _, src := range []string{"{{state.gone}}", "{{state.ghost}}", "{{ state.n }}", "{{state.n", "{{run.ghost}}", "{{n}}"} {
		if got, err := ExpandText(src, s, RunInfo{}); err == nil {
			t.Errorf("%s = %q, want an error", src, got)
		}
	}
}

// The edge to a fanout's join is there whether the file says so or not, as the
// last, and files that differ in it only are one flow.
//
// Covers: CN13, CN18.
func TestFanoutLeadsToItsJoin(t *testing.T) {
	t.Parallel()
	src := string(readFile(t, "testdata/flows/good/fanout.yaml"))
	load := func(src string) *Flow {
		f, problems := LoadWith("x.yaml", []byte(src), testOptions(t))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return f
	}
	said, unsaid := load(src), load(strings.Replace(src, "  - {from: explore, to: synth}\n", "", 1))
	if said.Hash() != unsaid.Hash() {
		t.Error("the hashes differ")
	}
	var got []string
	for _, e := range unsaid.From("explore") {
		got = append(got, fmt.Sprint(e.To, e.On))
	}
	if diff := cmp.Diff([]string{"done[failed budget-exhausted]", "synth[ok]"}, got); diff != "" {
		t.Errorf("edges of the fanout (-want +got):\n%s", diff)
	}
	for _, id := range []string{"code", "tests", "docs"} {
		if got := unsaid.Out(id); len(got) != 0 {
			t.Errorf("the branch %s has edges: %v", id, got)
		}
	}
}

// What a node reads by a template or a guard is set on every way to it: by the
// nodes before, an optional branch not being one.
//
// Covers: VK9, CN7.
func TestReadAfterWrite(t *testing.T) {
	t.Parallel()
	src := string(readFile(t, "testdata/flows/good/fanout.yaml"))
	for name, tc := range map[string]struct{ from, to, code string }{
		"required branch":   {"", "", ""},
		"optional branch":   {"{{state.tests}}", "{{state.docs}}", "ref-not-before"},
		"before the fanout": {"code of #{{state.issue}}", "{{state.plan}} {{state.tests}}", "ref-branch ref-not-before"},
		"after a failure":   {"on: [failed, budget-exhausted], set", "when: \"state.tests == 'x'\", on: [failed, budget-exhausted], set", "ref-not-before"},
	} {
		changed := strings.Replace(src, tc.from, tc.to, 1)
		_, problems := LoadWith("x.yaml", []byte(changed), testOptions(t))
		if got := strings.Join(problems.Codes(), " "); got != tc.code && !strings.HasPrefix(tc.code, got+" ") {
			t.Errorf("%s: %v, want %s", name, problems, tc.code)
		}
	}
}

// A frozen parent holds its children as they were, with the versions of their
// actions.
//
// Covers: BL3, VK20, VK24, CN24, NX6.
func TestThawChildren(t *testing.T) {
	t.Parallel()
	reg := testRegistry(t)
	f := goodFlow(t, "subflow")
	if diff := cmp.Diff([]string{"leaf", "pr-review"}, f.Children()); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	again, err := Thaw(f.Definition(), f.Hash(), f.Actions(), reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range f.Children() {
		a, _ := f.Child(name)
		b, ok := again.Child(name)
		if !ok || a.Hash() != b.Hash() || !bytes.Equal(a.Definition(), b.Definition()) {
			t.Errorf("the child %s is another one", name)
			continue
		}
		if _, err := Thaw(b.Definition(), b.Hash(), b.Actions(), reg); err != nil {
			t.Errorf("the child %s by itself: %v", name, err)
		}
	}
	review, _ := again.Child("pr-review")
	if leaf, ok := review.Child("leaf"); !ok || leaf.Name() != "leaf" {
		t.Error("the child's child is gone")
	}
	if _, ok := again.Child("ghost"); ok {
		t.Error("there is a child that nobody named")
	}
	if _, err := Thaw(f.Definition(), f.Hash(), map[string]string{"test.step": "0"}, reg); !errors.Is(err, ErrDrift) {
		t.Errorf("another version of a child's action: %v, want ErrDrift", err)
	}
	if _, err := Thaw(bytes.Replace(f.Definition(), []byte(`"leaf"`), []byte(`"loaf"`), 1), f.Hash(), f.Actions(), reg); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed definition: %v, want ErrCorrupt", err)
	}
}

// A canonical form may be larger than a file, within bounds: the parent of too
// many flows is refused.
func TestLimitOfChildren(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("apiVersion: flows/v1\nname: top\nphase: test\nentry: n0\nsink: done\nstate:\n  result: {type: enum, values: [none, ok], default: none}\nnodes:\n")
	const children = 60
	for i := range children {
		fmt.Fprintf(&b, "  - {id: n%d, kind: subflow, flow: mid%d, key: k}\n", i, i)
	}
	b.WriteString("  - {id: done, kind: sink}\nedges:\n")
	for i := range children - 1 {
		fmt.Fprintf(&b, "  - {from: n%d, to: n%d}\n", i, i+1)
	}
	fmt.Fprintf(&b, "  - {from: n%d, to: done, set: {result: ok}}\nflows:\n", children-1)
	flow := func(name, node string) {
		fmt.Fprintf(&b, "  %s: {apiVersion: flows/v1, name: %s, phase: test, entry: a, sink: done, state: {result: {type: enum, values: [none, ok], default: none}}, nodes: [%s, {id: done, kind: sink}], edges: [{from: a, to: done, set: {result: ok}}]}\n", name, name, node)
	}
	flow("leaf", fmt.Sprintf("{id: a, kind: step, uses: test.step, in: [], writes: [], with: %q}", strings.Repeat("x", 40<<10)))
	for i := range children {
		flow(fmt.Sprintf("mid%d", i), "{id: a, kind: subflow, flow: leaf, key: k}")
	}
	_, problems := Load("x.yaml", []byte(b.String()), testRegistry(t))
	if diff := cmp.Diff([]string{"too-large"}, problems.Codes()); diff != "" {
		t.Errorf("codes (-want +got):\n%s\n%v", diff, problems)
	}
}
