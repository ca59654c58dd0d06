package flowscript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// String is the report as text.
func (r Report) String() string {
	var b strings.Builder
	r.write(&b, "")
	for _, u := range r.Unmet {
		fmt.Fprintf(&b, "NOT AS EXPECTED  %s\n", u)
	}
	return b.String()
}

func (r Report) write(b *strings.Builder, indent string) {
	title := r.Flow
	if r.Node != "" {
		title = fmt.Sprintf("%s, started by %s (%s)", r.Flow, r.Node, r.Key)
	}
	fmt.Fprintf(b, "%s%s: %s\n", indent, title, r.ending())
	if r.Reason != "" {
		fmt.Fprintf(b, "%s  %s\n", indent, r.Reason)
	}
	r.writePath(b, indent)
	writeState(b, indent, r.State)
	if r.Spent != (checkpoints.Usage{}) {
		fmt.Fprintf(b, "%s  spent  %s, %s, $%.4f\n", indent, count(r.Spent.Tokens(), "token"), count(r.Spent.ToolCalls, "tool call"), float64(r.Spent.MicroUSD)/1e6)
	}
	fmt.Fprintf(b, "%s  took   %s\n", indent, short(r.Took))
	for _, c := range r.Children {
		c.write(b, indent+"  ")
	}
}

// ending is how the run ended, or how it stands.
func (r Report) ending() string {
	text := cmp.Or(r.Result, "no result yet")
	if r.Code != "" {
		text += " (" + r.Code + ")"
	}
	// A run that ended early, as planned, is on record as cancelled when its
	// result is none of its phase's; its result and code say all.
	if status := checkpoints.Status(r.Status); !status.Final() || status == checkpoints.Done {
		text += ", " + r.Status
	}
	return text
}

func (r Report) writePath(b *strings.Builder, indent string) {
	width := 0
	for _, v := range r.Path {
		width = max(width, len(v.Node))
	}
	nodes := 0
	for _, v := range r.Path {
		mark, to := "  |", ""
		if !v.Branch {
			nodes++
			mark = fmt.Sprintf("%3d", nodes)
		}
		if v.Next != "" {
			to = " -> " + v.Next
		}
		line := fmt.Sprintf("%s%s  %-*s  %-8s %s%s", indent, mark, width, v.Node, v.Kind, v.Outcome, to)
		if v.Visit > 1 {
			line += fmt.Sprintf("  visit %d", v.Visit)
		}
		if v.Attempt > 1 {
			line += fmt.Sprintf("  attempt %d", v.Attempt)
		}
		if v.Note != "" {
			line += "  " + v.Note
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if v.Asked != "" {
			fmt.Fprintf(b, "%s       asked: %s\n", indent, strings.ReplaceAll(v.Asked, "\n", "\n"+indent+"       "))
		}
		writeGuards(b, indent, v)
		if d := fields(v.Delta); len(d) > 0 {
			fmt.Fprintf(b, "%s       set %s\n", indent, strings.Join(d, ", "))
		}
	}
}

// writeGuards says why the edge: every guard that was looked at.
func writeGuards(b *strings.Builder, indent string, v Visit) {
	for _, g := range v.Guards {
		switch {
		case g.When == "":
		case g.When == flows.StopGuard && g.Taken:
			fmt.Fprintf(b, "%s       ended early: to %s\n", indent, g.To)
		case g.Taken:
			fmt.Fprintf(b, "%s       %s is true: to %s\n", indent, g.When, g.To)
		default:
			fmt.Fprintf(b, "%s       %s is false: not to %s\n", indent, g.When, g.To)
		}
	}
}

// writeState writes a field a line.
func writeState(b *strings.Builder, indent string, state json.RawMessage) {
	head := "state"
	for _, f := range fields(state) {
		fmt.Fprintf(b, "%s  %-5s  %s\n", indent, head, f)
		head = ""
	}
}

// fields are the fields of a state, or of a change of it, with their values.
func fields(raw json.RawMessage) []string {
	values := map[string]json.RawMessage{}
	if len(raw) == 0 || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key == flows.StopKey {
			continue // the note and the edge tell of it
		}
		all = append(all, key+" = "+value(values[key]))
	}
	return all
}

// value is a field's value as JSON, but of an artifact its size and the
// beginning of its hash.
func value(raw json.RawMessage) string {
	const shown = 12
	var a struct {
		Path, SHA256 string
		Bytes        int64
	}
	if json.Unmarshal(raw, &a) == nil && a.Path != "" && len(a.SHA256) > shown {
		return fmt.Sprintf("(%s, sha256 %s)", count(a.Bytes, "byte"), a.SHA256[:shown])
	}
	return compact(raw)
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// short is a duration without the parts that are zero at its end.
func short(d time.Duration) string {
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}
