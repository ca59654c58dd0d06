// Package plandoc is the form of a plan: what the plan phase writes down, people
// approve, and the implement and review phases go by.
//
// It must not know how plans come about, models or forges. It may import flows
// and phases/{blob,markdown}.
package plandoc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// Notes is what exploring found out.
type Notes struct {
	Findings []string `json:"findings" jsonschema:"what was learned, each with its file"`
	Files    []string `json:"files" jsonschema:"paths that matter, most important first"`
	Tests    []string `json:"tests" jsonschema:"paths of existing tests that cover them"`
	Unknown  []string `json:"unknown" jsonschema:"what could not be found out"`
}

// Check implements the rules that a schema can't say.
func (n Notes) Check() error {
	if len(n.Findings) == 0 {
		return errors.New("findings is empty: say at least where the change belongs")
	}
	return nil
}

// Text is the notes for a prompt.
func (n Notes) Text() string {
	var b strings.Builder
	list(&b, "Findings", n.Findings)
	list(&b, "Files that matter", n.Files)
	list(&b, "Existing tests", n.Tests)
	list(&b, "Unknown", n.Unknown)
	return b.String()
}

// Document is the plan; plan_ref refers to it as JSON.
type Document struct {
	Summary    string   `json:"summary" jsonschema:"what will be different, in one or two sentences"`
	Steps      []string `json:"steps" jsonschema:"what is done, in order"`
	Files      []File   `json:"files" jsonschema:"every file that is changed or made, test files too"`
	Tests      []Test   `json:"tests" jsonschema:"tests that are added or changed"`
	Acceptance []string `json:"acceptance" jsonschema:"what must hold when it is done"`
}

// File is a file that the plan touches.
type File struct {
	Path string `json:"path" jsonschema:"relative to the repository's root"`
	New  bool   `json:"new" jsonschema:"it does not exist yet"`
	Why  string `json:"why" jsonschema:"what changes in it"`
}

// Test is a test that the plan adds or changes.
type Test struct {
	Path string `json:"path" jsonschema:"the test's file"`
	Name string `json:"name" jsonschema:"the test's name"`
}

// Check implements the rules that a schema can't say.
func (d Document) Check() error {
	if strings.TrimSpace(d.Summary) == "" {
		return errors.New("summary is empty")
	}
	if len(d.Steps) == 0 {
		return errors.New("steps is empty")
	}
	if len(d.Files) == 0 {
		return errors.New("files is empty")
	}
	return nil
}

// Hash is the sha256 in hex of the plan; an approval is of one hash.
func (d Document) Hash() (string, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// HashDigits is how many digits of a plan's hash a person types to approve it.
const HashDigits = 8

// Short is the part of a plan's hash that people see and type.
func Short(hash string) string { return hash[:min(len(hash), HashDigits)] }

// Load reads the plan that a state refers to by plan_ref; the zero Document
// when there is none.
func Load(ctx context.Context, c flows.Call) (Document, error) {
	return blob.GetJSON[Document](ctx, c.Artifacts, "plan", c.In.Artifact("plan_ref"))
}

// Paths are the files the plan names.
func (d Document) Paths() []string {
	paths := make([]string, 0, len(d.Files))
	for _, f := range d.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// Text is the plan for a prompt.
func (d Document) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Summary: %s\n", d.Summary)
	list(&b, "Steps", d.Steps)
	files := make([]string, 0, len(d.Files))
	for _, f := range d.Files {
		files = append(files, f.Path+map[bool]string{true: " (new)", false: ""}[f.New]+": "+f.Why)
	}
	list(&b, "Files", files)
	tests := make([]string, 0, len(d.Tests))
	for _, t := range d.Tests {
		tests = append(tests, t.Path+": "+t.Name)
	}
	list(&b, "Tests", tests)
	list(&b, "Acceptance", d.Acceptance)
	return b.String()
}

// Markdown is the plan for people; every word in it is a model's.
func (d Document) Markdown() string {
	var b strings.Builder
	b.WriteString(markdown.Prose(strings.TrimSpace(d.Summary)) + "\n\n**Steps**\n\n")
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, markdown.Inline(s, 600))
	}
	b.WriteString("\n**Files**\n\n")
	for _, f := range d.Files {
		b.WriteString("- " + markdown.Code(f.Path))
		if f.New {
			b.WriteString(" (new)")
		}
		b.WriteString(": " + markdown.Inline(f.Why, 300) + "\n")
	}
	if len(d.Tests) > 0 {
		b.WriteString("\n**Tests**\n\n")
		for _, t := range d.Tests {
			b.WriteString("- " + markdown.Code(t.Name) + " in " + markdown.Code(t.Path) + "\n")
		}
	}
	if len(d.Acceptance) > 0 {
		b.WriteString("\n**Done when**\n\n")
		for _, a := range d.Acceptance {
			b.WriteString("- " + markdown.Inline(a, 400) + "\n")
		}
	}
	return b.String()
}

func list(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	b.WriteString(title + ":\n")
	for _, s := range items {
		b.WriteString("- " + strings.Join(strings.Fields(s), " ") + "\n")
	}
}
