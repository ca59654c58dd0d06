package triage

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/phases/issue"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// speaker joins the two ports that a comment needs.
type speaker struct {
	issue.Reader
	Speaker
}

// ask writes the questions as one comment. It reads missing; it writes result
// only when the forge refuses.
func (p phase) ask() flows.Action {
	return flows.Action{
		Name: "triage.ask", Version: "1", Effects: true,
		Reads: []string{"missing"}, Writes: []string{"result"},
		Run: issue.Guard(func(ctx context.Context, c flows.Call) (flows.Result, error) {
			missing := c.In.Strings("missing")
			marker := issue.Marker("question", "run", c.Run.ID, "visit", strconv.Itoa(c.Visit))
			if _, err := issue.Say(ctx, c, speaker{p.Reader, p.Speaker}, p.Scrub, "question", marker, question(missing)); err != nil {
				return flows.Result{}, fmt.Errorf("asking for what is missing: %w", err)
			}
			return flows.Result{Note: "asked " + markdown.Count(len(missing), "question")}, nil
		}),
	}
}

// question is the comment's text.
func question(missing []string) string {
	var b strings.Builder
	b.WriteString("Before work on this issue can begin, something is missing:\n\n")
	for _, q := range missing {
		b.WriteString("- " + markdown.Inline(q, 400) + "\n")
	}
	b.WriteString("\nAnswer in a comment or complete the text above; the issue is then looked at again.\n")
	return b.String()
}

// unansweredWith is the `with` of triage.unanswered.
type unansweredWith struct {
	// Code is "no-answer" or "asked-too-often".
	Code string `json:"code"`
}

// unanswered ends the flow for want of information. It reads missing.
func (p phase) unanswered() flows.Action {
	return flows.Action{
		Name: "triage.unanswered", Version: "1", ReadOnly: true,
		Reads: []string{"missing"}, Writes: []string{"result"},
		CheckWith: flows.CheckWith[unansweredWith],
		Run: func(_ context.Context, c flows.Call) (flows.Result, error) {
			w, err := flows.With[unansweredWith](c.With)
			if err != nil {
				return flows.Result{}, err
			}
			reason := "Nobody answered in time."
			if w.Code == "asked-too-often" {
				reason = "The answers so far do not settle it."
			}
			return issue.End("needs_info", w.Code, "%s Missing: %s", reason, strings.Join(c.In.Strings("missing"), " ")), nil
		},
	}
}
