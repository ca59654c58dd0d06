package labels

import (
	"fmt"
	"strings"
)

// Document renders the machine as Markdown: the rules in order, the phase
// endings, and a state diagram. docs/states.md is its output.
func Document() string {
	var b strings.Builder
	n := Default()
	b.WriteString("# The label state machine\n\n")
	b.WriteString("Made from the table in package `labels`; change it there and run `go test ./labels -update`.\n\n")
	b.WriteString("A label says which phase an issue is in. People may change labels at any moment; the bot adds one and removes one, never the whole set.\n\n")
	b.WriteString("## What an event means\n\nThe first row that matches decides. No row: ignored.\n\n")
	b.WriteString("| row | when | then |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, r.When, r.Then)
	}
	b.WriteString("\n## Commands\n\nA line of a comment that begins with `/pipeline`, outside code and quotes; the first one counts. ")
	b.WriteString("It counts when the comment is written: a command, or an answer, that is edited into a comment does nothing. ")
	b.WriteString("Who may not is told so; refusals and answers of an issue are bounded (`breaker.comments` an hour), and so are `status` and `help` (4 an hour).\n\n")
	b.WriteString("| command | does | who may |\n|---|---|---|\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.usage(), v.does, v.who)
	}
	b.WriteString("\n## How a phase ends\n\nA result that is not listed goes to a person (`" + n.NeedsHuman + "`).\n\n")
	b.WriteString("| phase | result | label afterwards | next phase | why |\n|---|---|---|---|---|\n")
	for _, t := range Transitions() {
		to, phase, next := "none", string(t.Phase), string(t.Next)
		if t.To != nil {
			to = "`" + t.To(n) + "`"
		}
		if phase == "" {
			phase = "any"
		}
		if next == "" {
			next = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", phase, t.Result, to, next, t.Why)
	}
	b.WriteString("\n## As a picture\n\n```mermaid\nstateDiagram-v2\n")
	b.WriteString("    [*] --> triage: " + strings.ReplaceAll(n.Triage, ":", "#58;") + "\n")
	for _, t := range Transitions() {
		if t.Phase == "" {
			continue
		}
		to := string(t.Next)
		if to == "" && t.To != nil {
			to = strings.ReplaceAll(strings.TrimPrefix(t.To(n), "pipeline:"), "-", "_")
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", t.Phase, to, t.Result)
	}
	for _, end := range []string{"done", "needs_human", "declined"} {
		fmt.Fprintf(&b, "    %s --> [*]\n", end)
	}
	b.WriteString("```\n")
	return b.String()
}
