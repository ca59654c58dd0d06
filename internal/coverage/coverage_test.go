package coverage

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/coverage.md")

func TestCoverage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	groups, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	tests, problems, err := Tests(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) < 50 {
		t.Errorf("only %d tests say what they cover: the walk is broken", len(tests))
	}
	for _, p := range append(problems, Problems(groups, tests)...) {
		t.Error(p)
	}
	page := filepath.Join(root, "docs", "coverage.md")
	want := Markdown(groups, tests)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/coverage.md is stale, run go test ./internal/coverage -update (-want +got):\n%s", diff)
	}
}

// The check finds what it is for.
func TestProblems(t *testing.T) {
	t.Parallel()
	groups := []Group{{ID: "HF", Rows: []Row{{ID: "HF1"}, {ID: "HF2"}, {ID: "HF3", Reason: "a rule"}, {ID: "HF5", Mark: "D"}, {ID: "HF6", Mark: "D"}}}}
	repo := fstest.MapFS{
		"a/a_test.go": {Data: []byte(`package a

// TestOne proves something.
//
// Covers: HF1, HF5, CN9.
func TestOne() {}

// Covers: HF6.
func TestWrongSix() {}

// Covers: HF2.
func helper() {}

// Covers: HF2 and more.
func TestBad() {}
`)},
		"testdata/s.yaml":          {Data: []byte("name: s\n  # Covers: HF4.\n# Covers: everything\n")},
		"a/testdata/x_test.go":     {Data: []byte("// Covers: HF2.\nfunc TestX() {}")},
		"node_modules/a/a_test.go": {Data: []byte("// Covers: HF2.\nfunc TestX() {}")},
	}
	tests, problems, err := Tests(repo)
	if err != nil {
		t.Fatal(err)
	}
	got := append(problems, Problems(groups, tests)...)
	want := []string{
		`a/a_test.go:15: TestBad: "HF2 and more" is no row`,
		`testdata/s.yaml:3: "everything" is no row`,
		`row HF2 () has no test`,
		`row HF5 () has no test that refuses a wrong double`,
		`a/a_test.go:6: a.TestOne covers CN9, which is no row`,
		`testdata/s.yaml:2: s.yaml covers HF4, which is no row`,
	}
	if len(got) != len(want) {
		t.Fatalf("problems:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d = %q, want %q", i, got[i], want[i])
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"groups: [{id: HF, title: x, rows: [{id: HF2, mark: C, what: a, must: b}]}]":    "must be HF1",
		"groups: [{id: HF, title: x, rows: [{id: HF1, mark: Q, what: a, must: b}]}]":    "must be C, D, S, L or -",
		"groups: [{id: HF, title: x, rows: [{id: HF1, mark: C, must: b}]}]":             "what and must",
		"groups: [{id: HF, title: x, rows: [{id: HF1, mark: C, what: a, mst: b}]}]":     "mst",
		"groups: [{id: HF, title: x, rows: [{id: HF1, mark: C, what: a, must: b}, 7]}]": "mapping",
	} {
		if _, err := parse("rows.yaml", []byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", src, err, want)
		}
	}
}

func TestCovered(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string][]string{
		"Nothing.":                            nil,
		"Covers: HF12.":                       {"HF12"},
		"Says more.\n\nCovers: VK11-13,\nCN2": {"VK11", "VK12", "VK13", "CN2"},
	} {
		got, err := covered(comment)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", comment, diff)
		}
	}
	for _, comment := range []string{"Covers:", "Covers: HF.", "Covers: HF3-2.", "Covers: HF1 HF2.", "Covers: hf1.", "Covers: HF0.", "Covers: HF1-99999999."} {
		if got, err := covered(comment); err == nil {
			t.Errorf("%s: %v", comment, got)
		}
	}
}

func FuzzCovered(f *testing.F) {
	f.Add("Covers: HF12, CN15-18.")
	f.Fuzz(func(t *testing.T, comment string) {
		ids, err := covered(comment)
		if err != nil && ids != nil {
			t.Errorf("%v with %v", ids, err)
		}
		if slices.Contains(ids, "") {
			t.Error("an empty id")
		}
	})
}
