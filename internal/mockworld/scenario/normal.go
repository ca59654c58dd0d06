package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// Normal is the end of a story without what may differ from one time that it
// is played to the next: one line a fact, in order. Everything that a person
// sees is there: issues, labels, comments, pull requests, reviews, branches,
// checks, and how each run ended in the bot's own books.
//
// What is left out, and why:
//   - ids, SHAs and the random part of branch names: they are drawn;
//   - times, tokens, money: work that died was paid for, and is done and paid
//     once more; the books say so rightly;
//   - how often a comment was edited, and what was only read: progress is told
//     as it is made;
//   - the rows of the status comment that count what was done (model calls,
//     time): the same;
//   - people's own events: they are the story.
func Normal(s Seen) []string {
	n := &normal{seen: s}
	for _, repo := range slices.Sorted(maps.Keys(s.World.Repos)) {
		n.repo(repo, s.World.Repos[repo])
	}
	for _, r := range s.Runs {
		n.add("run of %s#%d: %s round %d %s, result %q, code %q", r.Repo, r.Issue, r.Phase, r.Round, r.Status, r.Result, r.Code)
	}
	for _, v := range slices.Concat(s.World.Violations, s.ModelViolations, s.Trouble) {
		n.add("violation: %s", v)
	}
	slices.Sort(n.lines)
	return n.lines
}

type normal struct {
	seen  Seen
	lines []string
}

var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "URL"},
	{regexp.MustCompile(`(pipelinebot/(?:wip/)?\d+-)[0-9a-z-]+`), "${1}X"},
	{regexp.MustCompile(`\b0[0-9a-z]{25}\b`), "RUN"},
	{regexp.MustCompile(`\b[0-9a-f]{7,64}\b`), "SHA"},
	{regexp.MustCompile(`issuecomment-\d+|pullrequestreview-\d+`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?( UTC)?`), "TIME"},
	{regexp.MustCompile(`\$\d+(\.\d+)?`), "MONEY"},
	{regexp.MustCompile(`\b[\d,.]+ ?(k|M)? tokens\b`), "N tokens"},
	{regexp.MustCompile(`\b\d+ model calls?\b`), "N model calls"},
	{regexp.MustCompile(`\b\d+ tool calls?\b`), "N tool calls"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s)\b|less than a second|a second|\b\d+ seconds?\b|\b\d+ minutes?\b`), "DURATION"},
	{regexp.MustCompile(`(?m) \(DURATION\)$`), ""}, // only said of what took long
}

func (n *normal) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	n.lines = append(n.lines, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "))
}

func (n *normal) repo(name string, r mockworld.RepoState) {
	for _, i := range r.Issues {
		n.issue(name, i)
	}
	for _, p := range r.Pulls {
		n.add("pull request %s#%d: %s by %s, %q from %s to %s, +%d -%d in %v, %d commits\n%s", name, p.Number, pullState(p), p.Author,
			p.Title, p.Head, p.Base, p.Additions, p.Deletions, slices.Sorted(slices.Values(p.Files)), p.Commits, p.Body)
		n.issue(name, p.IssueState)
		for _, v := range p.Reviews {
			n.add("review of %s#%d by %s: %s, %d lines\n%s", name, p.Number, v.Author, v.State, len(v.Comments), v.Body)
		}
	}
	for branch, b := range r.Branches {
		n.add("branch %s %s: %d commits", name, branch, b.Commits)
	}
	for ref := range r.Refs {
		n.add("reference %s %s", name, ref)
	}
	for _, l := range r.Labels {
		n.add("label of %s: %s", name, l)
	}
	for _, c := range r.Checks {
		n.add("check %s %s: %s %s %s", name, c.Name, c.Status, c.Conclusion, c.Title)
	}
}

func (n *normal) issue(repo string, i mockworld.IssueState) {
	n.add("issue %s#%d: %s, labels %v, locked %v", repo, i.Number, i.State, slices.Sorted(slices.Values(i.Labels)), i.Locked)
	for _, c := range i.Comments {
		n.add("comment on %s#%d by %s:\n%s", repo, i.Number, c.Author, c.Body)
	}
	for _, e := range i.Events {
		if e.Actor == n.seen.Bot {
			n.add("event of %s#%d: the bot %s %s", repo, i.Number, e.Event, e.Label)
		}
	}
}

// Diff is how two such ends differ: a line that only the first has begins with
// "-", one that only the second has with "+". Of texts that are in both, only
// the lines that differ are shown. It is empty for equal ones.
func Diff(want, got []string) string {
	gone, more := without(want, got), without(got, want)
	var b strings.Builder
	for _, g := range gone {
		head, _, _ := strings.Cut(g, "\n")
		i := slices.IndexFunc(more, func(m string) bool { return m == head || strings.HasPrefix(m, head+"\n") })
		if i < 0 {
			fmt.Fprintf(&b, "- %s\n", g)
			continue
		}
		fmt.Fprintf(&b, "  %s\n", head)
		lineDiff(&b, strings.Split(g, "\n")[1:], strings.Split(more[i], "\n")[1:])
		more = slices.Delete(more, i, i+1)
	}
	for _, m := range more {
		fmt.Fprintf(&b, "+ %s\n", m)
	}
	return b.String()
}

// without is a less those of b, each as often as it is there.
func without(a, b []string) []string {
	count := map[string]int{}
	for _, l := range b {
		count[l]++
	}
	var out []string
	for _, l := range a {
		if count[l]--; count[l] < 0 {
			out = append(out, l)
		}
	}
	return out
}

// lineDiff writes the lines by which two texts differ, by their longest common
// part.
func lineDiff(b *strings.Builder, x, y []string) {
	length := make([][]int, len(x)+1)
	for i := range length {
		length[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for k := len(y) - 1; k >= 0; k-- {
			if x[i] == y[k] {
				length[i][k] = length[i+1][k+1] + 1
			} else {
				length[i][k] = max(length[i+1][k], length[i][k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(x) || k < len(y) {
		switch {
		case i < len(x) && k < len(y) && x[i] == y[k]:
			i, k = i+1, k+1
		case k == len(y) || i < len(x) && length[i+1][k] >= length[i][k+1]:
			fmt.Fprintf(b, "- %s\n", x[i])
			i++
		default:
			fmt.Fprintf(b, "+ %s\n", y[k])
			k++
		}
	}
}
