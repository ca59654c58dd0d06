package actuators

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxInstructions is the most bytes taken of one file, maxAllInstructions
	// of all.
	maxInstructions    = 16 << 10
	maxAllInstructions = 32 << 10
)

// instructionFiles are where repositories keep advice for programs like this.
func instructionFiles() []string {
	return []string{"AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md"}
}

// Instructions are a repository's own advice files as untrusted sections, in
// a fixed order, shortened where they are long. Whoever can change the
// repository can write them, so that they inform and never command. Missing
// files, links and folders are left out, a file equal to one before as well.
func Instructions(dir string) ([]Section, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for instructions in %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // only read
	var out []Section
	seen := map[string]bool{}
	left := maxAllInstructions
	for _, name := range instructionFiles() {
		text, err := readInstructions(root, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if strings.TrimSpace(text) == "" || seen[text] || left <= 0 {
			continue
		}
		seen[text] = true
		if most := min(maxInstructions, left); len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "\n[cut here; the file is longer]"
		}
		left -= len(text)
		out = append(out, Section{Title: "Advice of the repository, " + name, Text: text, Untrusted: true})
	}
	return out, nil
}

func readInstructions(root *os.Root, name string) (string, error) {
	name = filepath.FromSlash(name)
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !info.Mode().IsRegular()) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxInstructions+1))
	return string(b), errors.Join(err, f.Close())
}
