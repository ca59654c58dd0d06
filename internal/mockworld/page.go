package mockworld

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// handlePage answers what is neither API nor git: plain-text pages behind the
// html_url of things, for people who look. Private repositories have none.
// GraphQL is not known.
func (w *World) handlePage(c *call) *reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(c.path, "/api/") {
		return errorReply(w.violation(c, "only REST is known"))
	}
	if c.r.Method != http.MethodGet {
		return textReply(http.StatusMethodNotAllowed, "Method Not Allowed\n")
	}
	var b strings.Builder
	parts := strings.Split(strings.Trim(c.path, "/"), "/")
	if parts[0] == "" {
		for _, name := range sortedKeys(w.repos) {
			if r := w.repos[name]; !r.private {
				fmt.Fprintf(&b, "%s  %s\n", r.full(), w.html("/"+r.full()))
			}
		}
		return textReply(http.StatusOK, b.String())
	}
	missing := textReply(http.StatusNotFound, "Not Found\n")
	if len(parts) < 2 {
		return missing
	}
	r := w.repos[key(parts[0]+"/"+parts[1])]
	if r == nil || r.private {
		return missing
	}
	if len(parts) == 2 {
		w.repoPage(&b, r)
		return textReply(http.StatusOK, b.String())
	}
	if len(parts) != 4 || !oneOf(parts[2], "issues", "pull") {
		return missing
	}
	num, diffed := strings.CutSuffix(parts[3], ".diff")
	n, err := strconv.Atoi(num)
	i := r.issues[n]
	if err != nil || i == nil || i.gone || i.movedTo != nil || diffed && i.pull == nil {
		return missing
	}
	if diffed {
		d, err := w.pullDiff(i)
		if err != nil {
			return textReply(http.StatusInternalServerError, err.Error()+"\n")
		}
		return textReply(http.StatusOK, string(d.text))
	}
	w.issuePage(&b, i)
	return textReply(http.StatusOK, b.String())
}

func (w *World) repoPage(b *strings.Builder, r *repository) {
	fmt.Fprintf(b, "%s\n\nclone %s\n\n", r.full(), w.base+"/git/"+r.full()+".git")
	for _, ref := range sortedKeys(r.refs) {
		fmt.Fprintf(b, "%.10s  %s\n", r.refs[ref], ref)
	}
	b.WriteString("\n")
	for _, n := range issueNumbers(r) {
		i := r.issues[n]
		if !i.gone && i.movedTo == nil {
			fmt.Fprintf(b, "#%d  %-7s %s  [%s]  %v\n", n, state(i), i.title, strings.Join(labelNames(i), ", "), w.issueJSON(i)["html_url"])
		}
	}
}

func labelNames(i *issue) []string {
	names := []string{}
	for _, l := range i.labels {
		names = append(names, l.name)
	}
	return names
}

func (w *World) issuePage(b *strings.Builder, i *issue) {
	fmt.Fprintf(b, "%s #%d  %s\n%s, opened by %s  [%s]\n", i.repo.full(), i.number, i.title, state(i), login(i.author), strings.Join(labelNames(i), ", "))
	if p := i.pull; p != nil {
		fmt.Fprintf(b, "%s -> %s at %.10s, merged: %v\n", p.head, p.base, p.headSHA, p.merged)
	}
	fmt.Fprintf(b, "\n%s\n", text(i.body))
	for _, c := range i.comments {
		fmt.Fprintf(b, "\n--- %s, %v\n%s\n", login(c.author), stamp(c.created), c.body)
	}
	if i.pull == nil {
		return
	}
	for _, rv := range i.pull.reviews {
		if rv.state == "PENDING" {
			continue
		}
		fmt.Fprintf(b, "\n--- review by %s at %.10s: %s\n%s\n", login(rv.author), rv.sha, rv.state, rv.body)
		for _, lc := range i.pull.lineComments {
			if lc.review == rv {
				fmt.Fprintf(b, "  %s:%d  %s\n", lc.path, lc.line, lc.body)
			}
		}
	}
}
