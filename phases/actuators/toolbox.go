package actuators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/llm"
)

// maxResult is the most bytes of one tool result.
const maxResult = 16 << 10

// tool is one thing the model may call. An error of run is told to the model,
// unless it is fatal.
type tool struct {
	def    llm.Tool
	writes bool
	run    func(ctx context.Context, in json.RawMessage) (string, error)
}

// newTool makes a tool of a function of A, whose schema is inferred.
func newTool[A any](name, description string, run func(ctx context.Context, args A) (string, error)) (tool, error) {
	form, err := newAnswer[A]()
	if err != nil {
		return tool{}, fmt.Errorf("tool %s: %w", name, err)
	}
	return tool{
		def: llm.Tool{Name: name, Description: description, Input: form.schema},
		run: func(ctx context.Context, in json.RawMessage) (string, error) {
			args, err := form.decode(in)
			if err != nil {
				return "", fmt.Errorf("bad arguments: %w. The schema is %s", err, form.schema)
			}
			return run(ctx, args)
		},
	}, nil
}

// box is an open Toolbox.
type box struct {
	Toolbox
	root *os.Root
	list []tool
}

func openBox(t Toolbox) (*box, error) {
	if !filepath.IsAbs(t.Dir) {
		return nil, fmt.Errorf("directory %q is not absolute", t.Dir)
	}
	for _, a := range t.Allow {
		if len(a) == 0 {
			return nil, errors.New("an empty argv prefix would allow every command")
		}
	}
	if len(t.Allow) > 0 && t.Runner == nil && !t.ReadOnly {
		return nil, errors.New("commands are allowed, but there is no runner")
	}
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", t.Dir, err)
	}
	b := &box{Toolbox: t, root: root}
	if err := b.fill(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return b, nil
}

// close ends the use of the directory; it was only read through handles that
// are closed already, so that an error here says nothing about the work.
func (b *box) close() { _ = b.root.Close() }

func (b *box) tools() []tool { return b.list }

func (b *box) fill() error {
	var errs []error
	add := func(t tool, err error) { b.list, errs = append(b.list, t), append(errs, err) }
	write := func(t tool, err error) { t.writes = true; add(t, err) }
	add(newTool("list_files", "List files by a glob such as **/*.go or internal/**; the default is all files.", b.listFiles))
	add(newTool("read_file", "Read a text file, with line numbers. Use start and end for a range of lines.", b.readFile))
	add(newTool("search", "Search file contents by a regular expression (RE2, line by line).", b.search))
	if b.ReadOnly {
		return errors.Join(errs...)
	}
	write(newTool("edit_file", "Replace one exact piece of text in a file. old must occur exactly once, with its blanks and line ends, and without line numbers; take in enough lines around it.", b.editFile))
	write(newTool("write_file", "Create a file, or replace its whole content. Folders are made as needed.", b.writeFile))
	if len(b.Allow) > 0 {
		add(newTool(runTool, b.runDescription(), b.runCommand))
	}
	return errors.Join(errs...)
}

// resolve checks a path a model gave and returns it clean, relative, with
// slashes. Symbolic links are refused as such, so that none leads into .git;
// os.Root keeps everything else inside. The last part may be missing.
func (b *box) resolve(name string) (string, error) {
	if name == "" {
		return "", errors.New("the path is empty. Give a path relative to the repository, such as internal/x/y.go")
	}
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q is not a valid path", name)
	}
	if strings.Contains(name, `\`) {
		return "", fmt.Errorf("%q has a backslash. Use / between folders", name)
	}
	if rel, ok := strings.CutPrefix(name, filepath.ToSlash(b.Dir)+"/"); ok {
		name = rel
	}
	clean := path.Clean(name)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%q is outside the repository. Give a path relative to it", name)
	}
	at := ""
	for part := range strings.SplitSeq(clean, "/") {
		if gitDir(part) {
			return "", fmt.Errorf("%q is inside .git, which no tool reaches", name)
		}
		at = path.Join(at, part)
		info, err := b.root.Lstat(filepath.FromSlash(at))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("looking at %s: %w", at, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf("%s is a symbolic link, which no tool follows. Use the file it points to", at)
		}
	}
	return clean, nil
}

// gitDir reports a name that some file system takes for .git.
func gitDir(part string) bool {
	part = strings.ToLower(strings.TrimRight(part, ". "))
	return part == ".git" || part == "git~1" || strings.HasPrefix(part, ".git:")
}

// load reads a regular file for a tool.
func (b *box) load(name string) (clean string, content []byte, err error) {
	clean, err = b.resolve(name)
	if err != nil {
		return "", nil, err
	}
	info, err := b.root.Lstat(filepath.FromSlash(clean))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, fmt.Errorf("%s does not exist.%s", clean, b.similar(clean))
	case err != nil:
		return "", nil, fmt.Errorf("looking at %s: %w", clean, err)
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a folder. Use list_files with %q", clean, path.Join(clean, "**"))
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file", clean)
	case info.Size() > maxFile:
		return "", nil, fmt.Errorf("%s has %d bytes, more than the %d a tool reads", clean, info.Size(), maxFile)
	}
	content, err = b.root.ReadFile(filepath.FromSlash(clean))
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", clean, err)
	}
	return clean, content, nil
}

// maxFile is the largest file a tool reads.
const maxFile = 4 << 20

// similar names files with the same last part.
func (b *box) similar(clean string) string {
	var found []string
	_ = b.walk(func(p string, _ fs.DirEntry) error {
		if strings.EqualFold(path.Base(p), path.Base(clean)) {
			found = append(found, p)
		}
		if len(found) == 5 {
			return fs.SkipAll
		}
		return nil
	})
	if len(found) == 0 {
		return " Use list_files to see what there is."
	}
	return " Did you mean " + strings.Join(found, ", ") + "?"
}

// binary reports content that is no text.
func binary(content []byte) bool {
	return strings.ContainsRune(string(content[:min(len(content), 8000)]), 0)
}

// capped shortens a result, with a note.
func capped(text string) string {
	if len(text) <= maxResult {
		return text
	}
	const room = 100
	return strings.ToValidUTF8(text[:maxResult-room], "") + fmt.Sprintf("\n[cut: %d bytes more; ask for less]", len(text)-maxResult+room)
}
