package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/blob"
)

// Severity is how bad a finding is; see rank for the order.
type Severity string

// The severities, mildest first.
const (
	Nit     Severity = "nit"
	Minor   Severity = "minor"
	Major   Severity = "major"
	Blocker Severity = "blocker"
)

// rank orders severities; 0 is no severity.
func (s Severity) rank() int {
	return 1 + slices.Index([]Severity{Nit, Minor, Major, Blocker}, s)
}

// Finding is one thing that a reviewer objects to.
type Finding struct {
	Severity Severity `json:"severity" enum:"nit,minor,major,blocker" jsonschema:"how bad it is"`
	Path     string   `json:"path" jsonschema:"the file, or empty"`
	Line     int      `json:"line" jsonschema:"line in the new version of the file, or 0"`
	Text     string   `json:"text" jsonschema:"what goes wrong, and for whom"`
}

// Findings is a reviewer's form, and what findings_ref refers to.
type Findings struct {
	Summary  string    `json:"summary" jsonschema:"one or two sentences"`
	Findings []Finding `json:"findings" jsonschema:"the worst first; empty when nothing is wrong"`
}

// Check implements the rules that a schema can't say.
func (f Findings) Check() error {
	for i, one := range f.Findings {
		switch {
		case one.Severity.rank() == 0:
			return fmt.Errorf("findings[%d].severity is %q, want nit, minor, major or blocker", i, one.Severity)
		case strings.TrimSpace(one.Text) == "":
			return fmt.Errorf("findings[%d].text is empty", i)
		case one.Line < 0:
			return fmt.Errorf("findings[%d].line is negative", i)
		}
	}
	if strings.TrimSpace(f.Summary) == "" {
		return errors.New("summary is empty")
	}
	return nil
}

// Text is the findings for a prompt.
func (f Findings) Text() string {
	var b strings.Builder
	for _, one := range f.Findings {
		fmt.Fprintf(&b, "- %s", one.Severity)
		if one.Path != "" {
			fmt.Fprintf(&b, " in %s", one.Path)
			if one.Line > 0 {
				fmt.Fprintf(&b, " line %d", one.Line)
			}
		}
		fmt.Fprintf(&b, ": %s\n", strings.Join(strings.Fields(one.Text), " "))
	}
	if len(f.Findings) == 0 {
		b.WriteString("(none)\n")
	}
	return b.String()
}

// distinct drops findings that repeat another's place and words, keeps the
// more severe, and sorts the worst first.
func distinct(all []Finding) []Finding {
	seen := map[string]int{}
	var out []Finding
	for _, f := range all {
		key := fmt.Sprintf("%s:%d:%s", f.Path, f.Line, strings.ToLower(strings.Join(strings.Fields(f.Text), " ")))
		if i, dup := seen[key]; dup {
			if f.Severity.rank() > out[i].Severity.rank() {
				out[i].Severity = f.Severity
			}
			continue
		}
		seen[key] = len(out)
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return b.Severity.rank() - a.Severity.rank() })
	return out
}

// blocking are the findings that forbid an approval.
func blocking(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		if f.Severity.rank() >= Major.rank() {
			out = append(out, f)
		}
	}
	return out
}

// least is the mildest severity among findings; 0 for none.
func least(all []Finding) int {
	lowest := 0
	for _, f := range all {
		if lowest == 0 || f.Severity.rank() < lowest {
			lowest = f.Severity.rank()
		}
	}
	return lowest
}

func loadFindings(ctx context.Context, c flows.Call, key string) (Findings, error) {
	return blob.GetJSON[Findings](ctx, c.Artifacts, "findings", c.In.Artifact(key))
}
