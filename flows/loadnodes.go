package flows

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// readAction reads a node that runs a registered action.
func (l *loader) readAction(n *rawNode) {
	n.m.need("uses")
	l.readUses(n)
}

// readUses reads the keys of an action.
func (l *loader) readUses(n *rawNode) {
	m := n.m
	n.Uses = m.str("uses")
	if m.has("with") {
		n.with = l.plain(m.value("with"), n.ID)
		n.With = l.encoded(n.with, m.value("with"), n.ID)
	}
	n.In, n.Writes = m.texts("in"), m.texts("writes")
	n.Optional = m.has("required") && !m.boolean("required") && m.value("required").Value == "false"
	if n.Cache = m.str("cache"); n.Cache != "" && n.Cache != "run" {
		m.bad("cache", "must be run")
	}
	l.readBounds(n, []string{"tokens", "cost_usd", "tool_calls", "wall"})
}

// readBounds reads what bounds the work of a node.
func (l *loader) readBounds(n *rawNode, budget []string) {
	m := n.m
	n.Timeout, n.Idle = m.duration("timeout"), m.duration("idle")
	if m.has("budget") {
		if b, ok := l.mapping(m.value("budget"), n.ID, "the budget", budget); ok {
			n.Budget = NodeBudget{Tokens: b.positive("tokens"), ToolCalls: b.positive("tool_calls"), MicroUSD: b.money("cost_usd"), Wall: b.duration("wall")}
		}
	}
	if m.has("retry") {
		n.Retry = l.readRetry(m.value("retry"), n.ID)
	}
}

// retryCauses are the causes of Retry.
func retryCauses() []string { return []string{"transient", "rate-limited", "overloaded"} }

func (l *loader) readRetry(node *yaml.Node, id string) RetryPolicy {
	m, ok := l.mapping(node, id, "retry", []string{"max", "on", "backoff", "factor", "max_backoff", "jitter"})
	if !ok {
		return RetryPolicy{}
	}
	m.need("max")
	p := RetryPolicy{
		Max: int(m.integer("max", 1)), On: m.texts("on"), Backoff: m.duration("backoff"),
		Factor: m.decimal("factor", 0.999, 100), MaxBackoff: m.duration("max_backoff"), Jitter: m.str("jitter"),
	}
	if p.Max > 20 {
		m.bad("max", "must be at most 20")
	}
	for i, cause := range p.On {
		if !slices.Contains(retryCauses(), cause) {
			l.add(at(m.items("on")[i], id), "bad-value", didYouMean(cause, retryCauses()), "no cause is called %s", cause)
		}
	}
	if len(p.On) == 0 {
		p.On = retryCauses()
	}
	if p.Backoff == 0 {
		p.Backoff = time.Second
	}
	if p.Factor == 0 {
		p.Factor = 2
	}
	if p.MaxBackoff == 0 {
		p.MaxBackoff = max(p.Backoff, 30*time.Second)
	}
	if p.MaxBackoff < p.Backoff {
		m.bad("max_backoff", "must not be below backoff")
	}
	switch p.Jitter {
	case "":
		p.Jitter = "full"
	case "full", "none":
	default:
		m.bad("jitter", "must be full or none")
	}
	return p
}

func (l *loader) checkAction(n *rawNode) {
	if n.Uses == "" {
		return
	}
	if n.action, n.known = l.reg.Get(n.Uses); !n.known {
		l.add(n.m.where("uses"), "unknown-action", didYouMean(n.Uses, l.reg.Names()), "no action is called %s", n.Uses)
		n.action.Outcomes = allOutcomes()
	}
	if n.known && n.Kind == Gate && n.action.Effects {
		l.add(n.m.where("uses"), "gate-effects", "use kind: step", "the action %s writes to the outside world, which a gate must not", n.Uses)
	}
	if n.known && n.Cache != "" && (n.action.Effects || !n.action.ReadOnly) {
		l.add(n.m.where("cache"), "cache-writes", "remove it", "the action %s may change more than the state, so its result can't be used again", n.Uses)
	}
	if n.Optional && l.fanoutOf[n.ID] == nil && !n.unfit {
		n.m.bad("required", "can be false only for a branch of a fanout")
	}
	l.keys(n, "in", &n.In, n.action.Reads)
	l.keys(n, "writes", &n.Writes, n.action.Writes)
	before := len(l.problems)
	n.reads = l.templates(n.m.where("with"), n.with)
	if n.known && len(l.problems) == before {
		l.checkWith(n)
	}
	if len(l.problems) == before {
		l.checkFacts(n)
	}
}

func (l *loader) checkWith(n *rawNode) {
	switch {
	case n.action.CheckWith == nil && n.m.has("with"):
		l.add(n.m.where("with"), "bad-with", "remove it", "the action %s takes no with", n.Uses)
	case n.action.CheckWith != nil:
		err := n.action.CheckWith(n.With)
		var wrong *WithError
		switch {
		case errors.As(err, &wrong):
			p, hint := n.m.where("with"), wrong.Hint
			if in, i := keyNamed(n.m.value("with"), wrong.Key); in != nil {
				p = at(in.Content[i], n.ID)
				if comma(in, i) {
					hint = putIntoQuotes
				}
			}
			l.add(p, "bad-with", hint, "%s %s", n.Uses, wrong.Msg)
		case err != nil:
			l.add(n.m.where("with"), "bad-with", "", "the action %s refuses with: %v", n.Uses, err)
		}
	}
}

func allOutcomes() []Outcome {
	return []Outcome{OK, Failed, Timeout, Budget, Denied, Exhausted}
}

// keys checks `in` or `writes` against the state and the action. Left out, it
// is what the action says.
func (l *loader) keys(n *rawNode, key string, have *[]string, action []string) {
	p := n.m.where(key)
	if !n.m.has(key) {
		*have = slices.Clone(action)
		for _, k := range action {
			if l.flow.byKey[k] == nil {
				l.add(n.m.where("uses"), key+"-mismatch", "declare "+k+" in state:", "the action %s needs the state field %s", n.Uses, k)
			}
		}
		return
	}
	for i, k := range *have {
		if l.flow.byKey[k] == nil {
			if i < len(n.m.items(key)) {
				p = at(n.m.items(key)[i], n.ID)
			}
			l.add(p, "ref-unknown", didYouMean(k, fieldKeys(l.flow.byKey)), "state has no field %s", k)
			return
		}
	}
	if action == nil {
		return
	}
	for _, k := range action {
		if !slices.Contains(*have, k) {
			l.add(p, key+"-mismatch", "add "+k, "%s lacks %s, which the action %s needs", key, k, n.Uses)
		}
	}
	for _, k := range *have {
		if !slices.Contains(action, k) {
			l.add(p, key+"-mismatch", "remove "+k, "%s has %s, which the action %s does not know (%s)", key, k, n.Uses, strings.Join(action, ", "))
		}
	}
}

func (l *loader) readLoop(n *rawNode) {
	n.m.need("back_to")
	n.BackTo = n.m.str("back_to")
	l.wild = l.wild || n.BackTo == "" // its circle would count as one without a loop
	if !n.m.has("max") {
		if n.m.misspelt("max") {
			return
		}
		l.add(n.m.where("max"), "loop-without-max", "add max: 3", "the loop has no max")
		return
	}
	n.Max = int(n.m.positive("max"))
}

func (l *loader) checkLoop(n *rawNode) {
	switch {
	case n.BackTo == "":
	case n.BackTo == n.ID:
		l.wild = true
		l.add(n.m.where("back_to"), "ref-self", "", "the loop leads back to itself")
	case l.ids[n.BackTo] == nil:
		l.wild = true
		l.add(n.m.where("back_to"), "ref-unknown", l.meantNode(edgeEnd{"to", n.BackTo}, slices.Sorted(maps.Keys(l.ids))), "back_to names %s, which is no node", n.BackTo)
	default:
		for _, e := range l.leaving[n.ID] {
			if e.Takes(OK) && e.To != n.BackTo {
				l.wild = true
				l.add(e.m.where("to"), "loop-back-to", "lead it to "+n.BackTo, "the loop leads to %s but says back_to: %s", e.To, n.BackTo)
			}
		}
	}
}

// visited are the nodes that visits() can count: a fanout's branches are parts
// of its visit.
func (l *loader) visited() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.ids)), func(id string) bool { return l.fanoutOf[id] != nil })
}

// guard reads and compiles a guard.
func (l *loader) guard(m mapping, key string, event bool) *Guard {
	if !m.has(key) {
		return nil
	}
	src := m.str(key)
	if !isText(m.value(key)) {
		return nil
	}
	if l.guards == nil {
		l.guards, l.countable = newGuards(), l.visited()
	}
	g, problems := l.guards.compile(src, guardScope{l.flow.byKey, l.countable, event})
	for _, p := range problems {
		l.add(m.where(key), p.code, p.hint, "%s: %s", key, p.msg)
	}
	return g
}
