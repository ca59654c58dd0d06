package archtest_test

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/archtest"
)

const (
	maxLines     = 700
	maxTestLines = 1200
)

// source is one parsed Go file.
type source struct {
	path, pkg string // slash-separated, relative to the module
	lines     int
	imports   []string
	doc       bool
	hasInit   bool
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "data" || name == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		s := source{path: rel, pkg: path.Dir(rel), lines: bytes.Count(text, []byte("\n")), doc: f.Doc != nil, hasInit: bytes.Contains(text, []byte("\nfunc init()"))}
		for _, i := range f.Imports {
			v, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, v)
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found: the walk is broken", len(all))
	}
	return all
}

// violations is the whole check, pure, so that its own tests can show that it
// bites.
func violations(all []source, floors map[string]int, owners map[string][]string) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	documented, seen := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		test := strings.HasSuffix(s.path, "_test.go")
		limit := maxLines
		if test {
			limit = maxTestLines
		}
		if s.lines > limit {
			add("%s has %d lines, at most %d are allowed: split it by subject", s.path, s.lines, limit)
		}
		if test {
			continue
		}
		seen[s.pkg] = true
		documented[s.pkg] = documented[s.pkg] || s.doc
		if s.hasInit {
			add("%s has an init function: register explicitly", s.path)
		}
		floor, listed := floors[s.pkg]
		if !listed {
			continue
		}
		for _, imp := range s.imports {
			if own, ok := strings.CutPrefix(imp, archtest.Module+"/"); ok {
				if f, ok := floors[own]; ok && f >= floor {
					add("%s (floor %d) imports %s (floor %d): only lower floors", s.path, floor, own, f)
				}
			} else if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && !owned(owners, imp, s.pkg) {
				add("%s imports %s, which %s does not own", s.path, imp, s.pkg)
			}
		}
	}
	for pkg := range seen {
		if _, ok := floors[pkg]; !ok {
			add("package %s has no floor: list it in internal/archtest", pkg)
		}
		if !documented[pkg] {
			add("package %s has no package comment", pkg)
		}
	}
	for pkg := range floors {
		if !seen[pkg] {
			add("package %s is listed and does not exist", pkg)
		}
	}
	slices.Sort(found)
	return found
}

func owned(owners map[string][]string, imp, pkg string) bool {
	for module, pkgs := range owners {
		if imp != module && !strings.HasPrefix(imp, module+"/") {
			continue
		}
		for _, p := range pkgs {
			below, all := strings.CutSuffix(p, "/...")
			if p == pkg || (all && (pkg == below || strings.HasPrefix(pkg, below+"/"))) {
				return true
			}
		}
	}
	return false
}

// Covers: CN38, VK30, HF16.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	for _, v := range violations(sources(t), archtest.Floors(), archtest.Owners()) {
		t.Error(v)
	}
}

// TestRulesBite shows that each rule finds what it is for.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	floors := map[string]int{"low": 0, "mid": 10, "side": 10, "high": 20}
	owners := map[string][]string{"example.com/lib": {"low"}}
	ok := func(pkg string, imports ...string) source {
		return source{path: pkg + "/f.go", pkg: pkg, doc: true, imports: imports}
	}
	own := func(pkg string) string { return archtest.Module + "/" + pkg }
	base := []source{ok("low", "example.com/lib/sub"), ok("mid", own("low")), ok("side"), ok("high", own("mid"))}
	if v := violations(base, floors, owners); len(v) != 0 {
		t.Fatalf("a clean tree has violations: %v", v)
	}
	tests := []struct {
		name string
		bad  source
		want string
	}{
		{"upward", ok("low", own("high")), "only lower floors"},
		{"sideways", ok("mid", own("side")), "only lower floors"},
		{"third party", ok("mid", "example.com/lib"), "does not own"},
		{"unlisted", ok("new"), "has no floor"},
		{"long", source{path: "low/l.go", pkg: "low", doc: true, lines: maxLines + 1}, "split it"},
		{"long test", source{path: "low/l_test.go", pkg: "low", lines: maxTestLines + 1}, "split it"},
		{"init", source{path: "low/i.go", pkg: "low", hasInit: true}, "init function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := violations(append(slices.Clone(base), tt.bad), floors, owners)
			if len(v) == 0 || !strings.Contains(v[0], tt.want) {
				t.Errorf("got %v, want one with %q", v, tt.want)
			}
		})
	}
	bare := slices.Clone(base)
	bare[0].doc = false
	if v := violations(bare, floors, owners); len(v) != 1 || !strings.Contains(v[0], "package comment") {
		t.Errorf("an undocumented package gives %v", v)
	}
	if v := violations(base[:3], floors, owners); len(v) != 1 || !strings.Contains(v[0], "does not exist") {
		t.Errorf("a package that is gone gives %v", v)
	}
}
