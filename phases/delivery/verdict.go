package delivery

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/workspace"
	"github.com/pipelinebot/pipelinebot/phases/blob"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// Ending says which findings no further attempt may settle: what is secret or
// forbidden needs a person, not another try. unfinished is what the attempt
// itself says is not done, or "".
func Ending(found []gates.Finding, unfinished string) (flows.Result, bool) {
	for _, f := range found {
		switch {
		case f.Code == gates.CodeEmpty:
			why := "The attempt changed nothing."
			if unfinished != "" {
				why += " It says: " + unfinished
			}
			return issue.End("empty", gates.CodeEmpty, "%s", why), true
		case !f.Fatal, f.Code == gates.CodeScope, f.Code == gates.CodeSymlink:
		default:
			return issue.End(issue.NeedsHuman, f.Code, "The changes need a person: %s", Summary(found)), true
		}
	}
	return flows.Result{}, false
}

// Judge says what becomes of an attempt by its findings: the end of the flow
// when none but a person can settle them, or blocked and problems_ref
// ([]gates.Finding), with a note.
func Judge(ctx context.Context, to checkpoints.ArtifactStore, d workspace.Diff, rules gates.Rules, unfinished string) (flows.Result, error) {
	found := gates.CheckDiff(d, rules)
	if end, stop := Ending(found, unfinished); stop {
		return end, nil
	}
	if found == nil {
		found = []gates.Finding{}
	}
	a, err := blob.PutJSON(ctx, to, "problems", found)
	if err != nil {
		return flows.Result{}, err
	}
	blocked := gates.Fatal(found)
	note := markdown.Count(len(d.Files), "file") + ", nothing forbidden"
	if blocked {
		note = "refused: " + Summary(found)
	}
	return flows.Result{Delta: flows.Delta{"blocked": blocked, "problems_ref": a}, Note: note}, nil
}

// Summary names the fatal findings, at most three.
func Summary(found []gates.Finding) string {
	var out []string
	for _, f := range found {
		if f.Fatal {
			out = append(out, f.String())
		}
	}
	if len(out) > 3 {
		out = append(out[:3:3], fmt.Sprintf("and %d more", len(out)-3))
	}
	return strings.Join(out, "; ")
}

// Lines are all findings, one a line, for the next attempt's prompt.
func Lines(found []gates.Finding) string {
	out := make([]string, 0, len(found))
	for _, f := range found {
		out = append(out, "- "+f.String())
	}
	return strings.Join(out, "\n")
}
