package flows

import (
	"go.yaml.in/yaml/v3"
)

// kindSpec is everything the loader knows of a kind of node. A kind is added
// here, and in the engine's table of runners.
type kindSpec struct {
	// keys are allowed beside id and kind.
	keys []string
	// read fills the node from its mapping, check looks at it once all nodes
	// are read.
	read, check func(*loader, *rawNode)
	// outcomes are all that it may have, total those that need an unguarded
	// edge.
	outcomes, total func(*rawNode) []Outcome
}

// kindWords are the kinds in the order in which messages list them.
func kindWords() []string {
	return []string{"step", "gate", "loop", "wait", "approval", "command", "fanout", "merge", "subflow", "sink"}
}

func outcomeWords() []string {
	return []string{"ok", "failed", "timeout", "budget-exhausted", "denied", "exhausted", "skipped", "stopped"}
}

func kindOf(k Kind) (kindSpec, bool) {
	justOK := func(*rawNode) []Outcome { return []Outcome{OK} }
	fixed := func(outcomes ...Outcome) func(*rawNode) []Outcome {
		return func(*rawNode) []Outcome { return outcomes }
	}
	nothing := func(*loader, *rawNode) {}
	switch k {
	case Step:
		return kindSpec{
			keys: []string{"uses", "with", "in", "writes", "budget", "timeout", "idle", "retry", "required", "cache"},
			read: (*loader).readAction, check: (*loader).checkAction,
			outcomes: func(n *rawNode) []Outcome {
				return append([]Outcome{OK, Failed, Timeout, Budget}, n.action.Outcomes...)
			},
			total: justOK,
		}, true
	case Gate:
		return kindSpec{
			keys: []string{"uses", "with", "in", "writes", "timeout", "idle", "retry", "required", "cache"},
			read: (*loader).readAction, check: (*loader).checkAction,
			outcomes: func(n *rawNode) []Outcome { return append([]Outcome{OK, Failed, Timeout}, n.action.Outcomes...) },
			total:    justOK,
		}, true
	case Loop:
		both := func(*rawNode) []Outcome { return []Outcome{OK, Exhausted} }
		return kindSpec{
			keys: []string{"back_to", "max"}, read: (*loader).readLoop, check: (*loader).checkLoop,
			outcomes: both, total: both,
		}, true
	case Wait:
		return kindSpec{
			keys: []string{"event", "match", "take", "writes", "expires", "on_expire"},
			read: (*loader).readWait, check: (*loader).checkWait,
			outcomes: func(n *rawNode) []Outcome { return []Outcome{OK, Denied, Failed, n.OnExpire} },
			total:    func(n *rawNode) []Outcome { return []Outcome{OK, n.OnExpire} },
		}, true
	case Approval:
		all := func(n *rawNode) []Outcome { return []Outcome{OK, Denied, n.OnExpire} }
		return kindSpec{
			keys: []string{"message", "approvers", "take", "writes", "expires", "on_expire"},
			read: (*loader).readApproval, check: (*loader).checkTake,
			outcomes: func(n *rawNode) []Outcome { return append(all(n), Failed) }, total: all,
		}, true
	case Command:
		return kindSpec{
			keys: []string{"argv", "env", "accept", "take", "writes", "budget", "timeout", "idle", "retry"},
			read: (*loader).readCommand, check: (*loader).checkCommand,
			outcomes: fixed(OK, Failed, Timeout, Budget), total: justOK,
		}, true
	case Fanout:
		// Where it leads on ok is its join, which has no edge in the file. A
		// branch that it needs fails it, whatever became of the branch; only
		// where the flow's limits are used up before it, it is not entered.
		return kindSpec{
			keys: []string{"branches", "join", "max_parallel"},
			read: (*loader).readFanout, check: nothing,
			outcomes: fixed(OK, Failed, Budget), total: fixed(),
		}, true
	case Merge:
		return kindSpec{
			keys: append([]string{"of", "report", "uses"}, mergeKeys()...),
			read: (*loader).readMerge, check: (*loader).checkMerge,
			outcomes: func(n *rawNode) []Outcome {
				if n.Uses == "" {
					return []Outcome{OK, Failed}
				}
				return append([]Outcome{OK, Failed, Timeout, Budget}, n.action.Outcomes...)
			},
			total: justOK,
		}, true
	case Subflow:
		all := func(n *rawNode) []Outcome {
			if n.OnExpire != "" {
				return []Outcome{OK, n.OnExpire}
			}
			return []Outcome{OK}
		}
		return kindSpec{
			keys: []string{"flow", "key", "give", "take", "wait", "close", "expires"},
			read: (*loader).readSubflow, check: (*loader).checkSubflow,
			outcomes: func(n *rawNode) []Outcome { return append(all(n), Failed) }, total: all,
		}, true
	case Sink:
		return kindSpec{read: nothing, check: nothing, outcomes: fixed(), total: fixed()}, true
	}
	return kindSpec{}, false
}

// spec is kindOf with all keys, remembered.
func (l *loader) spec(k Kind) (kindSpec, bool) {
	s, ok := l.specs[k]
	if !ok {
		if s, ok = kindOf(k); ok {
			s.keys = append([]string{"id", "kind"}, s.keys...)
			l.specs[k] = s
		}
	}
	return s, ok
}

func (l *loader) readNodes() {
	items := l.top.items("nodes")
	switch {
	case len(items) == 0 && (!l.top.has("nodes") || l.top.value("nodes").Kind == yaml.SequenceNode):
		l.add(l.top.where("nodes"), "no-nodes", "add nodes:", "the flow has no nodes")
		return
	case len(items) > maxNodes:
		l.add(l.top.where("nodes"), "too-large", "", "the flow has %d nodes, the limit is %d", len(items), maxNodes)
		l.wild = true
		return
	}
	for _, item := range items {
		// The id and the kind decide how the rest is read.
		peek, ok := (&reader{}).mapping(item, "", "", nil)
		if !ok {
			l.add(at(item, ""), "bad-value", "{id: …, kind: …}", "a node must be a mapping")
			l.wild = true
			continue
		}
		id := ""
		if v := peek.value("id"); v != nil && v.Kind == yaml.ScalarNode {
			id = v.Value
		}
		switch n := l.readNode(item, id, peek); {
		case n != nil:
			l.nodes = append(l.nodes, n)
			l.ids[n.ID] = n
		case l.ids[id] == nil:
			// Known, so that its edges don't dangle as well.
			l.ids[id] = &rawNode{Node: Node{ID: id}, m: peek}
			l.wild = true
		default:
			l.wild = true
		}
	}
}

func (l *loader) readNode(item *yaml.Node, id string, peek mapping) *rawNode {
	peek.reader, peek.id, peek.what = l.reader, id, "the node"
	peek.need("id", "kind")
	name := peek.name("id", idForm)
	switch {
	case name == "":
		return nil
	case reserved(name):
		l.add(peek.where("id"), "reserved-name", "choose another name", "the name %s is reserved", name)
		return nil
	case l.ids[name] != nil:
		l.add(peek.where("id"), "duplicate-id", "choose another id", "the id %s is used in line %d already", name, l.ids[name].m.at.Line)
		return nil
	}
	n := &rawNode{Node: Node{ID: name, Kind: Kind(peek.str("kind"))}, m: peek}
	spec, ok := l.spec(n.Kind)
	switch {
	case n.Kind == "":
		return n
	case !ok:
		l.add(peek.where("kind"), "unknown-kind", didYouMean(string(n.Kind), kindWords()), "no kind is called %s", n.Kind)
		return n
	}
	n.m, _ = l.mapping(item, id, "a node of kind "+string(n.Kind), spec.keys)
	spec.read(l, n)
	return n
}

func (l *loader) checkNodes() {
	for _, n := range l.nodes {
		if spec, ok := l.spec(n.Kind); ok {
			spec.check(l, n)
		}
	}
	l.checkFanouts()
	l.checkInline()
}
