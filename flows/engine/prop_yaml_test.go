package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// propSchema is the state of every generated flow; the last field's values
// are the flow's.
const propSchema = `state:
  n0: {type: int, default: 0}
  n1: {type: int, default: 0}
  n2: {type: int, default: 0}
  i0: {type: int, input: true, default: 1}
  o0: {type: int}
  b0: {type: bool, default: false}
  s0: {type: string, default: "", max_len: 40}
  s1: {type: string, default: "", max_len: 40}
  e0: {type: enum, values: [red, green, blue], default: red}
  lines: {type: list, of: string, default: []}
  result: {type: enum, values: [%s], default: none}
`

// yaml is the flow as a file.
func (f *propFlow) yaml() string {
	var b strings.Builder
	results := "none, ok, late"
	if f.human {
		results += ", needs_human"
	}
	fmt.Fprintf(&b, "apiVersion: flows/v1\nname: %s\nphase: test\nentry: %s\nsink: %s\n", f.name, f.nodes[0].id, propSink)
	fmt.Fprintf(&b, propSchema, results)
	if f.stop {
		fmt.Fprintf(&b, "stop: {to: %s}\n", propSink)
	}
	fmt.Fprintf(&b, "limits: {max_steps: %d", f.maxSteps)
	if f.tokens > 0 {
		fmt.Fprintf(&b, ", tokens: %d", f.tokens)
	}
	b.WriteString("}\nnodes:\n")
	for _, n := range f.nodes {
		n.yaml(&b)
		if n.kind == "fanout" {
			for _, branch := range n.branches {
				branch.yaml(&b)
			}
		}
	}
	fmt.Fprintf(&b, "  - {id: %s, kind: sink}\nedges:\n", propSink)
	for _, n := range f.nodes {
		for _, e := range n.edges {
			e.yaml(&b, n.id)
		}
	}
	if f.finally {
		b.WriteString("finally: [p.last]\n")
	}
	if len(f.children) > 0 {
		b.WriteString("flows:\n")
		for _, name := range slices.Sorted(maps.Keys(f.children)) {
			fmt.Fprintf(&b, "  %s:\n    %s\n", name, strings.ReplaceAll(strings.TrimSpace(f.children[name].yaml()), "\n", "\n    "))
		}
	}
	return b.String()
}

func (n *propNode) yaml(b *strings.Builder) {
	fmt.Fprintf(b, "  - {id: %s, kind: %s", n.id, n.kind)
	put := func(key, value string) {
		if value != "" && value != "{}" && value != "[]" && value != `""` && value != "null" && value != "0" {
			fmt.Fprintf(b, ", %s: %s", key, value)
		}
	}
	put("uses", n.uses)
	if n.uses != "" {
		fmt.Fprintf(b, ", in: %s, writes: %s", inline(n.in), inline(n.writes))
	}
	if n.echo != "" {
		put("with", inline(map[string]string{"echo": n.echo}))
	}
	if n.budget > 0 {
		put("budget", fmt.Sprintf("{tokens: %d}", n.budget))
	}
	if n.retries > 0 {
		put("retry", fmt.Sprintf("{max: %d, on: [transient], backoff: 1s, jitter: none}", n.retries))
	}
	if n.cache {
		put("cache", "run")
	}
	if n.optional {
		put("required", "false")
	}
	switch n.kind {
	case "loop":
		fmt.Fprintf(b, ", back_to: %s, max: %d", n.backTo, n.max)
	case "wait":
		fmt.Fprintf(b, ", event: %s, expires: 1000h, on_expire: %s", n.event, n.onExpire)
		if n.match != "" {
			fmt.Fprintf(b, ", match: \"event.tag == '%s'\"", n.match)
		}
	case "approval":
		fmt.Fprintf(b, ", message: \"go on with {{state.n0}}?\", approvers: %s, expires: 1000h, on_expire: %s", inline(n.approvers), n.onExpire)
	case "command":
		b.WriteString(", argv: [make, test], env: {N: \"{{state.n0}}\"}, timeout: 10m")
	case "fanout":
		fmt.Fprintf(b, ", branches: %s, join: %s", inline(branchIDs(n.branches)), n.join)
		put("max_parallel", fmt.Sprint(n.parallel))
	case "merge":
		fmt.Fprintf(b, ", of: %s", inline(branchIDs(n.branches)))
		if n.report {
			put("report", "lines")
		}
	case "subflow":
		fmt.Fprintf(b, ", flow: %s, key: %s, wait: %t, close: abandon", n.child, inline(n.key), n.await)
		put("give", inline(n.give))
	}
	put("take", inline(n.take))
	b.WriteString("}\n")
}

func (e propEdge) yaml(b *strings.Builder, from string) {
	fmt.Fprintf(b, "  - {from: %s, to: %s, on: [%s]", from, e.to, strings.Join(e.on, ", "))
	if e.when != nil {
		fmt.Fprintf(b, ", when: %s", inline(e.when.text))
	}
	if len(e.set) > 0 {
		fmt.Fprintf(b, ", set: %s", inline(e.set))
	}
	b.WriteString("}\n")
}

func branchIDs(nodes []*propNode) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.id)
	}
	return out
}

// inline is a value as JSON, which is YAML in one line; nil lists are empty.
func inline(v any) string {
	if list, ok := v.([]string); ok && list == nil {
		return "[]"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
