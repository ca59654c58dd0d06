package coverage

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Test is something that proves rows: a Go test, or a file that a test walks,
// such as a scenario.
type Test struct {
	// Name is "package.TestName", or the file's name.
	Name string
	// File is its path in the repository, Line where it stands.
	File string
	Line int
	// Rows are the ids it covers.
	Rows []string
}

// Tests finds all tests of a repository that say what they cover. Problems
// are comments that can't be read.
func Tests(repo fs.FS) (tests []Test, problems []string, err error) {
	err = fs.WalkDir(repo, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != "." && (strings.HasPrefix(name, ".") || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		data := strings.Contains("/"+file, "/testdata/")
		switch {
		case strings.HasSuffix(name, "_test.go") && !data:
			return read(repo, file, goTests, &tests, &problems)
		case data && (path.Ext(name) == ".yaml" || path.Ext(name) == ".txtar"):
			return read(repo, file, dataFile, &tests, &problems)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for tests: %w", err)
	}
	return tests, problems, nil
}

// reader finds the tests in one file.
type reader func(file string, src []byte) ([]Test, []string, error)

func read(repo fs.FS, file string, find reader, tests *[]Test, problems *[]string) error {
	src, err := fs.ReadFile(repo, file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	found, bad, err := find(file, src)
	*tests, *problems = append(*tests, found...), append(*problems, bad...)
	return err
}

// goTests finds tests, benchmarks, fuzz tests and examples.
func goTests(file string, src []byte) (tests []Test, problems []string, err error) {
	if !bytes.Contains(src, []byte("Covers:")) {
		return nil, nil, nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, src, parser.ParseComments)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing: %w", err)
	}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !isTest(fn.Name.Name) {
			continue
		}
		line := files.Position(fn.Pos()).Line
		rows, err := covered(fn.Doc.Text())
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: %v", file, line, fn.Name.Name, err))
		}
		if len(rows) > 0 {
			tests = append(tests, Test{Name: path.Dir(file) + "." + fn.Name.Name, File: file, Line: line, Rows: rows})
		}
	}
	return tests, problems, nil
}

func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "Example"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// dataFile finds a line "# Covers: …" in a scenario, a flow or a script.
func dataFile(file string, src []byte) (tests []Test, problems []string, err error) {
	lines := bufio.NewScanner(bytes.NewReader(src))
	lines.Buffer(nil, len(src)+1)
	for n := 1; lines.Scan(); n++ {
		text, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "# Covers:")
		if !ok {
			continue
		}
		rows, err := covered("Covers:" + text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s:%d: %v", file, n, err))
			continue
		}
		tests = append(tests, Test{Name: path.Base(file), File: file, Line: n, Rows: rows})
	}
	return tests, problems, lines.Err()
}
