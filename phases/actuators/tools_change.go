package actuators

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/command"
)

// outputTail is the most bytes of a command's output that the model sees.
const outputTail = 12 << 10

type editArgs struct {
	Path string `json:"path" jsonschema:"relative to the repository"`
	Old  string `json:"old" jsonschema:"the exact text to replace; must occur once"`
	New  string `json:"new" jsonschema:"what replaces it"`
}

func (b *box) editFile(_ context.Context, a editArgs) (string, error) {
	clean, content, err := b.load(a.Path)
	if err != nil {
		return "", err
	}
	text, line, err := replaceOnce(string(content), a.Old, a.New)
	if err != nil {
		return "", fmt.Errorf("%s: %w", clean, err)
	}
	if err := b.store(clean, text, 0); err != nil {
		return "", err
	}
	return fmt.Sprintf("Replaced in %s at line %d.", clean, line), nil
}

// replaceOnce replaces old, which must occur exactly once, and tells the line.
// A file with CRLF takes old and new with either line end.
func replaceOnce(content, old, with string) (text string, line int, err error) {
	if old == "" {
		return "", 0, errors.New("old is empty. Use write_file for a new file, or give the text to replace")
	}
	if old == with {
		return "", 0, errors.New("old and new are the same. Nothing would change")
	}
	n := strings.Count(content, old)
	if n == 0 && strings.Contains(content, "\r\n") {
		old, with = crlf(old), crlf(with)
		n = strings.Count(content, old)
	}
	switch n {
	case 0:
		return "", 0, errors.New("old does not occur in it." + nearest(content, old))
	case 1:
		at := strings.Index(content, old)
		return content[:at] + with + content[at+len(old):], 1 + strings.Count(content[:at], "\n"), nil
	default:
		return "", 0, fmt.Errorf("old occurs %d times, at lines %s. Take in more lines around the one you mean", n, occurrences(content, old))
	}
}

func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

func occurrences(content, old string) string {
	var at []string
	line, rest := 1, content
	for len(at) < 10 {
		before, after, ok := strings.Cut(rest, old)
		if !ok {
			break
		}
		line += strings.Count(before, "\n")
		at = append(at, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		rest = after
	}
	return strings.Join(at, ", ")
}

// maxCompare bounds the work of finding the nearest lines.
const maxCompare = 2_000_000

// nearest shows the lines of content most like old, with their numbers.
func nearest(content, old string) string {
	have, want := strings.Split(content, "\n"), strings.Split(strings.Trim(old, "\r\n"), "\n")
	if len(want) > 20 {
		want = want[:20]
	}
	if len(have)*len(want) > maxCompare {
		return " Read the part you mean again and copy it exactly."
	}
	words := make([]map[string]bool, len(want))
	for i, w := range want {
		words[i] = tokens(w)
	}
	best, score := -1, 0.0
	seen := make([]map[string]bool, len(have))
	for i, h := range have {
		seen[i] = tokens(h)
	}
	for i := range have {
		s := 0.0
		for j := range want {
			if i+j < len(have) {
				s += alike(seen[i+j], words[j])
			}
		}
		if s /= float64(len(want)); s > score {
			best, score = i, s
		}
	}
	if best < 0 || score < 0.3 {
		return " Nothing in it is like it. Read the file again and copy the text exactly."
	}
	var out strings.Builder
	out.WriteString(" The nearest lines are (copy without the numbers, blanks exactly):\n")
	for i := best; i < min(best+len(want), len(have)); i++ {
		fmt.Fprintf(&out, "%6d\t%s\n", i+1, clip(have[i], maxLine))
	}
	return out.String()
}

func tokens(line string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.FieldsFunc(line, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r < 0x80
	}) {
		m[w] = true
	}
	return m
}

// alike is the share of words in common, 0 to 1.
func alike(a, b map[string]bool) float64 {
	if len(a) == 0 && len(b) == 0 {
		return 0.5 // two lines without words say little
	}
	both := 0
	for w := range a {
		if b[w] {
			both++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

type writeArgs struct {
	Path    string `json:"path" jsonschema:"relative to the repository"`
	Content string `json:"content" jsonschema:"the whole content"`
}

func (b *box) writeFile(_ context.Context, a writeArgs) (string, error) {
	clean, err := b.resolve(a.Path)
	if err != nil {
		return "", err
	}
	if clean == "." {
		return "", errors.New("the path names no file")
	}
	info, err := b.root.Lstat(filepath.FromSlash(clean))
	existed := err == nil
	switch {
	case existed && info.IsDir():
		return "", fmt.Errorf("%s is a folder", clean)
	case existed && !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", clean)
	case !existed && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking at %s: %w", clean, err)
	}
	if dir := path.Dir(clean); dir != "." {
		if err := b.root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return "", fmt.Errorf("making %s: %w", dir, err)
		}
	}
	if err := b.store(clean, a.Content, os.O_CREATE); err != nil {
		return "", err
	}
	if existed {
		return fmt.Sprintf("Replaced %s (%d bytes).", clean, len(a.Content)), nil
	}
	return fmt.Sprintf("Created %s (%d bytes).", clean, len(a.Content)), nil
}

// store writes a file in place, so that its mode stays.
func (b *box) store(clean, content string, flag int) error {
	if len(content) > maxFile {
		return fmt.Errorf("%s would have %d bytes, more than the %d a tool writes", clean, len(content), maxFile)
	}
	f, err := b.root.OpenFile(filepath.FromSlash(clean), os.O_WRONLY|os.O_TRUNC|flag, 0o644)
	if err != nil {
		return fmt.Errorf("opening %s: %w", clean, err)
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		// A file half written is worse than a node that fails.
		return fatal{fmt.Errorf("writing %s: %w", clean, err)}
	}
	return nil
}

type runArgs struct {
	Argv []string `json:"argv" jsonschema:"program and arguments; no shell"`
}

func (b *box) runDescription() string {
	var forms []string
	for _, a := range b.Allow {
		forms = append(forms, strings.Join(a, " ")+" …")
	}
	return "Run a command in the repository, in a sandbox, without a shell. Allowed are: " + strings.Join(forms, "; ") + "."
}

func (b *box) runCommand(ctx context.Context, a runArgs) (string, error) {
	if !slices.ContainsFunc(b.Allow, func(p []string) bool {
		return len(a.Argv) >= len(p) && slices.Equal(a.Argv[:len(p)], p)
	}) {
		return "", fmt.Errorf("not allowed: %q. %s", a.Argv, b.runDescription())
	}
	res, err := b.Runner.Run(ctx, command.Spec{Argv: a.Argv, Dir: b.Dir, Limits: b.Limits})
	if err != nil {
		return "", fatal{fmt.Errorf("running %q: %w", a.Argv, err)}
	}
	out := strings.ToValidUTF8(string(res.Output), "\uFFFD")
	head := fmt.Sprintf("exit code %d", res.ExitCode)
	if res.TimedOut {
		head = "killed: it ran too long or hung"
	}
	if len(out) > outputTail {
		out = fmt.Sprintf("[%d bytes before this are not shown]\n%s", len(out)-outputTail, strings.ToValidUTF8(out[len(out)-outputTail:], ""))
	} else if res.Truncated {
		out = "[parts of the output are missing]\n" + out
	}
	return head + "\n" + out, nil
}
