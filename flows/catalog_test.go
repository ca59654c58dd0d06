package flows

import (
	"fmt"
	"io/fs"
	"os"
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
	for name, says := range map[string]string{"beta": "unknown-action", "alhpa": "did you mean alpha?", "gamma": "in deep/flow.yml already"} {
		if _, err := c.Get(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error = %v, want one that says %q", name, err, says)
		}
	}
}

// A pipe among the flows must not hold up the start of the program.
func TestCatalogReadsFilesOnly(t *testing.T) {
	t.Parallel()
	_, err := NewCatalog(testRegistry(t), Source{Name: "mine", FS: fstest.MapFS{
		"pipe.yaml": {Mode: fs.ModeNamedPipe | 0o600},
	}})
	if err == nil || !strings.Contains(err.Error(), "pipe.yaml is no regular file") {
		t.Errorf("got %v, want an error that names the pipe", err)
	}
}
