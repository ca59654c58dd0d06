package flows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// Covers: CN5, VK1, VK26.
func TestCatalog(t *testing.T) {
	t.Parallel()
	linear := string(readFile(t, "testdata/flows/good/linear.yaml"))
	named := func(name string) []byte { return []byte(strings.Replace(linear, "name: linear", "name: "+name, 1)) }
	c, err := NewCatalog(testRegistry(t),
		Source{Name: "built in", Files: map[string][]byte{"a.yaml": named("alpha"), "b.yaml": named("beta"), "c.yaml": named("gamma")}},
		Source{Name: "mine", FS: fstest.MapFS{
			"beta.yaml":        {Data: []byte(strings.Replace(string(named("beta")), "uses: test.step", "uses: test.stepp", 1))},
			"deep/flow.yml":    {Data: named("gamma")},
			"deep/twice.yaml":  {Data: named("gamma")},
			"notes.md":         {Data: []byte("not a flow")},
			"broken/flow.yaml": {Data: []byte("a: [")},
		}},
		Source{Name: "absent", FS: os.DirFS("testdata/nothing")},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.List() {
		got = append(got, fmt.Sprintf("%s %s %s %v wins=%v hash=%v", e.Name, e.Source, e.File, e.Problems.Codes(), e.Wins, e.Hash != ""))
	}
	want := []string{
		"alpha built in a.yaml [] wins=true hash=true",
		"beta built in b.yaml [] wins=false hash=true",
		"beta mine beta.yaml [unknown-action] wins=true hash=false",
		"broken mine broken/flow.yaml [yaml-syntax] wins=true hash=false",
		"gamma built in c.yaml [] wins=false hash=true",
		"gamma mine deep/flow.yml [] wins=false hash=true",
		"gamma mine deep/twice.yaml [duplicate-id] wins=true hash=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if f, err := c.Get("alpha"); err != nil || f.Name() != "alpha" {
		t.Errorf("alpha = %v, %v", f, err)
	}
	for name, says := range map[string]string{"beta": "unknown-action", "alhpa": "did you mean alpha?", "gamma": "deep/flow.yml of the same folder is called gamma, too"} {
		if _, err := c.Get(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error = %v, want one that says %q", name, err, says)
		}
	}
}

// A pipe among the flows must not hold up the start of the program, and what
// can't be read is listed by its name.
//
// Covers: CN5.
func TestCatalogUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	c, err := NewCatalog(testRegistry(t),
		Source{Name: "built in", Files: map[string][]byte{"linear.yaml": readFile(t, "testdata/flows/good/linear.yaml")}},
		Source{Name: "mine", FS: fstest.MapFS{"linear.yaml": {Mode: fs.ModeNamedPipe | 0o600}, "dir.yaml/flow.yaml": {Data: []byte("name: x")}}},
		Source{Name: "links", FS: os.DirFS(dir)},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.List() {
		got = append(got, fmt.Sprintf("%s %s %s %v wins=%v", e.Name, e.Source, e.File, e.Problems.Codes(), e.Wins))
	}
	want := []string{
		"gone links gone.yaml [unreadable] wins=true",
		"linear built in linear.yaml [] wins=false",
		"linear mine linear.yaml [unreadable] wins=true",
		"x mine dir.yaml/flow.yaml [missing-field no-nodes] wins=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err := c.Get("linear"); err == nil || !strings.Contains(err.Error(), "linear.yaml:1:1: unreadable: the file can't be read: it is no regular file") {
		t.Errorf("got %v, want an error that names the pipe", err)
	}
	// Any name might stand in a file that can't be read.
	c, err = NewCatalog(testRegistry(t),
		Source{Name: "built in", Files: map[string][]byte{"linear.yaml": readFile(t, "testdata/flows/good/linear.yaml")}},
		Source{Name: "mine", FS: fstest.MapFS{"mine.yaml": {Mode: fs.ModeNamedPipe | 0o600}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("linear"); err == nil || !strings.Contains(err.Error(), "mine.yaml:1:1: unreadable") {
		t.Errorf("got %v, want an error that names the file which may be meant", err)
	}
}

// A subflow finds the flow that wins its name; an unknown, broken or circular
// child refuses the parent, whatever the order of the files.
//
// Covers: BL3.
func TestCatalogChildren(t *testing.T) {
	t.Parallel()
	parent := func(name, child string) []byte {
		return []byte(strings.NewReplacer("NAME", name, "CHILD", child).Replace(`
apiVersion: flows/v1
name: NAME
phase: triage
entry: s
sink: done
state:
  result: {type: enum, values: [none, accepted], default: none}
nodes:
  - {id: s, kind: subflow, flow: CHILD, key: one}
  - {id: done, kind: sink}
edges:
  - {from: s, to: done, set: {result: accepted}}
`))
	}
	linear := string(readFile(t, "testdata/flows/good/linear.yaml"))
	c, err := NewCatalog(testRegistry(t),
		Source{Name: "built in", Files: map[string][]byte{"linear.yaml": []byte(linear), "a.yaml": parent("a", "b"), "b.yaml": parent("b", "linear"), "z.yaml": parent("z", "broken")}},
		Source{Name: "mine", Files: map[string][]byte{
			"linear.yaml": []byte(strings.Replace(linear, "name: linear", "name: linear\nversion: 2", 1)),
			"broken.yaml": parent("broken", "lineer"), "p.yaml": parent("p", "q"), "q.yaml": parent("q", "p"), "r.yaml": parent("r", "p"), "self.yaml": parent("self", "self"),
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.List() {
		if e.Wins {
			got = append(got, fmt.Sprintf("%s %v", e.Name, e.Problems.Codes()))
		}
	}
	want := []string{
		"a []", "b []", "broken [subflow-unknown]", "linear []", "p [subflow-recursion]", "q [subflow-recursion]", "r [subflow-recursion]",
		"self [subflow-recursion]", "z [subflow-invalid]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err := c.Get("broken"); err == nil || !strings.Contains(err.Error(), "did you mean linear?") {
		t.Errorf("broken: %v", err)
	}
	a, err := c.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := a.Child("b")
	if l, ok := b.Child("linear"); !ok || l.Version() != 2 {
		t.Errorf("the child of the child is %v, want the one that wins", l)
	}
	if _, err := c.Get("ghost"); !errors.Is(err, ErrNoFlow) {
		t.Errorf("ghost: %v, want ErrNoFlow", err)
	}
}

// Flows beside the one that is called as their phase are told of, since the
// phase's label starts that one only; not what merely shares a phase, nor a
// child of another flow.
func TestCatalogNotesPhases(t *testing.T) {
	t.Parallel()
	linear := string(readFile(t, "testdata/flows/good/linear.yaml"))
	named := func(names ...string) map[string][]byte {
		files := map[string][]byte{}
		for _, name := range names {
			files[name+".yaml"] = []byte(strings.Replace(linear, "name: linear", "name: "+name, 1))
		}
		return files
	}
	withChild := named("triage", "child")
	withChild["parent.yaml"] = []byte(strings.NewReplacer("name: linear", "name: parent", "kind: step, uses: test.step, in: [n], writes: [n, result]", "kind: subflow, flow: child, key: one").Replace(linear))
	for name, c := range map[string]struct {
		files map[string][]byte
		want  map[string][]string
	}{
		"one beside": {named("triage", "other"), map[string][]string{"other": {"of phase triage, as is triage: its label starts the flow that is called triage"}}},
		"two beside": {named("triage", "a", "b"), map[string][]string{
			"a": {"of phase triage, as are b, triage: its label starts the flow that is called triage"},
			"b": {"of phase triage, as are a, triage: its label starts the flow that is called triage"},
		}},
		"shared": {named("a", "b"), map[string][]string{}},
		"child": {withChild, map[string][]string{
			"parent": {"of phase triage, as are child, triage: its label starts the flow that is called triage"},
		}},
	} {
		catalog, err := NewCatalog(testRegistry(t), Source{Name: "built in", Files: named("triage")}, Source{Name: "x", Files: c.files})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, e := range catalog.List() {
			if len(e.Problems) > 0 {
				t.Errorf("%s: %v", name, e.Problems)
			}
			if len(e.Notes) > 0 {
				got[e.Name] = e.Notes
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: notes (-want +got):\n%s", name, diff)
		}
	}
}
