package actuators

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxListed  = 400
	maxMatches = 100
	maxLine    = 300
	maxAround  = 5
	// maxPattern bounds a pattern; RE2 is linear, but its program is not free.
	maxPattern = 500
)

// heavy folders are installed or built, seldom meant, and large.
var heavy = []string{"node_modules", ".venv", "__pycache__"}

// walk visits all regular files, in order, without .git and heavy folders.
func (b *box) walk(visit func(p string, e fs.DirEntry) error) error {
	return fs.WalkDir(b.root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // what can't be read is not shown
		case p == ".":
			return nil
		case gitDir(e.Name()), e.IsDir() && slices.Contains(heavy, e.Name()):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		return visit(p, e)
	})
}

type listArgs struct {
	Pattern string `json:"pattern,omitempty" jsonschema:"glob; ** is any number of folders"`
}

func (b *box) listFiles(ctx context.Context, a listArgs) (string, error) {
	match, err := globber(a.Pattern)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	n := 0
	err = b.walk(func(p string, e fs.DirEntry) error {
		if ctx.Err() != nil {
			return fatal{context.Cause(ctx)}
		}
		if !match(p) {
			return nil
		}
		if n++; n <= maxListed && out.Len() < maxResult-200 {
			size := int64(-1)
			if info, err := e.Info(); err == nil {
				size = info.Size()
			}
			fmt.Fprintf(&out, "%s (%d bytes)\n", p, size)
		}
		return nil
	})
	shown := strings.Count(out.String(), "\n")
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return fmt.Sprintf("No file matches %q.", a.Pattern), nil
	case n > shown:
		fmt.Fprintf(&out, "[%d more; narrow the pattern]\n", n-shown)
	}
	return out.String(), nil
}

type readArgs struct {
	Path  string `json:"path" jsonschema:"relative to the repository"`
	Start int    `json:"start,omitempty" jsonschema:"first line, from 1"`
	End   int    `json:"end,omitempty" jsonschema:"last line"`
}

func (b *box) readFile(_ context.Context, a readArgs) (string, error) {
	clean, content, err := b.load(a.Path)
	if err != nil {
		return "", err
	}
	if binary(content) {
		return "", fmt.Errorf("%s is binary (%d bytes)", clean, len(content))
	}
	if len(content) == 0 {
		return clean + " is empty.", nil
	}
	lines := strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(content), "\uFFFD"), "\n"), "\n")
	start, end := a.Start, a.End
	if start <= 0 {
		start = 1
	}
	if end <= 0 || end > len(lines) {
		end = len(lines)
	}
	if start > len(lines) || start > end {
		return "", fmt.Errorf("%s has %d lines; lines %d to %d do not exist", clean, len(lines), a.Start, a.End)
	}
	var out strings.Builder
	last := start - 1
	for i := start; i <= end; i++ {
		line := fmt.Sprintf("%6d\t%s\n", i, strings.TrimSuffix(lines[i-1], "\r"))
		if out.Len()+len(line) > maxResult-200 {
			if i == start { // one enormous line
				out.WriteString(clip(line, maxResult/2) + "\n")
				last = i
			}
			break
		}
		out.WriteString(line)
		last = i
	}
	if last < len(lines) || start > 1 {
		fmt.Fprintf(&out, "[lines %d-%d of %d", start, last, len(lines))
		if last < end {
			fmt.Fprintf(&out, "; go on with start=%d", last+1)
		}
		out.WriteString("]\n")
	}
	return out.String(), nil
}

type searchArgs struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression (RE2)"`
	Files      string `json:"files,omitempty" jsonschema:"glob of the files to search"`
	Context    int    `json:"context,omitempty" jsonschema:"lines around a match, at most 5"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
}

func (b *box) search(ctx context.Context, a searchArgs) (string, error) {
	if a.Pattern == "" || len(a.Pattern) > maxPattern {
		return "", fmt.Errorf("the pattern must have 1 to %d bytes", maxPattern)
	}
	expr := a.Pattern
	if a.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return "", fmt.Errorf("%w. RE2 has no look-around and no back-references; escape . ( ) [ ] { } * + ? | ^ $ to mean themselves", err)
	}
	match, err := globber(a.Files)
	if err != nil {
		return "", err
	}
	around := min(max(a.Context, 0), maxAround)
	var out strings.Builder
	n, full := 0, false
	err = b.walk(func(p string, _ fs.DirEntry) error {
		if ctx.Err() != nil {
			return fatal{context.Cause(ctx)}
		}
		if !match(p) {
			return nil
		}
		_, content, err := b.load(p)
		if err != nil || binary(content) {
			return nil //nolint:nilerr // too large or gone: not searched
		}
		if found := grep(re, p, strings.ToValidUTF8(string(content), "\uFFFD"), around, &n); found != "" {
			if out.Len()+len(found) > maxResult-200 {
				full = true
				out.WriteString(clip(found, max(maxResult-200-out.Len(), 0)) + "\n")
			} else {
				out.WriteString(found)
			}
		}
		if full || n >= maxMatches {
			full = true
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "No match.", nil
	case full:
		out.WriteString("[there may be more; narrow the pattern or the files]\n")
	}
	return out.String(), nil
}

// grep finds lines and shows them with those around, as "path:line: text" for
// a match and "path-line- text" beside it.
func grep(re *regexp.Regexp, p, content string, around int, n *int) string {
	lines := strings.Split(content, "\n")
	var out strings.Builder
	shown := -1
	for i, line := range lines {
		if *n >= maxMatches {
			break
		}
		if !re.MatchString(strings.TrimSuffix(line, "\r")) {
			continue
		}
		*n++
		if around > 0 && shown >= 0 && i-around > shown+1 {
			out.WriteString("--\n")
		}
		for j := max(i-around, shown+1); j <= min(i+around, len(lines)-1); j++ {
			mark := "-"
			if re.MatchString(strings.TrimSuffix(lines[j], "\r")) {
				mark = ":"
			}
			fmt.Fprintf(&out, "%s%s%d%s %s\n", p, mark, j+1, mark, clip(strings.TrimSuffix(lines[j], "\r"), maxLine))
			shown = j
		}
	}
	return out.String()
}

// globber compiles a glob with **; "" matches everything, a folder all below
// it, and a pattern without a slash any file of that name.
func globber(pattern string) (func(string) bool, error) {
	pattern = strings.TrimPrefix(strings.TrimSuffix(pattern, "/"), "./")
	if pattern == "" || pattern == "." {
		return func(string) bool { return true }, nil
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the glob has more than %d bytes", maxPattern)
	}
	if strings.HasPrefix(pattern, "/") || strings.Contains("/"+pattern+"/", "/../") {
		return nil, fmt.Errorf("glob %q leaves the repository. Give one relative to it", pattern)
	}
	parts := strings.Split(pattern, "/")
	for _, p := range parts {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("glob %q: %w in %q", pattern, err, p)
		}
	}
	return func(name string) bool {
		if len(parts) == 1 {
			if ok, err := path.Match(parts[0], path.Base(name)); err == nil && ok && parts[0] != "**" {
				return true
			}
		}
		names := strings.Split(name, "/")
		return globParts(parts, names) || globParts(append(slices.Clone(parts), "**"), names)
	}, nil
}

// globParts matches folder by folder, keeping the set of places where the
// pattern may stand, so that many ** cost no more than the product.
func globParts(parts, names []string) bool {
	at := make([]bool, len(parts)+1)
	at[0] = true
	open := func() {
		for i, p := range parts {
			if p == "**" && at[i] {
				at[i+1] = true
			}
		}
	}
	open()
	for _, name := range names {
		next := make([]bool, len(parts)+1)
		for i, p := range parts {
			if !at[i] {
				continue
			}
			if p == "**" {
				next[i] = true
			} else if ok, err := path.Match(p, name); err == nil && ok {
				next[i+1] = true
			}
		}
		at = next
		open()
	}
	return at[len(parts)]
}
