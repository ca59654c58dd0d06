package flows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxLevels is how many levels of children a flow may have.
const maxLevels = 3

// Reasons why a flow's child is not there; test with errors.Is.
var (
	// ErrNoFlow means that no flow has a name.
	ErrNoFlow = errors.New("no such flow")
	// ErrRecursion means that a flow is among its own children.
	ErrRecursion = errors.New("a flow is its own child")
)

// inline are the flows that stand in a file beside the one that is loaded, and
// those of the flow around it.
type inline struct {
	outer *inline
	at    mapping
	order []string
	done  map[string]*Flow // nil for one that is refused
	used  map[string]bool
}

func (l *loader) readInline() {
	l.names = append(slices.Clone(l.names), l.flow.name)
	in := &inline{outer: l.inline, done: map[string]*Flow{}, used: map[string]bool{}}
	l.inline = in
	if !l.top.has("flows") {
		return
	}
	m, ok := l.mapping(l.top.value("flows"), "", "flows", nil)
	if !ok {
		return
	}
	in.at = m
	for _, name := range m.order {
		if !nameForm.MatchString(name) {
			l.add(at(m.key(name), ""), "bad-name", nameLetters, "the flow can't be called %q", short([]byte(name)))
			in.done[name] = nil
			continue
		}
		in.order = append(in.order, name)
	}
}

// find returns the place where a name is known in the file.
func (in *inline) find(name string) *inline {
	for ; in != nil; in = in.outer {
		if in.at.has(name) {
			return in
		}
	}
	return nil
}

// child finds and loads what a subflow names. It has reported why when there
// is none.
func (l *loader) child(n *rawNode) *Flow {
	p := n.m.where("flow")
	if slices.Contains(l.names, n.Child) {
		l.recursion(p, append(slices.Clone(l.names), n.Child))
		return nil
	}
	if in := l.inline.find(n.Child); in != nil {
		in.used[n.Child] = true
		return l.loadInline(in, n.Child)
	}
	var f *Flow
	err := ErrNoFlow
	if l.opts.Child != nil {
		f, err = l.opts.Child(n.Child)
	}
	switch {
	case errors.Is(err, ErrNoFlow):
		l.add(p, "subflow-unknown", didYouMean(n.Child, append(slices.Clone(l.opts.Names), l.inline.order...)), "no flow is called %s", n.Child)
		return nil
	case errors.Is(err, ErrRecursion):
		l.add(p, "subflow-recursion", "", "%v", err)
		return nil
	case err != nil:
		l.add(p, "subflow-invalid", "see what check says about it", "the flow %s is refused itself: %v", n.Child, firstLine(err))
		return nil
	}
	if circle := f.leadsTo(l.names); circle != nil {
		l.recursion(p, append(slices.Clone(l.names), circle...))
		return nil
	}
	return f
}

func (l *loader) recursion(p place, circle []string) {
	l.add(p, "subflow-recursion", "use a loop", "a flow would be its own child: %s", strings.Join(circle, " → "))
}

// leadsTo is a way from a flow over its children to one of the names, or nil.
func (f *Flow) leadsTo(names []string) []string {
	if slices.Contains(names, f.name) {
		return []string{f.name}
	}
	for _, name := range f.Children() {
		if way := f.children[name].leadsTo(names); way != nil {
			return append([]string{f.name}, way...)
		}
	}
	return nil
}

// loadInline loads a flow within the file, once.
func (l *loader) loadInline(in *inline, name string) *Flow {
	if f, done := in.done[name]; done {
		return f
	}
	in.done[name] = nil
	c := newLoader(l.reader, l.opts)
	c.inline, c.names = in, l.names
	c.document(in.at.value(name))
	if c.flow.name != "" && c.flow.name != name {
		l.add(c.top.where("name"), "bad-value", "name: "+name, "the flow %s calls itself %s", name, c.flow.name)
	}
	if len(l.problems) > c.before {
		return nil
	}
	c.finish()
	if len(l.problems) > c.before {
		return nil
	}
	in.done[name] = c.flow
	return c.flow
}

// checkInline loads what no subflow has asked for, to say all that is wrong,
// and refuses what is of no use.
func (l *loader) checkInline() {
	for _, name := range l.inline.order {
		if l.inline.used[name] {
			continue
		}
		l.add(at(l.inline.at.key(name), ""), "subflow-unused", "remove it", "no subflow names the flow %s", name)
		l.loadInline(l.inline, name)
	}
}

func (l *loader) readSubflow(n *rawNode) {
	m := n.m
	m.need("flow", "key")
	n.Child = m.name("flow", nameForm)
	if n.ChildKey = m.str("key"); len(n.ChildKey) > maxText {
		m.bad("key", "has %d bytes, the limit is %d", len(n.ChildKey), maxText)
	}
	n.reads = l.templates(m.where("key"), n.ChildKey)
	n.Give, n.Take = l.nameMap(n, "give"), l.nameMap(n, "take")
	n.Await = !m.has("wait") || m.boolean("wait")
	n.Close = "cancel"
	if m.has("close") {
		if n.Close = m.str("close"); n.Close != "cancel" && n.Close != "abandon" {
			m.bad("close", "must be cancel or abandon")
		}
	}
	if n.Expires = m.duration("expires"); n.Expires > 0 {
		n.OnExpire = Timeout
	}
	for _, key := range []string{"take", "expires"} {
		if m.has(key) && !n.Await {
			m.bad(key, "goes only with wait: true")
		}
	}
}

func (l *loader) checkSubflow(n *rawNode) {
	n.Writes = slices.Sorted(maps.Keys(n.Take))
	if n.Child == "" {
		return
	}
	if n.child = l.child(n); n.child == nil {
		return
	}
	if n.child.depth >= maxLevels {
		l.add(n.m.where("flow"), "subflow-depth", "", "with %s there are flows within flows over %d levels, the limit is %d", n.Child, n.child.depth+1, maxLevels)
	}
	l.checkGive(n)
	l.checkTaken(n, func(from string) *Field { return n.child.byKey[from] })
	for _, key := range n.Writes {
		from := n.child.byKey[n.Take[key]]
		switch {
		case from == nil && n.Take[key] != "":
			l.add(n.m.where("take"), "ref-unknown", didYouMean(n.Take[key], fieldKeys(n.child.byKey)), "take names %s, which is no field of the flow %s", n.Take[key], n.Child)
		case from != nil && from.Default == nil && !from.Required:
			n.maybe = append(n.maybe, key)
		}
	}
}

// checkGive checks that a child gets what it needs and can take.
func (l *loader) checkGive(n *rawNode) {
	m, _ := l.mapping(n.m.valueOr("give"), n.ID, "give", nil)
	for _, key := range slices.Sorted(maps.Keys(n.Give)) {
		to, from := n.child.byKey[key], l.flow.byKey[n.Give[key]]
		switch {
		case n.Give[key] == "":
		case to == nil || !to.Input && !to.Required:
			l.add(at(m.key(key), n.ID), "give-mismatch", didYouMean(key, n.child.inputs()), "the flow %s has no input %s", n.Child, key)
		case from == nil:
			l.add(m.where(key), "ref-unknown", didYouMean(n.Give[key], fieldKeys(l.flow.byKey)), "give names %s, which is no field of the state", n.Give[key])
		case !from.fits(to):
			l.add(m.where(key), "give-mismatch", "", "give puts state.%s into %s of the flow %s: %s", from.Key, key, n.Child, misfit(from, to))
		case to.Required:
			n.reads = append(n.reads, from.Key)
		}
	}
	for _, f := range n.child.fields {
		// These two every run gets by itself.
		if _, given := n.Give[f.Key]; f.Required && !given && f.Key != "issue" && f.Key != "repo" {
			l.add(n.m.where("give"), "give-mismatch", fmt.Sprintf("give: {%s: …}", f.Key), "the flow %s needs %s", n.Child, f.Key)
		}
	}
}

// inputs are the keys that may be given to a flow.
func (f *Flow) inputs() []string {
	var keys []string
	for _, fd := range f.fields {
		if fd.Input || fd.Required {
			keys = append(keys, fd.Key)
		}
	}
	return keys
}

func (l *loader) readConcurrency() {
	if !l.top.has("concurrency") {
		return
	}
	m, ok := l.mapping(l.top.value("concurrency"), "", "concurrency", []string{"key", "on_conflict"})
	if !ok {
		return
	}
	m.need("key")
	one := Concurrency{Key: m.str("key"), OnConflict: "queue"}
	if len(one.Key) > maxText {
		m.bad("key", "has %d bytes, the limit is %d", len(one.Key), maxText)
	}
	if m.has("on_conflict") {
		if one.OnConflict = m.str("on_conflict"); !slices.Contains([]string{"queue", "replace", "reject"}, one.OnConflict) {
			m.bad("on_conflict", "must be queue, replace or reject")
		}
	}
	l.keyReads = l.templates(m.where("key"), one.Key)
	if parts, err := splitTemplate(one.Key); err == nil {
		for i := 1; i < len(parts); i += 2 {
			if slices.Contains([]string{"run.id", "run.key"}, parts[i]) {
				l.add(m.where("key"), "bad-value", "use run.repo, run.issue, run.phase, run.flow or the state", "{{%s}} is another for each run", parts[i])
			}
		}
	}
	l.flow.one = one
}
