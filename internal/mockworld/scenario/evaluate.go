package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// Mismatch is a claim that does not hold.
type Mismatch struct {
	// Path is where the claim stands in the file, e.g.
	// "expect.issues[0].labels".
	Path string `json:"path"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

// String is for people.
func (m Mismatch) String() string {
	return fmt.Sprintf("%s\n    want %s\n    got  %s", m.Path, indent(m.Want), indent(m.Got))
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n         ") }

// Evaluate judges all claims against what was seen. It is pure.
func Evaluate(e Expect, s Seen) []Mismatch {
	j := &judge{seen: s}
	for i, w := range e.Issues {
		j.issue(fmt.Sprintf("expect.issues[%d]", i), w)
	}
	for i, w := range e.Pulls {
		j.pulls(fmt.Sprintf("expect.pulls[%d]", i), w)
	}
	j.repository(e)
	for i, w := range e.Runs {
		j.runs(fmt.Sprintf("expect.runs[%d]", i), w)
	}
	j.model(e)
	for i, w := range e.Requests {
		n, list := matching(s, w)
		j.count(fmt.Sprintf("expect.requests[%d]", i), w.Count, atLeastOne(), n, "requests matching "+w.describe()+list)
	}
	for i, w := range e.Deliveries {
		j.deliveries(fmt.Sprintf("expect.deliveries[%d]", i), w)
	}
	if e.Starts != nil {
		j.count("expect.bot_starts", e.Starts, nil, s.Starts, "starts of the bot")
	}
	for i, w := range e.Never {
		j.never(fmt.Sprintf("expect.never[%d]", i), w)
	}
	j.violations(e.Violations)
	return j.out
}

// judge collects mismatches.
type judge struct {
	seen Seen
	out  []Mismatch
}

func (j *judge) claim(ok bool, path, want, got string) {
	if !ok {
		j.out = append(j.out, Mismatch{Path: path, Want: want, Got: got})
	}
}

// count judges a number by want, or by fallback when want is absent.
func (j *judge) count(path string, want, fallback *Count, n int, what string) {
	if want == nil {
		want = fallback
	}
	if want != nil {
		j.claim(want.Holds(n), path, want.String()+" "+what, fmt.Sprint(n))
	}
}

func atLeastOne() *Count { one := 1; return &Count{Min: &one} }

func (j *judge) contains(path string, wants []string, text string) {
	for i, w := range wants {
		j.claim(strings.Contains(text, w), fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("a text with %q", w), quoteText(text))
	}
}

func (j *judge) excludes(path string, wants []string, text string) {
	for i, w := range wants {
		j.claim(!strings.Contains(text, w), fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("a text without %q", w), quoteText(text))
	}
}

func quoteText(s string) string {
	if s == "" {
		return "nothing"
	}
	const most = 4000
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "the text:\n" + strings.TrimRight(s, "\n")
}

func (j *judge) issue(path string, w IssueWant) {
	i, ok := j.seen.issue(w.Repo, w.Number)
	if !ok {
		j.claim(false, path, fmt.Sprintf("issue %d", max(w.Number, 1)), "no such issue")
		return
	}
	if w.Labels != nil {
		j.sameSet(path+".labels", *w.Labels, i.Labels)
	}
	for k, l := range w.Has {
		j.claim(hasFold(i.Labels, l), fmt.Sprintf("%s.has_labels[%d]", path, k), "label "+l, list(i.Labels))
	}
	for k, l := range w.Lacks {
		j.claim(!hasFold(i.Labels, l), fmt.Sprintf("%s.lacks_labels[%d]", path, k), "no label "+l, list(i.Labels))
	}
	if w.State != "" {
		j.claim(i.State == w.State, path+".state", w.State, i.State)
	}
	for k, c := range w.Comments {
		j.comments(fmt.Sprintf("%s.comments[%d]", path, k), c, i)
	}
	if w.Status != nil {
		j.status(path+".status", *w.Status, i)
	}
}

func (j *judge) comments(path string, w CommentWant, i mockworld.IssueState) {
	n := 0
	var all []string
	for _, c := range i.Comments {
		if j.seen.isStatus(c) {
			continue
		}
		all = append(all, c.Author+": "+c.Body)
		if (w.By == "" || c.Author == j.seen.who(w.By)) && hasAll(c.Body, w.Contains) {
			n++
		}
	}
	count := w.Count
	if count == nil {
		count = atLeastOne()
	}
	what := "comments"
	if w.By != "" {
		what += " by " + w.By
	}
	if len(w.Contains) > 0 {
		what += fmt.Sprintf(" with %q", w.Contains)
	}
	j.claim(count.Holds(n), path, count.String()+" "+what, fmt.Sprintf("%d; the comments are:\n%s", n, strings.Join(all, "\n--\n")))
}

func (j *judge) status(path string, w StatusWant, i mockworld.IssueState) {
	var texts []string
	for _, c := range i.Comments {
		if j.seen.isStatus(c) {
			texts = append(texts, c.Body)
		}
	}
	j.count(path+".count", w.Count, exactly(1), len(texts), "status comments")
	text := strings.Join(texts, "\n--\n")
	j.contains(path+".contains", w.Contains, text)
	j.excludes(path+".excludes", w.Excludes, text)
}

func (j *judge) pulls(path string, w PullWant) {
	n := 0
	for _, p := range j.seen.repo(w.Repo).Pulls {
		if (w.By != "" && p.Author != j.seen.who(w.By)) || !strings.Contains(p.Head, w.Head) {
			continue
		}
		n++
		j.pull(path, w, p)
	}
	j.count(path+".count", w.Count, exactly(1), n, "pull requests")
}

func (j *judge) pull(path string, w PullWant, p mockworld.PullState) {
	if w.State != "" {
		j.claim(pullState(p) == w.State, path+".state", w.State, pullState(p))
	}
	if w.Base != "" {
		j.claim(p.Base == w.Base, path+".base", w.Base, p.Base)
	}
	j.contains(path+".title_contains", w.Title, p.Title)
	j.contains(path+".body_contains", w.Body, p.Body)
	j.excludes(path+".body_excludes", w.Excludes, p.Body)
	if w.Files != nil {
		j.sameSet(path+".files", *w.Files, p.Files)
	}
	if w.Commits != nil {
		j.count(path+".commits", w.Commits, nil, p.Commits, "commits")
	}
	for k, rw := range w.Reviews {
		n := 0
		var all []string
		for _, r := range p.Reviews {
			all = append(all, r.Author+" "+r.State+": "+r.Body)
			if (rw.By == "" || r.Author == j.seen.who(rw.By)) && (rw.State == "" || r.State == rw.State) && hasAll(r.Body, rw.Contains) {
				n++
			}
		}
		j.count(fmt.Sprintf("%s.reviews[%d]", path, k), rw.Count, atLeastOne(), n,
			fmt.Sprintf("reviews (%s %s with %q), of:\n%s", rw.By, rw.State, rw.Contains, strings.Join(all, "\n--\n")))
	}
	repo := w.Repo
	if repo == "" {
		repo = j.seen.Repo
	}
	for _, file := range slices.Sorted(maps.Keys(w.Content)) {
		text := j.seen.Files[fmt.Sprintf("%s#%d:%s", repo, p.Number, file)]
		j.claim(strings.Contains(text, w.Content[file]), path+".content."+file, fmt.Sprintf("a file with %q", w.Content[file]), quoteText(text))
	}
}

func (j *judge) sameSet(path string, want, got []string) {
	a, b := slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	j.claim(slices.Equal(a, b), path, list(a), list(b))
}

func list(l []string) string {
	if len(l) == 0 {
		return "none"
	}
	return strings.Join(l, ", ")
}

func hasFold(l []string, name string) bool {
	return slices.ContainsFunc(l, func(x string) bool { return strings.EqualFold(x, name) })
}

func hasAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
