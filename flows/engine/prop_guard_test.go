package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// propState is a state as the reference interpreter knows it: int, bool,
// string and []string values; what is absent is not set.
type propState map[string]any

// propEnv is what a generated guard sees.
type propEnv struct {
	state   propState
	outcome string
	visits  map[string]int
}

// propGuard is a generated guard: as it is written, and what it must mean.
// eval's second value is false when the guard can't be evaluated.
type propGuard struct {
	text string
	eval func(propEnv) (value, ok bool)
}

// guardGen makes guards over the fields of propSchema.
type guardGen struct {
	rnd   *rand.Rand
	nodes []string // ids that visits() may name
	unset string   // a field without default that may be read here, or ""
}

func (g guardGen) make(depth int) propGuard {
	if depth > 0 && g.rnd.IntN(3) == 0 {
		a, b := g.make(depth-1), g.make(depth-1)
		switch g.rnd.IntN(3) {
		case 0:
			return propGuard{"!(" + a.text + ")", func(e propEnv) (bool, bool) {
				v, ok := a.eval(e)
				return !v, ok
			}}
		case 1:
			return propGuard{"(" + a.text + " && " + b.text + ")", func(e propEnv) (bool, bool) {
				if v, ok := a.eval(e); !ok || !v {
					return false, ok
				}
				return b.eval(e)
			}}
		default:
			return propGuard{"(" + a.text + " || " + b.text + ")", func(e propEnv) (bool, bool) {
				if v, ok := a.eval(e); !ok || v {
					return v, ok
				}
				return b.eval(e)
			}}
		}
	}
	return g.leaf()
}

func (g guardGen) leaf() propGuard {
	k := g.rnd.IntN(7) - 1
	switch g.rnd.IntN(9) {
	case 0:
		return propGuard{"state.b0", func(e propEnv) (bool, bool) { return e.state["b0"].(bool), true }}
	case 1:
		color := oneOf(g.rnd, propColors())
		return propGuard{"state.e0 == '" + color + "'", func(e propEnv) (bool, bool) { return e.state["e0"] == color, true }}
	case 2:
		list := []int{k, k + 2, 9}
		return propGuard{fmt.Sprintf("state.n1 in [%d, %d, 9]", k, k+2), func(e propEnv) (bool, bool) {
			return slices.Contains(list, e.state["n1"].(int)), true
		}}
	case 3:
		node := oneOf(g.rnd, g.nodes)
		return g.compare("visits("+node+")", k, func(e propEnv) int { return e.visits[node] })
	case 4:
		return propGuard{"has(state.o0)", func(e propEnv) (bool, bool) { return e.state["o0"] != nil, true }}
	case 5:
		return g.compare("len(state.s0)", k+2, func(e propEnv) int { return len(e.state["s0"].(string)) })
	case 6:
		return propGuard{"outcome == 'ok'", func(e propEnv) (bool, bool) { return e.outcome == "ok", true }}
	case 7:
		if g.unset != "" {
			key := g.unset
			return propGuard{fmt.Sprintf("state.%s >= %d", key, k), func(e propEnv) (bool, bool) {
				v, ok := e.state[key].(int)
				return v >= k, ok
			}}
		}
	}
	key := oneOf(g.rnd, []string{"n0", "n1", "n2", "i0"})
	return g.compare("state."+key, k, func(e propEnv) int { return e.state[key].(int) })
}

func (g guardGen) compare(left string, k int, value func(propEnv) int) propGuard {
	op := oneOf(g.rnd, []string{"==", "!=", "<", "<=", ">", ">="})
	return propGuard{left + " " + op + " " + strconv.Itoa(k), func(e propEnv) (bool, bool) {
		v := value(e)
		return map[string]bool{"==": v == k, "!=": v != k, "<": v < k, "<=": v <= k, ">": v > k, ">=": v >= k}[op], true
	}}
}

func oneOf[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

// chance is true in pct of a hundred cases.
func chance(rnd *rand.Rand, pct int) bool { return rnd.IntN(100) < pct }

func propColors() []string { return []string{"red", "green", "blue"} }

// fill replaces {{state.x}} once, from left to right; what is inserted is not
// looked at again.
func fill(template string, s propState) string {
	var out strings.Builder
	for {
		before, rest, open := strings.Cut(template, "{{state.")
		out.WriteString(before)
		if !open {
			return out.String()
		}
		key, after, _ := strings.Cut(rest, "}}")
		fmt.Fprint(&out, s[key])
		template = after
	}
}
