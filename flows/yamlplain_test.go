package flows

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// libraryTree is the tree that the library makes of a file of one document,
// without its comments.
func libraryTree(src []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

func samePlain(t *testing.T, src []byte) (plain bool) {
	t.Helper()
	got := parsePlain(src)
	if got == nil {
		return false
	}
	want, err := libraryTree(src)
	if err != nil {
		t.Fatalf("the library refuses what was read:\n%s\n%v", src, err)
	}
	if diff := cmp.Diff(written(want), written(got)); diff != "" {
		t.Fatalf("%s\nis read otherwise than by the library (-want +got):\n%s", src, diff)
	}
	return true
}

// written is a tree in lines, without its comments.
func written(n *yaml.Node) []string {
	lines := []string{fmt.Sprintf("%d:%d: %d %d %s %q, %d within, anchor %q", n.Line, n.Column, n.Kind, n.Style, n.Tag, n.Value, len(n.Content), n.Anchor)}
	for _, c := range n.Content {
		for _, line := range written(c) {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

// All flow files of this repository are read as the library reads them, and
// hardly any good one needs the library.
func TestPlainYAMLOfFiles(t *testing.T) {
	t.Parallel()
	files := testFiles(t, "bad/*.yaml")
	for _, file := range files {
		samePlain(t, readFile(t, file))
	}
	good := testFiles(t, "good/*.yaml")
	for _, pattern := range []string{"templates/*.yaml", "../phases/*/flow.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files match %s: %v", pattern, err)
		}
		good = append(good, found...)
	}
	needed := 0
	for _, file := range good {
		if !samePlain(t, readFile(t, file)) {
			t.Logf("%s needs the library", file)
			needed++
		}
	}
	if needed*10 > len(good) {
		t.Errorf("%d of %d files need the library", needed, len(good))
	}
}

// plainCases are files, and whether they are read without the library.
func plainCases() map[string]plainCase {
	return map[string]plainCase{
		"block":                     {"a: 1\nb:\n  c: d e\n  f: []\ng: {h: i, j: [k, \"l\", 'm'] }\n", true},
		"lists":                     {"a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\ni:\n  - j\n", true},
		"nothing":                   {"a:\nb:\n  c:\n  # d\ne:", true},
		"scalars":                   {"a: [true, yes, ~, null, 0, 007, 0x1f, -1, 1.5, .5, 2020-01-02, 20m, o, no, 1e3, 123456789012345678901]\n", true},
		"quotes":                    {`a: "b\"c\\d\n"` + "\nb: 'it''s'\n\"c\": 'd' # e\n", true},
		"comments":                  {"# a\n\nb: c # d\n  # e\nf: g#h\ni: [j, # k\n  l,\n\n]\n# m", true},
		"colons":                    {"a: b:c\nd: http://e\nf: {g: h:i}\n", true},
		"letters":                   {"ä: {ö: ü, ß: 'é'} # ☃\n", true},
		"literal":                   {"a: |\n  b\n    c\n\n  d\n\ne: |- # f\n g\nh:\n  - |\n   i\n  - j\n", true},
		"dash":                      {"a: - b\n", false},
		"nested in a line":          {"a: b: c\n", false},
		"over lines":                {"a: b\n  c\nd: e\n", false},
		"quoted over lines":         {"a: 'b\n  c'\n", false},
		"folded":                    {"a: >\n  b\n", false},
		"keep":                      {"a: |+\n  b\n\n", false},
		"literal without end":       {"a: |\n  b", false},
		"anchor":                    {"a: &b c\nd: *b\n", false},
		"tag":                       {"a: !!str b\n", false},
		"merge":                     {"<<: {a: b}\n", false},
		"question":                  {"? a\n: b\n", false},
		"documents":                 {"a: b\n---\nc: d\n", false},
		"tab":                       {"a:\tb\n", false},
		"carriage return":           {"a: b\r\nc: d\r\n", false},
		"other indentation":         {"a:\n    b: c\n  d: e\n", false},
		"open":                      {"a: [b, {c: d]\n", false},
		"empty in flow":             {"a: {b}\nc: {d: , e: f}\n", false},
		"word":                      {"a\n", false},
		"empty":                     {"", false},
		"escapes":                   {`a: "b\tc\\d\ne\"f"` + "\n", true},
		"escaped slash":             {`a: "b\/c"` + "\n", false},
		"other escapes":             {`a: "b\u0063"` + "\n", false},
		"quote without end":         {`a: "b\"` + "\n", false},
		"literal after blank lines": {"a: |\n\n\n  b\n", true},
		"literal after blanks":      {"a: |\n    \n  b\n", false},
		"blanks under the margin":   {"a: |\n  b\n \n  c\n", true},
		"blanks over the margin":    {"a: |\n  b\n    \n  c\n", true},
		"literal before a comment":  {"a:\n  b: |\n    c\n  # d\n# e\n  f: g\n", true},
		"literal of nothing":        {"a: |\nb: c\n", false},
		"quoted merge":              {"\"<<\": {a: b}\n'<<': c\nd: [<]\n", true},
		"byte order mark":           {"\ufeffa: b\n", false},
		"byte order mark within":    {"a: \"b\ufeffc\"\n", false},
		"line separator":            {"a: \"b\u2028c\"\n", false},
		"paragraph separator":       {"a: b\u2029c\n", false},
		"no UTF-8":                  {"a: \xff\n", false},
		"long key":                  {strings.Repeat("k", 1024) + ": v\n", true},
		"too long key":              {strings.Repeat("k", 1025) + ": v\n", false},
		"long quoted key":           {"'" + strings.Repeat("''", 511) + "': v\n", true},
		"too long quoted key":       {"'" + strings.Repeat("''", 512) + "': v\n", false},
		"long key in flow":          {"a: {'" + strings.Repeat("''", 511) + "': v}\n", true},
		"too long key in flow":      {"a: {'" + strings.Repeat("''", 512) + "': v}\n", false},
		"deep block":                {blockOf(maxPlainDepth), true},
		"too deep block":            {blockOf(maxPlainDepth + 1), false},
		"deep flow":                 {flowOf(maxPlainDepth - 1), true},
		"too deep flow":             {flowOf(maxPlainDepth), false},
	}
}

type plainCase struct {
	src   string
	plain bool
}

// blockOf is so many mappings within each other.
func blockOf(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return strings.TrimSuffix(b.String(), "\n") + " b\n"
}

// flowOf is so many lists within each other.
func flowOf(depth int) string {
	return "a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n"
}

// What is read here is read as the library reads it; the rest is left to it.
func TestPlainYAML(t *testing.T) {
	t.Parallel()
	for name, c := range plainCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := samePlain(t, []byte(c.src)); got != c.plain {
				t.Errorf("read without the library: %v, want %v", got, c.plain)
			}
		})
	}
}

// The letters of a line are counted once, not again for each node.
func TestPlainYAMLCountsOnce(t *testing.T) {
	t.Parallel()
	p := &plainYAML{src: "äö: üé\nß: x"}
	p.newLine(0)
	for _, want := range []struct{ next, line, column, counted int }{{4, 1, 3, 4}, {6, 1, 5, 6}, {8, 1, 6, 8}} {
		p.next = want.next
		if line, column := p.mark(); line != want.line || column != want.column || p.counted != want.counted {
			t.Errorf("at %d: %d:%d, counted to %d, want %v", want.next, line, column, p.counted, want)
		}
	}
	// What was counted is taken as it is.
	p.letters, p.next = 100, 10
	if _, column := p.mark(); column != 102 {
		t.Errorf("column %d, want 102", column)
	}
	p.next = 10
	p.skip()
	if line, column := p.mark(); line != 2 || column != 1 || p.lineRest() != "ß: x" {
		t.Errorf("the next line is at %d:%d with %q", line, column, p.lineRest())
	}
}

func FuzzPlainYAML(f *testing.F) {
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		for _, file := range testFiles(f, pattern) {
			f.Add(readFile(f, file))
		}
	}
	for _, c := range plainCases() {
		f.Add([]byte(c.src))
	}
	f.Add([]byte("a: {b: 'c''d', e: [f, \"g\\n\",]} # h\n"))
	f.Add([]byte("a: 1\n#b\n  #c\nd: 0x1\n"))
	f.Fuzz(func(t *testing.T, src []byte) { samePlain(t, src) })
}

// A file's first document is the same tree with the library and without it;
// only the library's reader has more to come.
func TestFirstDocument(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]struct{ tree, rest, refused bool }{
		"a: 'b'":           {tree: true},
		"a: \"\\u0062\"":   {tree: true, rest: true},
		"a: b\n---\nc: d":  {tree: true, rest: true},
		"":                 {},
		"# only a comment": {},
		"a: [":             {refused: true},
	} {
		root, rest, err := firstDocument([]byte(src))
		if (root != nil) != want.tree || (rest != nil) != want.rest || (err != nil) != want.refused {
			t.Errorf("%q: tree %v, rest %v, error %v", src, root != nil, rest != nil, err)
		}
		if root != nil && (len(root.Content) != 2 || root.Content[1].Value != "b") {
			t.Errorf("%q: %v", src, written(root))
		}
	}
}
