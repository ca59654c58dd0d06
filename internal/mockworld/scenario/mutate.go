package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Variant is an expectation with one claim altered so that it cannot hold of a
// world of which the original holds.
type Variant struct {
	// Path is the altered claim, What what was done to it.
	Path, What string
	Expect     Expect
}

// mark makes a text that no world contains.
const mark = "⟂altered⟂"

// Mutate alters each claim of e in turn. A test that evaluates every variant
// against the world that e held of, and sees each fail, has shown that every
// claim in the file bites.
func Mutate(e Expect) []Variant {
	m := &mutator{origin: e}
	for i, w := range e.Issues {
		m.issue(fmt.Sprintf("expect.issues[%d]", i), w, func(e *Expect) *IssueWant { return &e.Issues[i] })
	}
	for i, w := range e.Pulls {
		m.pull(fmt.Sprintf("expect.pulls[%d]", i), w, func(e *Expect) *PullWant { return &e.Pulls[i] })
	}
	m.repository()
	for i, w := range e.Runs {
		m.run(fmt.Sprintf("expect.runs[%d]", i), w, func(e *Expect) *RunWant { return &e.Runs[i] })
	}
	for _, p := range slices.Sorted(maps.Keys(e.Model)) {
		for _, c := range e.Model[p].altered() {
			m.add("expect.model."+p, "count to "+c.String(), func(e *Expect) { e.Model[p] = c })
		}
	}
	if e.Spend != nil {
		if e.Spend.MaxUSD != nil {
			m.add("expect.spend.max_usd", "flipped", func(e *Expect) { e.Spend.flipped = true })
		}
		if e.Spend.Tokens != nil {
			m.count("expect.spend.tokens", *e.Spend.Tokens, func(e *Expect, c *Count) { e.Spend.Tokens = c })
		}
	}
	for i, w := range e.Requests {
		m.count(fmt.Sprintf("expect.requests[%d].count", i), or(w.Count, atLeastOne()), func(e *Expect, c *Count) { e.Requests[i].Count = c })
	}
	for i, w := range e.Deliveries {
		m.count(fmt.Sprintf("expect.deliveries[%d].count", i), or(w.Count, atLeastOne()), func(e *Expect, c *Count) { e.Deliveries[i].Count = c })
	}
	if e.Starts != nil {
		m.count("expect.bot_starts", *e.Starts, func(e *Expect, c *Count) { e.Starts = c })
	}
	for i := range e.Never {
		m.add(fmt.Sprintf("expect.never[%d]", i), "flipped", func(e *Expect) { e.Never[i].flipped = true })
	}
	for i := range e.Violations {
		m.add(fmt.Sprintf("expect.violations[%d]", i), "another text", func(e *Expect) { e.Violations[i] += mark })
	}
	return m.out
}

type mutator struct {
	origin Expect
	out    []Variant
}

func (m *mutator) add(path, what string, change func(*Expect)) {
	e := clone(m.origin)
	change(&e)
	m.out = append(m.out, Variant{Path: path, What: what, Expect: e})
}

// count alters a number both ways.
func (m *mutator) count(path string, c Count, set func(*Expect, *Count)) {
	for _, alt := range c.altered() {
		m.add(path, "count to "+alt.String(), func(e *Expect) { set(e, &alt) })
	}
}

// text alters a field that selects or claims a text.
func (m *mutator) text(path, was string, at func(*Expect) *string) {
	if was != "" {
		m.add(path, "another text", func(e *Expect) { *at(e) += mark })
	}
}

// texts alters every member of a list that must be contained.
func (m *mutator) texts(path string, was []string, at func(*Expect) []string) {
	for i := range was {
		m.add(fmt.Sprintf("%s[%d]", path, i), "another text", func(e *Expect) { at(e)[i] += mark })
	}
}

func or(c, fallback *Count) Count {
	if c != nil {
		return *c
	}
	return *fallback
}

// some reports that a count demands at least one, so that altering what
// selects must break it.
func some(c *Count) bool { return c == nil || (c.Min != nil && *c.Min > 0) }

func clone(e Expect) Expect {
	b, err := json.Marshal(e)
	if err != nil {
		panic("cloning expectations: " + err.Error()) // plain data
	}
	var out Expect
	if err := json.Unmarshal(b, &out); err != nil {
		panic("cloning expectations: " + err.Error())
	}
	return out
}

func (m *mutator) issue(path string, w IssueWant, at func(*Expect) *IssueWant) {
	if w.Labels != nil {
		m.add(path+".labels", "one more", func(e *Expect) { l := at(e).Labels; *l = append(*l, mark) })
		if len(*w.Labels) > 0 {
			m.add(path+".labels", "one less", func(e *Expect) { l := at(e).Labels; *l = (*l)[1:] })
		}
	}
	m.texts(path+".has_labels", w.Has, func(e *Expect) []string { return at(e).Has })
	for i, l := range w.Lacks {
		m.add(fmt.Sprintf("%s.lacks_labels[%d]", path, i), "flipped", func(e *Expect) { at(e).Lacks, at(e).Has = nil, []string{l} })
	}
	m.text(path+".state", w.State, func(e *Expect) *string { return &at(e).State })
	for i, c := range w.Comments {
		p := fmt.Sprintf("%s.comments[%d]", path, i)
		m.count(p+".count", or(c.Count, atLeastOne()), func(e *Expect, n *Count) { at(e).Comments[i].Count = n })
		if some(c.Count) {
			m.text(p+".by", c.By, func(e *Expect) *string { return &at(e).Comments[i].By })
			m.texts(p+".contains", c.Contains, func(e *Expect) []string { return at(e).Comments[i].Contains })
		}
	}
	if s := w.Status; s != nil {
		p := path + ".status"
		m.count(p+".count", or(s.Count, exactly(1)), func(e *Expect, n *Count) { at(e).Status.Count = n })
		m.texts(p+".contains", s.Contains, func(e *Expect) []string { return at(e).Status.Contains })
		for i, t := range s.Excludes {
			m.add(fmt.Sprintf("%s.excludes[%d]", p, i), "flipped", func(e *Expect) { at(e).Status.Excludes, at(e).Status.Contains = nil, []string{t} })
		}
	}
}

func (m *mutator) pull(path string, w PullWant, at func(*Expect) *PullWant) {
	m.count(path+".count", or(w.Count, exactly(1)), func(e *Expect, c *Count) { at(e).Count = c })
	if !some(w.Count) {
		return
	}
	for _, f := range []struct {
		name string
		was  string
		at   func(*PullWant) *string
	}{
		{"by", w.By, func(p *PullWant) *string { return &p.By }}, {"head", w.Head, func(p *PullWant) *string { return &p.Head }},
		{"state", w.State, func(p *PullWant) *string { return &p.State }}, {"base", w.Base, func(p *PullWant) *string { return &p.Base }},
	} {
		m.text(path+"."+f.name, f.was, func(e *Expect) *string { return f.at(at(e)) })
	}
	m.texts(path+".title_contains", w.Title, func(e *Expect) []string { return at(e).Title })
	m.texts(path+".body_contains", w.Body, func(e *Expect) []string { return at(e).Body })
	for i, t := range w.Excludes {
		m.add(fmt.Sprintf("%s.body_excludes[%d]", path, i), "flipped", func(e *Expect) { at(e).Excludes, at(e).Body = nil, []string{t} })
	}
	if w.Files != nil {
		m.add(path+".files", "one more", func(e *Expect) { l := at(e).Files; *l = append(*l, mark) })
	}
	if w.Commits != nil {
		m.count(path+".commits", *w.Commits, func(e *Expect, c *Count) { at(e).Commits = c })
	}
	for i, r := range w.Reviews {
		p := fmt.Sprintf("%s.reviews[%d]", path, i)
		m.count(p+".count", or(r.Count, atLeastOne()), func(e *Expect, c *Count) { at(e).Reviews[i].Count = c })
		if some(r.Count) {
			m.text(p+".by", r.By, func(e *Expect) *string { return &at(e).Reviews[i].By })
			m.text(p+".state", r.State, func(e *Expect) *string { return &at(e).Reviews[i].State })
			m.texts(p+".contains", r.Contains, func(e *Expect) []string { return at(e).Reviews[i].Contains })
		}
	}
	for _, file := range slices.Sorted(maps.Keys(w.Content)) {
		m.add(path+".content."+file, "another text", func(e *Expect) { at(e).Content[file] += mark })
	}
}

func (m *mutator) repository() {
	e := m.origin
	for i, w := range e.Branches {
		m.ref(fmt.Sprintf("expect.branches[%d]", i), w, func(e *Expect) *RefWant { return &e.Branches[i] })
	}
	for i, w := range e.Refs {
		m.ref(fmt.Sprintf("expect.refs[%d]", i), w, func(e *Expect) *RefWant { return &e.Refs[i] })
	}
	for i, w := range e.Labels {
		m.count(fmt.Sprintf("expect.repo_labels[%d].count", i), or(w.Count, exactly(1)), func(e *Expect, c *Count) { e.Labels[i].Count = c })
	}
	for i, w := range e.Checks {
		p := fmt.Sprintf("expect.checks[%d]", i)
		m.count(p+".count", or(w.Count, atLeastOne()), func(e *Expect, c *Count) { e.Checks[i].Count = c })
		if some(w.Count) {
			m.text(p+".name", w.Name, func(e *Expect) *string { return &e.Checks[i].Name })
			m.text(p+".conclusion", w.Conclusion, func(e *Expect) *string { return &e.Checks[i].Conclusion })
		}
	}
}

func (m *mutator) ref(path string, w RefWant, at func(*Expect) *RefWant) {
	m.count(path+".count", or(w.Count, exactly(1)), func(e *Expect, c *Count) { at(e).Count = c })
	if some(w.Count) {
		m.text(path+".name", w.Name, func(e *Expect) *string { return &at(e).Name })
	}
}

func (m *mutator) run(path string, w RunWant, at func(*Expect) *RunWant) {
	m.count(path+".count", or(w.Count, exactly(1)), func(e *Expect, c *Count) { at(e).Count = c })
	if some(w.Count) {
		for _, f := range []struct {
			name, was string
			at        func(*RunWant) *string
		}{
			{"phase", w.Phase, func(r *RunWant) *string { return &r.Phase }}, {"status", w.Status, func(r *RunWant) *string { return &r.Status }},
			{"result", w.Result, func(r *RunWant) *string { return &r.Result }}, {"code", w.Code, func(r *RunWant) *string { return &r.Code }},
			{"reason_contains", w.Reason, func(r *RunWant) *string { return &r.Reason }},
		} {
			m.text(path+"."+f.name, f.was, func(e *Expect) *string { return f.at(at(e)) })
		}
	}
	for _, node := range slices.Sorted(maps.Keys(w.Nodes)) {
		for _, c := range w.Nodes[node].altered() {
			m.add(path+".nodes."+node, "count to "+c.String(), func(e *Expect) { at(e).Nodes[node] = c })
		}
	}
}
