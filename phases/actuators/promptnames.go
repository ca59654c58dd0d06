package actuators

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// PromptNames are the ids of a phase's prompts without their versions, e.g.
// "triage/classify", in order: those of the files prompts/NAME@VERSION.md.
func PromptNames(phase string, files fs.FS) []string {
	found, _ := fs.Glob(files, "prompts/*@*.md") // fails for a bad pattern only
	var names []string
	for _, file := range found {
		name, _, _ := strings.Cut(path.Base(file), "@")
		if name = phase + "/" + name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
