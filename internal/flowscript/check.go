package flowscript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
)

// checker collects problems with their places.
type checker struct {
	doc      *strictyaml.Document
	problems strictyaml.Problems
}

func (c *checker) add(path, hint, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(path, hint, format, args...))
}

func at(path, id string, i int) string { return fmt.Sprintf("%s.%s[%d]", path, id, i) }

// lines checks what needs no flow.
func (c *checker) lines(path string, nodes map[string][]Line) {
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		for i, l := range nodes[id] {
			c.line(at(path, id, i), l)
		}
	}
}

func (c *checker) line(p string, l Line) {
	ends := 0
	for _, set := range []bool{l.Stop != nil, l.Error != "", l.Hang, l.Outcome != "" && l.Outcome != string(flows.OK)} {
		if set {
			ends++
		}
	}
	switch {
	case ends > 1:
		c.add(p, "keep one of stop, error, hang and outcome", "a line ends in one way only")
	case l.Retry != "" && l.Error == "":
		c.add(p+".retry", "say the error", "only an error can be retried")
	case l.Error != "" && len(l.Delta) > 0:
		c.add(p+".delta", "", "an action that fails with an error changes nothing")
	}
	if l.Retry != "" && !slices.Contains([]string{"transient", "rate-limited", "overloaded"}, l.Retry) {
		c.add(p+".retry", "use transient, rate-limited or overloaded", "%q is no cause", l.Retry)
	}
	if l.Took < 0 {
		c.add(p+".took", "", "can't be negative")
	}
	if s := l.Spend; s != nil && (s.Tokens < 0 || s.ToolCalls < 0 || s.CostUSD < 0) {
		c.add(p+".spend", "", "can't be negative")
	}
	if l.Stop != nil && l.Stop.Code == "" {
		c.add(p+".stop.code", "a stable word, e.g. no-progress", "missing")
	}
	if l.Expires && (len(l.Event) > 0 || l.Outcome != "") {
		c.add(p+".expires", "", "no event comes before a deadline that passes")
	}
	if l.Child != nil {
		c.lines(p+".child.nodes", l.Child.Nodes)
	}
}

// fit checks the lines against a flow.
func (c *checker) fit(path string, f *flows.Flow, reg *flows.Registry, nodes map[string][]Line) {
	ids := make([]string, 0, len(nodes))
	for _, n := range f.Nodes() {
		ids = append(ids, n.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		n, ok := f.Node(id)
		if !ok {
			c.add(path+"."+id, strictyaml.DidYouMean(id, ids), "the flow %s has no node %s", f.Name(), id)
			continue
		}
		for i, l := range nodes[id] {
			c.fitLine(at(path, id, i), f, reg, n, l)
		}
	}
}

// lineKeys are the keys that lines of a kind may have; nil for kinds without
// lines.
func lineKeys(n flows.Node) []string {
	act := []string{"outcome", "delta", "stop", "note", "error", "retry", "took", "hang"}
	switch n.Kind {
	case flows.Gate:
		return act
	case flows.Step:
		return append(act, "spend")
	case flows.Merge:
		if n.Uses != "" {
			return append(act, "spend")
		}
	case flows.Command:
		return []string{"outcome", "code", "output", "note", "error", "retry", "took", "hang"}
	case flows.Wait, flows.Approval:
		return []string{"outcome", "event", "expires", "took"}
	case flows.Subflow:
		return []string{"child"}
	case flows.Loop, flows.Fanout, flows.Sink:
	}
	return nil
}

func (l Line) keys() []string {
	var set []string
	for key, is := range map[string]bool{
		"outcome": l.Outcome != "", "delta": l.Delta != nil, "stop": l.Stop != nil, "note": l.Note != "",
		"error": l.Error != "", "retry": l.Retry != "", "took": l.Took != 0, "hang": l.Hang, "spend": l.Spend != nil,
		"code": l.Code != nil, "output": l.Output != "", "event": l.Event != nil, "expires": l.Expires, "child": l.Child != nil,
	} {
		if is {
			set = append(set, key)
		}
	}
	slices.Sort(set)
	return set
}

func (c *checker) fitLine(p string, f *flows.Flow, reg *flows.Registry, n flows.Node, l Line) {
	may := lineKeys(n)
	if may == nil {
		c.add(p, "leave its lines out", "%s runs by itself", article(n.Kind))
		return
	}
	for _, key := range l.keys() {
		if !slices.Contains(may, key) {
			c.add(p+"."+key, "known here: "+strings.Join(may, ", "), "%s has no %s", article(n.Kind), key)
		}
	}
	c.outcome(p+".outcome", n, outcomes(reg, n), l.Outcome)
	if n.Kind == flows.Approval {
		c.answer(p+".event", n, outcomes(reg, n), l.Event)
	}
	if slices.Contains(may, "delta") {
		c.delta(p, f, n, l.Delta)
	}
	child, known := f.Child(n.Child)
	switch {
	case n.Kind != flows.Subflow:
	case l.Child == nil:
		c.add(p, "child: {nodes: {…}}", "say what the child run does")
	case known:
		c.fit(p+".child.nodes", child, reg, l.Child.Nodes)
	}
}

// answer checks what an approval gets.
func (c *checker) answer(p string, n flows.Node, want []string, event map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(event)) {
		at, said := p+"."+key, fmt.Sprint(event[key])
		switch known := roles(); key {
		case "by", "note":
		case "outcome":
			c.outcome(at, n, want, said)
		case "role":
			if !slices.Contains(known, said) {
				c.add(at, cmp.Or(strictyaml.DidYouMean(said, known), "use "+strings.Join(known, ", ")), "nobody has the role %q", said)
			}
		default:
			keys := []string{"by", "note", "outcome", "role"}
			c.add(at, cmp.Or(strictyaml.DidYouMean(key, keys), "known are "+strings.Join(keys, ", ")), "an answer has no %s", key)
		}
	}
}

// roles are those that whoever answers may have; whoever runs the bot is the
// operator.
func roles() []string {
	return []string{"admin", "maintain", "write", "triage", "read", "none", "operator"}
}

func (c *checker) delta(p string, f *flows.Flow, n flows.Node, delta map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		if slices.Contains(n.Writes, key) {
			c.value(p+".delta."+key, f, key, delta[key])
			continue
		}
		hint := "it writes " + strings.Join(n.Writes, ", ")
		if len(n.Writes) == 0 {
			hint = "it writes nothing"
		}
		if near := strictyaml.DidYouMean(key, n.Writes); near != "" {
			hint = near
		}
		c.add(p+".delta."+key, hint, "node %s does not write %s", n.ID, key)
	}
}

// article is a kind with its article.
func article(kind flows.Kind) string {
	if strings.HasPrefix(string(kind), "a") {
		return "an " + string(kind)
	}
	return "a " + string(kind)
}

func (c *checker) outcome(p string, n flows.Node, want []string, is string) {
	if is == "" || slices.Contains(want, is) {
		return
	}
	hint := "it may end with " + strings.Join(want, ", ")
	near := strictyaml.Nearest(is, want)
	for _, w := range want {
		if near == "" && len(is) > 2 && strings.HasPrefix(w, is[:3]) {
			near = w
		}
	}
	if near != "" {
		hint = "did you mean " + near + "?"
	}
	c.add(p, hint, "node %s never ends with %q", n.ID, is)
}

func outcomes(reg *flows.Registry, n flows.Node) []string {
	if n.Kind == flows.Wait || n.Kind == flows.Approval {
		return []string{string(flows.OK), string(flows.Denied)}
	}
	all := []string{string(flows.OK), string(flows.Failed), string(flows.Timeout), string(flows.Budget)}
	if a, ok := reg.Get(n.Uses); ok {
		for _, o := range a.Outcomes {
			if !slices.Contains(all, string(o)) {
				all = append(all, string(o))
			}
		}
	}
	return all
}

// value checks a value against the flow's field; a text stands for an
// artifact's content.
func (c *checker) value(p string, f *flows.Flow, key string, v any) {
	fd, ok := f.Field(key)
	if !ok {
		return // the loader of the flow has said so
	}
	if _, text := v.(string); text && fd.Type == flows.ArtifactField {
		return
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = fd.Check(raw)
	}
	hint := ""
	if fd.Type == flows.ArtifactField {
		hint = "give a text: it becomes the content"
	}
	if err != nil {
		c.add(p, hint, "%s %v", key, err)
	}
}

// input checks the values that the run starts with.
func (c *checker) input(f *flows.Flow, in map[string]any) {
	var known []string
	for _, fd := range f.Fields() {
		if fd.Input || fd.Required {
			known = append(known, fd.Key)
		}
		if _, given := in[fd.Key]; fd.Required && !given && fd.Key != "issue" && fd.Key != "repo" {
			c.add("input", "", "the flow needs %s", fd.Key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if !slices.Contains(known, key) {
			c.add("input."+key, strictyaml.DidYouMean(key, known), "%s is no input of the flow", key)
			continue
		}
		c.value("input."+key, f, key, in[key])
	}
}
