package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The reference interpreter: what a generated flow must come to, written down
// as plainly as the semantics are told. It has no store, no concurrency and
// no time, and shares nothing with the engine.

// propVisit is one completed node.
type propVisit struct {
	Node          string
	Visit         int
	Outcome, Next string
}

// propEnd is what a run comes to.
type propEnd struct {
	Result, Code string
	State        propState
	Path         []propVisit
	// Calls counts the calls of actions by node and visit, for those that
	// must be made.
	Calls map[string]int
	// Spent is what the run has spent, with its children that it waited for;
	// -1 where that is not certain, since branches were cancelled.
	Spent int
	// Entered are the states with which nodes were come to last.
	Entered map[string]propState
	// Children are the runs of subflows by flow and key.
	Children map[string]*propEnd
}

// interpreter walks one run.
type interpreter struct {
	flow    *propFlow
	end     *propEnd
	visits  map[string]int
	pending []propEvent
	came    map[string]int
	spent   int
	unsure  bool               // branches were cancelled, so that spent is not certain
	parent  *interpreter       // that waits, so that what is spent here counts there
	done    map[string]entered // results by input, of nodes with a cache
	joined  map[string]entered // finished branches
}

// entered is what came of entering a node.
type entered struct {
	outcome, code string
	delta         propState
	stop          string // a code, "" for none
	again         bool   // an event was consumed and the node waits on
}

// interpret says what a run of the flow must come to.
func (f *propFlow) interpret(input map[string]int, parent *interpreter) *propEnd {
	in := &interpreter{
		flow: f, parent: parent, visits: map[string]int{}, came: map[string]int{}, done: map[string]entered{}, joined: map[string]entered{},
		pending: slices.Clone(f.early),
		end:     &propEnd{Calls: map[string]int{}, Entered: map[string]propState{}, Children: map[string]*propEnd{}, State: propDefaults()},
	}
	for key, v := range input {
		in.end.State[key] = v
	}
	in.walk()
	if in.end.Spent = in.spent; in.unsure {
		in.end.Spent = -1
		if in.parent != nil {
			in.parent.unsure = true
		}
	}
	return in.end
}

func propDefaults() propState {
	return propState{"n0": 0, "n1": 0, "n2": 0, "i0": 1, "b0": false, "s0": "", "s1": "", "e0": "red", "lines": []string{}, "result": "none"}
}

// forget sets back what a node takes and its visit has not brought.
func (s propState) forget(n *propNode, brought propState) propState {
	after := maps.Clone(s)
	for key := range n.take {
		if _, has := brought[key]; !has {
			after[key] = propDefaults()[key]
		}
	}
	return after
}

func (in *interpreter) walk() {
	for at, steps := in.flow.nodes[0].id, 0; ; {
		if at == propSink {
			in.sink("")
			return
		}
		in.end.Entered[at] = in.end.State
		if steps >= in.flow.maxSteps {
			in.fail("max-steps")
			return
		}
		n := in.flow.node(at)
		before := in.visits[at]
		next, over := in.step(n, before+1)
		if over {
			return
		}
		steps += in.visits[at] - before // none for an event that was passed over
		at = next
	}
}

func (f *propFlow) node(id string) *propNode {
	return f.nodes[slices.IndexFunc(f.nodes, func(n *propNode) bool { return n.id == id })]
}

func (in *interpreter) fail(code string) { in.end.Result, in.end.Code = "error", code }

func (in *interpreter) sink(code string) {
	if in.end.State["result"] == "none" {
		in.fail("no-result")
		return
	}
	in.end.Result, in.end.Code = in.end.State["result"].(string), code
	in.end.Path = append(in.end.Path, propVisit{Node: propSink, Visit: 1, Outcome: "ok"})
}

// step enters a node, applies what came of it and finds the way on.
func (in *interpreter) step(n *propNode, visit int) (next string, over bool) {
	state := in.end.State
	e := in.enter(n, visit)
	if after, ok := state.with(e.delta, n.mayWrite()); ok {
		state = after
	} else {
		e = entered{outcome: "failed", code: "invalid-state"}
	}
	if !e.again {
		state = state.forget(n, e.delta)
	}
	commit := func(outcome, to string) {
		in.end.State = state
		in.end.Path = append(in.end.Path, propVisit{n.id, visit, outcome, to})
		if !e.again {
			in.visits[n.id] = visit
		}
	}
	switch {
	case e.again:
		commit("skipped", n.id)
		return n.id, false
	case e.stop != "":
		return in.stopped(e, state, commit)
	case n.kind == "fanout" && e.outcome == "ok":
		commit("ok", n.join)
		return n.join, false
	}
	asked, env := false, propEnv{state, e.outcome, maps.Clone(in.visits)}
	env.visits[n.id] = visit
	for _, edge := range n.edges {
		if !slices.Contains(edge.on, e.outcome) {
			continue
		}
		asked = true
		if edge.when != nil {
			holds, ok := edge.when.eval(env)
			if !ok {
				in.fail("guard")
				return "", true
			}
			if !holds {
				continue
			}
		}
		state, _ = state.with(edge.set, slices.Collect(maps.Keys(edge.set)))
		commit(e.outcome, edge.to)
		return edge.to, false
	}
	switch {
	case asked:
		in.fail("no-route")
	case e.outcome == "budget-exhausted" && in.flow.stop && state["result"] != "none":
		e.stop = "budget" // what the flow has said already stays
		return in.stopped(e, state, commit)
	case e.outcome == "budget-exhausted" && in.flow.human && in.flow.stop:
		e.stop = "budget"
		state, _ = state.with(propState{"result": "needs_human"}, []string{"result"})
		return in.stopped(e, state, commit)
	case e.outcome == "budget-exhausted":
		in.fail("budget")
	case e.code != "":
		in.fail(e.code)
	default:
		in.fail(e.outcome)
	}
	return "", true
}

func (in *interpreter) stopped(e entered, state propState, commit func(string, string)) (string, bool) {
	switch {
	case !in.flow.stop:
		in.fail("no-route")
		return "", true
	case state["result"] == "none":
		in.fail("no-result")
		return "", true
	}
	commit(e.outcome, propSink)
	if len(in.end.Path) > 0 {
		in.sink(e.stop)
	}
	return "", true
}

// mayWrite are the keys that a node may change.
func (n *propNode) mayWrite() []string {
	keys := slices.Clone(n.writes)
	if n.kind == "merge" {
		for _, b := range n.branches {
			keys = append(keys, b.writes...)
		}
		keys = append(keys, "lines")
	}
	return append(keys, slices.Collect(maps.Keys(n.take))...)
}

// with is the state with a delta, or false where the delta does not fit.
func (s propState) with(delta propState, writes []string) (propState, bool) {
	after := maps.Clone(s)
	for key, v := range delta {
		if !slices.Contains(writes, key) {
			return s, false
		}
		if v == nil {
			delete(after, key)
			continue
		}
		if text, ok := v.(string); ok && (key[0] == 'n' || len(text) > 40) {
			return s, false
		}
		after[key] = v
	}
	return after, true
}

func (in *interpreter) enter(n *propNode, visit int) entered {
	switch n.kind {
	case "loop":
		if visit > n.max {
			return entered{outcome: "exhausted"}
		}
		return entered{outcome: "ok"}
	case "wait", "approval":
		return in.wait(n, visit)
	case "fanout":
		return in.fanout(n, visit)
	case "merge":
		return in.merge(n, visit)
	case "command":
		return in.command(n, visit)
	case "subflow":
		return in.subflow(n)
	}
	if n.kind == "step" && in.overspent() {
		return entered{outcome: "budget-exhausted"}
	}
	echo, seen := fill(n.echo, in.end.State), in.end.State.only(n.in)
	key := fmt.Sprint(n.id, "\x00", echo, "\x00", seen)
	if e, ok := in.done[key]; ok && n.cache {
		return e
	}
	in.end.Calls[fmt.Sprint(n.id, "/", visit)] += 1 + n.act(visit).again
	e := in.act(n, n.act(visit), seen, echo)
	_, fits := in.end.State.with(e.delta, n.writes)
	if n.cache && fits && e.stop == "" && (e.outcome == "ok" || e.outcome == "denied") {
		in.done[key] = e // what failed says nothing of the next time
	}
	return e
}

// overspent reports that no node which may spend is entered any more.
func (in *interpreter) overspent() bool { return in.flow.tokens > 0 && in.spent >= in.flow.tokens }

// affords reports that no limit of the run, nor of those that wait for it,
// would be passed.
func (in *interpreter) affords(estimate int) bool {
	for run := in; run != nil; run = run.parent {
		if run.flow.tokens > 0 && run.spent+estimate > run.flow.tokens {
			return false
		}
	}
	return true
}

// act runs what the script says of an action.
func (in *interpreter) act(n *propNode, a propAct, seen propState, echo string) entered {
	used := 0
	for _, s := range a.spend {
		if n.budget > 0 && used+s.estimate > n.budget || !in.affords(s.estimate) {
			return entered{outcome: "budget-exhausted"}
		}
		used += s.used
		for run := in; run != nil; run = run.parent {
			run.spent += s.used
		}
	}
	switch a.end {
	case "failed":
		return entered{outcome: "failed"}
	case "panic":
		return entered{outcome: "failed", code: "panic"}
	case "undeclared":
		return entered{outcome: "failed", code: "outcome-unknown"}
	}
	e := entered{outcome: "ok", delta: a.delta(seen, echo)}
	switch a.end {
	case "stop":
		e.stop = "early"
	case "denied", "timeout":
		e.outcome = a.end
	}
	return e
}

// wait takes what has come already, then what comes at this visit, in order;
// when nothing more comes it expires.
func (in *interpreter) wait(n *propNode, visit int) entered {
	i := slices.IndexFunc(in.pending, func(ev propEvent) bool { return ev.kind == n.event })
	if i < 0 {
		place := fmt.Sprint(n.id, "/", visit)
		coming := n.events[(visit-1)%len(n.events)]
		if in.came[place] == len(coming) {
			return entered{outcome: n.onExpire}
		}
		in.came[place]++
		return in.resolve(n, coming[in.came[place]-1])
	}
	ev := in.pending[i]
	in.pending = slices.Delete(in.pending, i, i+1)
	return in.resolve(n, ev)
}

func (in *interpreter) resolve(n *propNode, ev propEvent) entered {
	if n.match != "" && ev.tag != n.match || n.kind == "approval" && !approves(n, ev) {
		return entered{again: true}
	}
	e := entered{outcome: ev.outcome, delta: propState{}}
	switch ev.outcome {
	case "":
		e.outcome = "ok"
	case "maybe":
		return entered{outcome: "failed", code: "bad-event"}
	}
	for key, field := range n.take {
		switch {
		case !ev.bare && field == "n":
			e.delta[key] = ev.n
		case !ev.bare:
			e.delta[key] = ev.by
		case e.outcome == "ok":
			return entered{outcome: "failed", code: "bad-event"}
		}
	}
	return e
}

// approves reports that somebody is among the approvers and says a clear
// word. Whatever else comes approves nothing.
func approves(n *propNode, ev propEvent) bool {
	if ev.outcome != "ok" && ev.outcome != "denied" || ev.bare && (ev.role != "operator" || len(n.take) > 0 && ev.outcome == "ok") {
		return false
	}
	rank := []string{"triage", "write", "maintain", "admin", "operator"}
	for _, a := range n.approvers {
		who, name, _ := strings.Cut(a, ":")
		if who == "user" && ev.by == name || ev.role == "operator" ||
			who == "role" && slices.Index(rank, ev.role) >= slices.Index(rank, name) {
			return true
		}
	}
	return false
}

func (n *propNode) act(visit int) propAct { return n.acts[(visit-1)%len(n.acts)] }

// delta is what an action changes, given what it sees.
func (a propAct) delta(seen propState, echo string) propState {
	d := propState{}
	for _, s := range a.sets {
		switch s.from {
		case "":
			d[s.key] = s.lit
		case "echo":
			d[s.key] = echo
		default:
			v, _ := seen[s.from].(int)
			d[s.key] = v + s.add
		}
	}
	switch a.end {
	case "badtype":
		d["n0"] = "word"
	case "badkey":
		d["ghost"] = 1
	}
	return d
}

// only is the state narrowed to keys.
func (s propState) only(keys []string) propState {
	out := propState{}
	for _, key := range keys {
		if v, ok := s[key]; ok {
			out[key] = v
		}
	}
	return out
}

// text is the state as JSON with sorted keys.
func (s propState) text() string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
