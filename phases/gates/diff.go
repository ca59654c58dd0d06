package gates

import (
	"fmt"
	"path"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/workspace"
)

// The limits used where Rules has zero.
const (
	DefaultMaxFiles = 40
	DefaultMaxLines = 2000
)

// Rules bound what a diff may touch.
type Rules struct {
	// MaxFiles and MaxLines (added plus deleted) bound the size; zero is the
	// default, Unlimited switches a limit off.
	MaxFiles, MaxLines int
	// Protected are globs of paths that no diff may touch, matched without
	// regard to case: "*" and "?" stay inside a path element, "**" crosses
	// them, and a pattern without a slash matches at any depth.
	Protected []string
	// AllowWorkflows permits files that run in CI, which otherwise need a
	// person.
	AllowWorkflows bool
	// Scope are the paths or globs of the plan; empty means no check.
	Scope []string
	// ScopeSlack is how many files outside Scope are reported without being
	// fatal.
	ScopeSlack int
}

// The codes of Finding.
const (
	CodeEmpty     = "empty"
	CodeTooBig    = "too-big"
	CodeProtected = "protected-path"
	CodeWorkflow  = "workflow-file"
	CodeSecret    = "secret"
	CodeScope     = "out-of-scope"
	CodeSymlink   = "symlink"
	CodeSubmodule = "submodule"
	CodeBinary    = "binary"
)

// Finding is one thing wrong, or worth telling, about a diff.
type Finding struct {
	Code string `json:"code"`
	// Path is the file, empty when the finding is of the whole diff.
	Path string `json:"path,omitempty"`
	// Text is for people and for the next attempt; it never holds the secret
	// that was found.
	Text string `json:"text"`
	// Fatal findings forbid a push.
	Fatal bool `json:"fatal"`
}

// String is the finding in one line.
func (f Finding) String() string {
	if f.Path == "" {
		return f.Code + ": " + f.Text
	}
	return fmt.Sprintf("%s: %q: %s", f.Code, f.Path, f.Text)
}

// Fatal reports that one of the findings forbids a push.
func Fatal(findings []Finding) bool {
	for _, f := range findings {
		if f.Fatal {
			return true
		}
	}
	return false
}

// DefaultProtected are globs that a new configuration begins with: who must
// review, how other CI systems run, and the pipeline's own settings.
func DefaultProtected() []string {
	return []string{
		"CODEOWNERS", ".gitmodules", ".gitattributes", ".gitlab-ci.yml", ".travis.yml", "Jenkinsfile",
		"/.circleci/**", "/.buildkite/**", "/azure-pipelines.yml", "/.github/dependabot.yml", "/.pipelinebot/**",
	}
}

// CheckDiff judges a diff by the rules. Findings come in the order of the
// files; nil means that there is nothing to say.
func CheckDiff(d workspace.Diff, r Rules) []Finding {
	if len(d.Files) == 0 {
		return []Finding{{Code: CodeEmpty, Text: "the attempt changed nothing", Fatal: true}}
	}
	patch := parsePatch(d.Patch)
	var found []Finding
	add := func(code, path, text string, fatal bool) {
		found = append(found, Finding{Code: code, Path: path, Text: text, Fatal: fatal})
	}
	lines, outside := 0, 0
	for _, f := range d.Files {
		lines += max(f.Added, 0) + max(f.Deleted, 0)
		names := []string{f.Path}
		if f.OldPath != "" {
			names = append(names, f.OldPath)
		}
		for _, name := range names {
			if why := r.protected(name); why != "" {
				add(CodeProtected, name, why, true)
			}
			if !r.AllowWorkflows && isWorkflow(name) {
				add(CodeWorkflow, name, "it runs in CI with the repository's rights: a person must change it", true)
			}
		}
		checkMode(f, patch, add)
		if f.Added < 0 && f.Status != "D" {
			add(CodeBinary, f.Path, "binary content can't be reviewed line by line", false)
		}
		if len(r.Scope) > 0 && !matchAny(r.Scope, f.Path) {
			outside++
			add(CodeScope, f.Path, "the plan does not name this file", outside > r.ScopeSlack)
		}
	}
	found = append(found, checkSecrets(d.Files, patch)...)
	if most := limit(r.MaxFiles, DefaultMaxFiles); most >= 0 && len(d.Files) > most {
		add(CodeTooBig, "", fmt.Sprintf("%d files changed, at most %d are allowed", len(d.Files), most), true)
	}
	if most := limit(r.MaxLines, DefaultMaxLines); most >= 0 && lines > most {
		add(CodeTooBig, "", fmt.Sprintf("%d lines changed, at most %d are allowed", lines, most), true)
	}
	return found
}

func limit(v, byDefault int) int {
	if v == 0 {
		return byDefault
	}
	return v
}

// protected says why name must not be touched, or nothing.
func (r Rules) protected(name string) string {
	if unsafePath(name) {
		return "the path leaves the repository or enters .git"
	}
	for _, pattern := range r.Protected {
		if Match(strings.ToLower(pattern), strings.ToLower(name)) {
			return fmt.Sprintf("it matches the protected pattern %q", pattern)
		}
	}
	return ""
}

// unsafePath reports paths that no honest diff has. Case is ignored, since
// some file systems do.
func unsafePath(name string) bool {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00") || path.Clean(name) != name {
		return true
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

func isWorkflow(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, ".github/workflows/") || strings.HasPrefix(name, ".github/actions/") ||
		name == "action.yml" || name == "action.yaml"
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if p == name || Match(p, name) {
			return true
		}
	}
	return false
}

// checkMode looks at what kind of file it is: git stores links as 120000 and
// submodules as 160000.
func checkMode(f workspace.File, p patch, add func(code, path, text string, fatal bool)) {
	if f.Status == "D" {
		return
	}
	switch f.Mode {
	case "120000":
		target := p.content(f.Path)
		if target == "" || strings.HasPrefix(target, "/") || strings.ContainsAny(target, "\\\n\x00") ||
			unsafePath(path.Join(path.Dir(f.Path), target)) {
			add(CodeSymlink, f.Path, fmt.Sprintf("the symbolic link leaves the repository, or can't be read: %q", target), true)
			return
		}
		add(CodeSymlink, f.Path, fmt.Sprintf("a symbolic link to %q", target), false)
	case "160000":
		add(CodeSubmodule, f.Path, "submodules are not changed by the pipeline", true)
	}
}
