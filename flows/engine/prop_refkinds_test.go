package engine_test

import "fmt"

// command runs the program that the script says: what it takes over is set
// whether it ended well or not, if it ended at all.
func (in *interpreter) command(n *propNode, visit int) entered {
	if in.overspent() {
		return entered{outcome: "budget-exhausted"}
	}
	in.end.Calls[fmt.Sprint(n.id, "/", visit)]++
	a := n.act(visit)
	e := entered{outcome: "ok", delta: propState{}}
	switch a.end {
	case "failed", "timeout":
		return entered{outcome: a.end}
	case "exit":
		e.outcome = "failed"
	}
	for key := range n.take {
		e.delta[key] = a.sets[0].lit
	}
	return e
}

// fanout runs every branch over the same state. One that is required and does
// not end well fails the fanout; its code says how that branch ended.
func (in *interpreter) fanout(n *propNode, visit int) entered {
	if in.overspent() {
		return entered{outcome: "budget-exhausted"}
	}
	broken := ""
	for _, b := range n.branches {
		e := in.act(b, b.act(visit), in.end.State.only(b.in), "")
		in.joined[b.id] = e
		if e.outcome != "ok" && !b.optional {
			broken = e.outcome
		}
	}
	if broken != "" {
		in.unsure = true
		return entered{outcome: "failed", code: map[string]string{"timeout": "timeout", "budget-exhausted": "budget"}[broken]}
	}
	for _, b := range n.branches {
		in.end.Calls[fmt.Sprint(b.id, "/", visit)]++
	}
	return entered{outcome: "ok"}
}

// merge applies the branches' deltas in its own order, then its action's.
func (in *interpreter) merge(n *propNode, visit int) entered {
	state, delta, lines := in.end.State, propState{}, []string{}
	for _, b := range n.branches {
		e := in.joined[b.id]
		if e.outcome != "ok" {
			lines = append(lines, b.id+": unavailable")
			continue
		}
		lines = append(lines, b.id+": ok")
		state, _ = state.with(e.delta, b.writes)
		for key, v := range e.delta {
			delta[key] = v
		}
	}
	if n.uses != "" {
		if in.overspent() {
			return entered{outcome: "budget-exhausted"}
		}
		in.end.Calls[fmt.Sprint(n.id, "/", visit)]++
		e := in.act(n, n.act(visit), state.only(n.in), "")
		if e.outcome != "ok" {
			return entered{outcome: e.outcome, code: e.code}
		}
		for key, v := range e.delta {
			delta[key] = v
		}
	}
	if n.report {
		delta["lines"] = lines
	}
	return entered{outcome: "ok", delta: delta}
}

// subflow spawns the child of a key once; a second time it is the same run.
func (in *interpreter) subflow(n *propNode) entered {
	key := n.child + ":" + fill(n.key, in.end.State)
	child, ok := in.end.Children[key]
	if !ok {
		input := map[string]int{}
		for to, from := range n.give {
			input[to] = in.end.State[from].(int)
		}
		var waits *interpreter
		if n.await {
			waits = in
		}
		child = in.flow.children[n.child].interpret(input, waits)
		in.end.Children[key] = child
	}
	switch {
	case !n.await:
		return entered{outcome: "ok"}
	case child.Result == "error":
		return entered{outcome: "failed", code: "child-failed"}
	}
	e := entered{outcome: "ok", delta: propState{}}
	for to, from := range n.take {
		e.delta[to] = child.State[from]
	}
	return e
}
