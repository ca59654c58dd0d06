package status

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// maxNodes is how many lines of one run's checklist are shown; loops can make
// it long, and the latest tell most.
const maxNodes = 40

// maxReason holds all that an approval may ask: whoever answers has to see the
// whole of it.
const maxReason = 4000

// Render is the comment: at most markdown.MaxBody characters, mentions and
// markup of others harmless. It ends with result, reason, cost and what to do
// next, also when the checklists had to be shortened.
func Render(v View) string {
	end := ending(v)
	head := Marker + "\n### Pipeline: " + title(v) + "\n\n" + Headline(v) + "\n\n"
	room := markdown.MaxBody - utf8.RuneCountInString(head) - utf8.RuneCountInString(end)
	var lists []string
	for _, r := range v.Runs {
		lists = append(lists, checklist(r))
	}
	// The oldest give way first.
	dropped := 0
	for len(lists) > 0 && utf8.RuneCountInString(strings.Join(lists, "\n"))+200 > room {
		lists, dropped = lists[1:], dropped+1
	}
	body := strings.Join(lists, "\n")
	if dropped > 0 {
		body = fmt.Sprintf("_%d earlier runs are not shown._\n\n", dropped) + body
	}
	if body != "" {
		body += "\n"
	}
	return markdown.Cap(head+body+end, markdown.MaxBody)
}

func title(v View) string {
	t := v.Phase
	if t == "" {
		t = "not started"
	}
	if v.State == Ended && v.Result != "" {
		return markdown.Inline(t+" → "+v.Result, 100)
	}
	if v.State != "" {
		t += " (" + v.State + ")"
	}
	return markdown.Inline(t, 100)
}

// ending is the last part: result, reason, cost, links, what to do next.
func ending(v View) string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	row := func(name, text string) {
		if text != "" {
			b.WriteString("| **" + name + "** | " + text + " |\n")
		}
	}
	result := ""
	if v.Result != "" {
		result = markdown.Code(v.Result)
		if v.Code != "" && v.Code != v.Result {
			result += " (" + markdown.Inline(v.Code, 60) + ")"
		}
	}
	row("Result", result)
	reason := v.Reason
	if reason == "" && v.State == Ended {
		reason = Headline(v) // every ending has its reason in words
	}
	row("Reason", markdown.Inline(reason, maxReason))
	row("Unfinished work", markdown.Code(v.Saved))
	row("Links", links(v.Links))
	row("Cost", Cost(v.Cost))
	next := v.Next
	if next == "" {
		next = Advice(v)
	} else {
		next = markdown.Inline(next, 1000)
	}
	row("What to do next", next)
	if v.RunID != "" {
		b.WriteString("\n<sub>Run " + markdown.Code(v.RunID) + "</sub>\n")
	}
	return b.String()
}

// checklist is one phase's run, folded away once it has ended.
func checklist(r RunView) string {
	name := r.Phase
	if r.Round > 1 {
		name += fmt.Sprintf(", round %d", r.Round)
	}
	state := r.State
	if r.Result != "" {
		state = r.Result
	}
	if state != "" {
		name += ": " + state
	}
	if r.Took > 0 {
		name += " (" + took(r.Took) + ")"
	}
	var b strings.Builder
	nodes := r.Nodes
	if len(nodes) > maxNodes {
		fmt.Fprintf(&b, "- [x] … %d earlier steps\n", len(nodes)-maxNodes)
		nodes = nodes[len(nodes)-maxNodes:]
	}
	for _, n := range nodes {
		b.WriteString(line(n))
	}
	if b.Len() == 0 {
		return "**" + markdown.Inline(name, 120) + "**\n"
	}
	if r.Result != "" {
		return markdown.Details(name, b.String())
	}
	return "**" + markdown.Inline(name, 120) + "**\n\n" + b.String()
}

func line(n NodeView) string {
	box, after := "[x]", ""
	switch n.Outcome {
	case "":
		box, after = "[ ]", " …"
	case "ok":
	default:
		box, after = "[ ]", " ("+markdown.Inline(n.Outcome, 40)+")"
	}
	s := "- " + box + " " + markdown.Inline(strings.ReplaceAll(n.Node, "_", " "), 60) + after
	if n.Note != "" {
		s += ": " + markdown.Inline(n.Note, 300)
	}
	if n.Took >= time.Second {
		s += " (" + took(n.Took) + ")"
	}
	return s + "\n"
}

// links shows only web addresses; anything else would be a way to run
// something in the reader's browser.
func links(all []Link) string {
	var out []string
	for _, l := range all {
		u, err := url.Parse(l.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			continue
		}
		clean := strings.NewReplacer("(", "%28", ")", "%29", "|", "%7C", "<", "%3C", ">", "%3E", " ", "%20").Replace(u.String())
		text := strings.NewReplacer("[", "\\[", "]", "\\]").Replace(markdown.Inline(l.Title, 100))
		out = append(out, "["+text+"]("+clean+")")
	}
	return strings.Join(out, " · ")
}

// Cost is usage in words: money, tokens, calls.
func Cost(u checkpoints.Usage) string {
	return fmt.Sprintf("$%.4f · %s tokens · %s · %s", float64(u.MicroUSD)/1e6, thousands(u.Tokens()),
		counted(u.ModelCalls, "model call"), counted(u.ToolCalls, "tool call"))
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// took rounds to what a reader cares for.
func took(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
