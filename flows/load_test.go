package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testRegistry holds the actions that the flows in testdata use.
func testRegistry(t testing.TB) *Registry {
	t.Helper()
	run := func(context.Context, Call) (Result, error) { return Result{}, nil }
	anything := func(json.RawMessage) error { return nil }
	type with struct {
		Field string `json:"field"`
		Same  int    `json:"same"`
	}
	reg := &Registry{}
	if err := reg.Add(
		Action{Name: "test.step", Version: "1", Spends: true, CheckWith: anything, Run: run},
		Action{Name: "test.gate", Version: "1", Run: run, ReadOnly: true, Outcomes: []Outcome{Denied}},
		Action{Name: "test.effect", Version: "1", Run: run, Effects: true},
		Action{Name: "test.strict", Version: "2", Run: run, Reads: []string{"n"}, Writes: []string{"result"}, CheckWith: CheckWith[with]},
		Action{Name: "test.save", Version: "1", Run: run},
		Action{Name: "test.read", Version: "1", Spends: true, CheckWith: anything, Run: run, ReadOnly: true},
		Action{Name: "test.ends", Version: "1", Reads: []string{}, Writes: []string{"result"}, Run: run, Ends: Ends("closed")},
		Action{Name: "test.sets", Version: "1", Reads: []string{}, Writes: []string{"result"}, Run: run, Sets: []string{"finished"}},
		Action{Name: "test.typed", Version: "1", Writes: []string{}, Run: run, Types: map[string]FieldType{"n": StringField}},
		Action{Name: "test.node", Version: "1", Writes: []string{}, CheckWith: anything, CheckNode: shows, Run: run},
		Action{Name: CommandAction, Version: "1", CheckWith: anything, Run: run},
	); err != nil {
		t.Fatal(err)
	}
	return reg
}

// shows wants what `with` shows in the node's `in`, and once.
func shows(n NodeFacts) []NodeProblem {
	with, err := With[struct {
		Shows []string `json:"shows"`
	}](n.With)
	if err != nil {
		return []NodeProblem{{Path: []string{"with"}, Msg: err.Error()}}
	}
	var found []NodeProblem
	for i, key := range with.Shows {
		p := NodeProblem{Path: []string{"with", "shows", strconv.Itoa(i)}}
		switch f, ok := n.Field(key); {
		case !ok || !slices.Contains(n.In, key):
			p.Code, p.Msg, p.Hint = "in-mismatch", "in lacks "+key, Nearest(key, n.Fields())
		case i > 0 && f.Type == IntField:
			p.Code, p.Msg = "type-mismatch", key+" is an int"
		default:
			continue
		}
		found = append(found, p)
	}
	return found
}

// testOptions are those with which the flows in testdata load: the only flow
// outside of them that a subflow finds is "linear".
func testOptions(t testing.TB) LoadOptions {
	t.Helper()
	reg := testRegistry(t)
	phases := map[string][]string{
		"triage": nil, "plan": nil, "review": {noResult, "approved"}, "implement": {noResult, "pr_opened", "needs_human", "no_progress", "closed"},
	}
	return LoadOptions{Registry: reg, Phases: phases, Names: []string{"linear"}, Child: func(name string) (*Flow, error) {
		switch name {
		case "linear":
			f, problems := Load("linear.yaml", readFile(t, filepath.Join("testdata", "flows", "good", "linear.yaml")), reg)
			return f, problems.Err()
		case "broken":
			return nil, errors.New("broken.yaml:1:1: no-nodes: the file is empty\nand more")
		case "circle":
			return nil, fmt.Errorf("%w: circle → circle", ErrRecursion)
		}
		return nil, ErrNoFlow
	}}
}

func testFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "flows", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	return files
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	src, err := os.ReadFile(file) //nolint:gosec // a test's own folder
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// Every good flow loads, and its canonical form is the same flow.
//
// Covers: CN1, VK20, VK24.
func TestLoadGood(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	for _, file := range testFiles(t, "good/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			f, problems := LoadWith(file, readFile(t, file), opts)
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			again, err := Thaw(f.Definition(), f.Hash(), f.Actions(), opts.Registry)
			if err != nil {
				t.Fatalf("thawing: %v\n%s", err, f.Definition())
			}
			if err := again.freeze(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(f.Definition()), string(again.Definition())); diff != "" {
				t.Errorf("canonical form is not stable (-want +got):\n%s", diff)
			}
		})
	}
}

// The name of a bad flow begins with the only code that it is refused with,
// and what is wrong stands in the lines that end with "# bad".
//
// Covers: HF14, VK2, VK4, VK5, VK8, VK10, VK11, VK12, VK14, AR2, AR9, AR29,
// AR24, AR34, CN8, CN11, CN12, CN16, CN17, CN18, CN30, BL3, VK9.
func TestLoadBad(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	codes := Codes()
	seen := map[string]bool{}
	for _, file := range testFiles(t, "bad/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		code, _, _ := strings.Cut(name, ".")
		seen[code] = true
		if codes[code] == "" {
			t.Errorf("%s: no code is called %s", file, code)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := readFile(t, file)
			f, problems := LoadWith(file, src, opts)
			if f != nil {
				t.Error("a flow was returned together with problems, or none was found")
			}
			if diff := cmp.Diff([]string{code}, problems.Codes()); diff != "" {
				t.Errorf("codes (-want +got):\n%s\n%v", diff, problems)
			}
			var want, got []int
			for i, line := range strings.Split(string(src), "\n") {
				if strings.HasSuffix(line, "# bad") {
					want = append(want, i+1)
				}
			}
			for _, p := range problems {
				got = append(got, p.Line)
				if p.Line < 1 || p.Column < 1 || p.File != file || p.Msg == "" {
					t.Errorf("problem without a place or words: %+v", p)
				}
			}
			if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
				t.Errorf("lines (-want +got):\n%s\n%v", diff, problems)
			}
		})
	}
	// What is too large, and what no file can show, has tests of its own.
	generated := map[string]bool{"too-large": true, "unreadable": true}
	for code := range codes {
		if !seen[code] && !generated[code] {
			t.Errorf("no file in testdata/flows/bad shows the code %s", code)
		}
	}
}
