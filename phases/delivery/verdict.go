package delivery

import (
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/gates"
	"github.com/pipelinebot/pipelinebot/phases/issue"
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
