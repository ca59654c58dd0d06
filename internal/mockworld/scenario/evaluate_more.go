package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// repository judges branches, references, labels and checks.
func (j *judge) repository(e Expect) {
	for i, w := range e.Branches {
		var names []string
		for name := range j.seen.repo(w.Repo).Branches {
			names = append(names, name)
		}
		j.refs(fmt.Sprintf("expect.branches[%d]", i), w, names, "branches")
	}
	for i, w := range e.Refs {
		j.refs(fmt.Sprintf("expect.refs[%d]", i), w, slices.Collect(maps.Keys(j.seen.repo(w.Repo).Refs)), "references")
	}
	for i, w := range e.Labels {
		n := 0
		for _, l := range j.seen.repo(w.Repo).Labels {
			if strings.EqualFold(l, w.Name) {
				n++
			}
		}
		j.count(fmt.Sprintf("expect.repo_labels[%d]", i), w.Count, exactly(1), n, "labels named "+w.Name)
	}
	for i, w := range e.Checks {
		n := 0
		for _, c := range j.seen.repo(w.Repo).Checks {
			if (w.Name == "" || c.Name == w.Name) && (w.Conclusion == "" || c.Conclusion == w.Conclusion) {
				n++
			}
		}
		j.count(fmt.Sprintf("expect.checks[%d]", i), w.Count, atLeastOne(), n, "check runs "+w.Name+" "+w.Conclusion)
	}
}

func (j *judge) refs(path string, w RefWant, names []string, what string) {
	slices.Sort(names)
	n := 0
	for _, name := range names {
		if strings.Contains(name, w.Name) {
			n++
		}
	}
	j.count(path, w.Count, exactly(1), n, fmt.Sprintf("%s with %q in their name, of: %s", what, w.Name, list(names)))
}

func (j *judge) runs(path string, w RunWant) {
	n := 0
	nodes := map[string]int{}
	var all []string
	for _, r := range j.seen.Runs {
		all = append(all, fmt.Sprintf("#%d %s round %d %s result=%s code=%s (%s) %v", r.Issue, r.Phase, r.Round, r.Status, r.Result, r.Code, r.Reason, r.Nodes))
		if (w.Issue != 0 && r.Issue != w.Issue) || (w.Phase != "" && r.Phase != w.Phase) || (w.Round != 0 && r.Round != w.Round) ||
			(w.Status != "" && r.Status != w.Status) || (w.Result != "" && r.Result != w.Result) || (w.Code != "" && r.Code != w.Code) ||
			!strings.Contains(r.Reason, w.Reason) {
			continue
		}
		n++
		for node, visits := range r.Nodes {
			nodes[node] += visits
		}
	}
	known := "the runs are:\n" + strings.Join(all, "\n")
	count := w.Count
	if count == nil {
		count = exactly(1)
	}
	j.claim(count.Holds(n), path+".count", fmt.Sprintf("%s runs with %s", count, w.describe()), fmt.Sprintf("%d; %s", n, known))
	for _, node := range slices.Sorted(maps.Keys(w.Nodes)) {
		c := w.Nodes[node]
		j.claim(c.Holds(nodes[node]), path+".nodes."+node, c.String()+" completed visits", fmt.Sprintf("%d; %s", nodes[node], known))
	}
}

func (w RunWant) describe() string {
	var p []string
	for _, kv := range [][2]string{{"phase", w.Phase}, {"status", w.Status}, {"result", w.Result}, {"code", w.Code}, {"reason", w.Reason}} {
		if kv[1] != "" {
			p = append(p, kv[0]+"="+kv[1])
		}
	}
	if w.Issue != 0 {
		p = append(p, fmt.Sprintf("issue=%d", w.Issue))
	}
	if w.Round != 0 {
		p = append(p, fmt.Sprintf("round=%d", w.Round))
	}
	return strings.Join(p, " ")
}

func (j *judge) model(e Expect) {
	calls := map[string]int{}
	for _, r := range j.seen.Model {
		if !r.Again {
			calls[r.Prompt]++
		}
	}
	for _, p := range slices.Sorted(maps.Keys(e.Model)) {
		c := e.Model[p]
		j.claim(c.Holds(calls[p]), "expect.model."+p, c.String()+" requests", fmt.Sprintf("%d (all: %v)", calls[p], calls))
	}
	if e.Spend == nil {
		return
	}
	var micro, tokens int64
	for _, r := range j.seen.Runs {
		micro, tokens = micro+r.MicroUSD, tokens+r.Tokens
	}
	if most := e.Spend.MaxUSD; most != nil {
		within := float64(micro) <= *most*1e6
		j.claim(within != e.Spend.flipped, "expect.spend.max_usd", fmt.Sprintf("at most $%.6f", *most), fmt.Sprintf("$%.6f", float64(micro)/1e6))
	}
	if e.Spend.Tokens != nil {
		j.count("expect.spend.tokens", e.Spend.Tokens, nil, int(tokens), "tokens")
	}
}

func (j *judge) deliveries(path string, w DeliveryWant) {
	n := 0
	var all []string
	for _, d := range j.seen.Deliveries {
		name := deliveryName(d)
		all = append(all, fmt.Sprintf("%s %d", name, d.Status))
		if (w.Event == "" || w.Event == name || w.Event == d.Event) && (w.Status == 0 || w.Status == d.Status) {
			n++
		}
	}
	j.count(path, w.Count, atLeastOne(), n, fmt.Sprintf("deliveries of %s answered %d, of: %s", w.Event, w.Status, list(all)))
}

func deliveryName(d mockworld.Delivery) string {
	if d.Action == "" {
		return d.Event
	}
	return d.Event + "." + d.Action
}

// matching counts requests and lists a few of them.
func matching(s Seen, w RequestWant) (int, string) {
	re := regexp.MustCompile(w.Path) // Load has compiled it before
	n := 0
	var list []string
	for _, r := range s.Requests {
		if (w.Method == "" || strings.EqualFold(r.Method, w.Method)) && re.MatchString(r.Path) &&
			strings.Contains(r.Body, w.Body) && (w.Status == 0 || r.Status == w.Status) {
			n++
			if len(list) < 5 {
				list = append(list, fmt.Sprintf("\n%s %s %d", r.Method, r.Path, r.Status))
			}
		}
	}
	return n, strings.Join(list, "")
}

func (w RequestWant) describe() string {
	s := strings.TrimSpace(w.Method + " " + w.Path)
	if w.Body != "" {
		s += fmt.Sprintf(" with %q", w.Body)
	}
	if w.Status != 0 {
		s += fmt.Sprintf(" answered %d", w.Status)
	}
	return s
}

func (j *judge) never(path string, w NeverWant) {
	found := ""
	switch {
	case w.Request != nil:
		if n, list := matching(j.seen, *w.Request); n > 0 {
			found = fmt.Sprintf("%d requests:%s", n, list)
		}
		j.claim((found == "") != w.flipped, path+".request", "no request "+w.Request.describe(), found)
		return
	case w.Branch != "":
		for _, r := range j.seen.World.Repos {
			for name := range r.Branches {
				if strings.Contains(name, w.Branch) {
					found = "branch " + name
				}
			}
		}
		j.claim((found == "") != w.flipped, path+".branch", fmt.Sprintf("no branch with %q", w.Branch), found)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(j.seen.World.Repos)) {
		r := j.seen.World.Repos[name]
		issues := slices.Clone(r.Issues)
		for _, p := range r.Pulls {
			issues = append(issues, p.IssueState)
			for _, rv := range p.Reviews {
				if w.Comment != "" && rv.Author == j.seen.Bot && strings.Contains(rv.Body, w.Comment) {
					found = "a review: " + rv.Body
				}
			}
			if w.Comment != "" && p.Author == j.seen.Bot && strings.Contains(p.Title+"\n"+p.Body, w.Comment) {
				found = "a pull request: " + p.Title + "\n" + p.Body
			}
		}
		for _, i := range issues {
			if f := j.neverOn(w, i); f != "" {
				found = f
			}
		}
	}
	switch {
	case w.Label != "":
		j.claim((found == "") != w.flipped, path+".label", "that the bot never adds "+w.Label, found)
	case w.Event != "":
		j.claim((found == "") != w.flipped, path+".event", "no event "+w.Event+" by the bot", found)
	default:
		j.claim((found == "") != w.flipped, path+".comment", fmt.Sprintf("no text of the bot with %q", w.Comment), found)
	}
}

func (j *judge) neverOn(w NeverWant, i mockworld.IssueState) string {
	for _, c := range i.Comments {
		if w.Comment != "" && c.Author == j.seen.Bot && strings.Contains(c.Body, w.Comment) {
			return fmt.Sprintf("a comment on #%d: %s", i.Number, c.Body)
		}
	}
	for _, ev := range i.Events {
		if ev.Actor != j.seen.Bot {
			continue
		}
		if w.Label != "" && ev.Event == "labeled" && strings.EqualFold(ev.Label, w.Label) {
			return fmt.Sprintf("#%d was labelled %s", i.Number, ev.Label)
		}
		if w.Event != "" && ev.Event == w.Event {
			return fmt.Sprintf("#%d: %s", i.Number, ev.Event)
		}
	}
	return ""
}

// violations: each wanted text occurs, and nothing else does.
func (j *judge) violations(wanted []string) {
	all := j.allViolations()
	for i, w := range wanted {
		ok := slices.ContainsFunc(all, func(v string) bool { return strings.Contains(v, w) })
		j.claim(ok, fmt.Sprintf("expect.violations[%d]", i), fmt.Sprintf("a violation with %q", w), list(all))
	}
	j.others(wanted)
}

// others judges that there are no violations but the wanted ones.
func (j *judge) others(wanted []string) {
	for _, v := range j.allViolations() {
		ok := slices.ContainsFunc(wanted, func(w string) bool { return strings.Contains(v, w) })
		j.claim(ok, "expect.violations", "no other violation", v)
	}
}

func (j *judge) allViolations() []string {
	return slices.Concat(j.seen.World.Violations, j.seen.ModelViolations, j.seen.Trouble)
}
