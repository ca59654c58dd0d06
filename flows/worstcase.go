package flows

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unbounded stands for an amount that nothing bounds.
const Unbounded = -1

// Spend is the most that a run can use. An amount is Unbounded when a node has
// no budget for it and the flow no limit.
type Spend struct {
	// Steps are completed nodes, a fanout with its branches being one.
	Steps     int64 `json:"steps"`
	Tokens    int64 `json:"tokens"`
	ToolCalls int64 `json:"tool_calls"`
	MicroUSD  int64 `json:"micro_usd"`
	// Wall is working time in nanoseconds: neither time parked nor a timeout
	// that begins again after a pause for a rate limit.
	Wall time.Duration `json:"wall"`
	// Why names what leaves an amount unbounded, a line each.
	Why []string `json:"why,omitempty"`
	// Apart are the flows that are started without being waited for: they
	// spend on their own account.
	Apart []ApartSpend `json:"apart,omitempty"`
}

// ApartSpend is a flow that runs by itself, at most Runs times.
type ApartSpend struct {
	Flow  string `json:"flow"`
	Runs  int64  `json:"runs"`
	Spend Spend  `json:"spend"`
}

// defaultWall is how long the engine lets a node work that names no timeout.
const defaultWall = time.Hour

// WorstCase adds up what a run can use at most: each node's budget as often as
// the loops let it be entered, bounded by the flow's limits. Only nodes whose
// action spends use tokens, money and tool calls; gates and commands never do.
func WorstCase(f *Flow) Spend {
	visits := f.mostVisits()
	var s Spend
	why := func(format string, args ...any) { s.Why = append(s.Why, fmt.Sprintf(format, args...)) }
	var childWall int64
	open := map[string][]string{}
	for i := range f.nodes {
		n := &f.nodes[i]
		times := visits[n.ID]
		if f.fanoutOf[n.ID] == "" {
			s.Steps = plus(s.Steps, times)
		}
		if c, ok := f.children[n.Child]; ok && n.Kind == Subflow {
			cost := WorstCase(c)
			if !n.Await {
				s.Apart = append(s.Apart, ApartSpend{n.Child, times, cost})
				continue
			}
			for _, line := range cost.Why {
				why("%s: %s", n.Child, line)
			}
			s.Tokens, s.ToolCalls, s.MicroUSD = plus(s.Tokens, by(cost.Tokens, times)), plus(s.ToolCalls, by(cost.ToolCalls, times)), plus(s.MicroUSD, by(cost.MicroUSD, times))
			childWall = plus(childWall, by(int64(cost.Wall), times))
			s.Apart = append(s.Apart, apart(cost.Apart, times)...)
			continue
		}
		if n.Uses == "" {
			continue
		}
		wall := n.Budget.Wall
		if bound := timeoutOf(n); wall == 0 || bound < wall {
			wall = bound
		}
		s.Wall = time.Duration(plus(int64(s.Wall), by(int64(wall), times)))
		if n.Kind == Gate || n.Kind == Command || !f.spends[n.ID] {
			continue
		}
		for _, amount := range []struct {
			unit   string
			sum    *int64
			budget int64
		}{
			{"tokens", &s.Tokens, n.Budget.Tokens}, {"tool calls", &s.ToolCalls, n.Budget.ToolCalls}, {"money", &s.MicroUSD, n.Budget.MicroUSD},
		} {
			if amount.budget == 0 {
				*amount.sum = Unbounded
				open[amount.unit] = append(open[amount.unit], n.ID)
				continue
			}
			*amount.sum = plus(*amount.sum, by(amount.budget, times))
		}
	}
	lim := f.limits
	s.Steps = within(s.Steps, int64(lim.MaxSteps))
	s.Tokens, s.ToolCalls, s.MicroUSD = within(s.Tokens, lim.Tokens), within(s.ToolCalls, lim.ToolCalls), within(s.MicroUSD, lim.MicroUSD)
	s.Wall = time.Duration(plus(within(int64(s.Wall), int64(lim.Wall)), childWall))
	for _, amount := range []struct {
		unit string
		sum  int64
	}{{"tokens", s.Tokens}, {"tool calls", s.ToolCalls}, {"money", s.MicroUSD}} {
		if amount.sum == Unbounded && len(open[amount.unit]) > 0 {
			why("no limit of %s in the flow, and no budget of %s in %s", amount.unit, amount.unit, strings.Join(open[amount.unit], ", "))
		}
	}
	return s
}

func timeoutOf(n *Node) time.Duration {
	if n.Timeout > 0 {
		return n.Timeout
	}
	return defaultWall
}

func apart(of []ApartSpend, times int64) []ApartSpend {
	of = slices.Clone(of)
	for i := range of {
		of[i].Runs = by(of[i].Runs, times)
	}
	return of
}

// mostVisits is how often each node can be entered: once on the way from the
// entry, and once more for each time that a loop leads back to before it. A
// loop leads back at most max times in a run, and only nodes from which it can
// be reached are entered again because of it.
func (f *Flow) mostVisits() map[string]int64 {
	number := make(map[string]int, len(f.nodes))
	for i := range f.nodes {
		number[f.nodes[i].ID] = i
	}
	forward, before := make(ways, len(f.nodes)), make(ways, len(f.nodes))
	for i := range f.edges {
		e := &f.edges[i]
		from, to := number[e.From], number[e.To]
		before.add(to, from)
		if f.nodes[from].Kind != Loop || !e.Takes(OK) {
			forward.add(from, to)
		}
	}
	visits := map[string]int64{}
	for i, entered := range forward.reach(number[f.entry]) {
		if entered {
			visits[f.nodes[i].ID] = 1
		}
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.Kind != Loop {
			continue
		}
		leads := before.reach(i)
		for j, again := range forward.reach(number[n.BackTo]) {
			if again && leads[j] {
				visits[f.nodes[j].ID] = plus(visits[f.nodes[j].ID], int64(n.Max))
			}
		}
	}
	for i := range f.nodes {
		for _, id := range f.nodes[i].Branches {
			visits[id] = visits[f.nodes[i].ID]
		}
	}
	for id := range visits {
		visits[id] = min(visits[id], int64(f.limits.MaxSteps))
	}
	return visits
}

// plus and by keep Unbounded and don't overflow.
func plus(a, b int64) int64 {
	switch {
	case a == Unbounded || b == Unbounded:
		return Unbounded
	case a > math.MaxInt64-b:
		return math.MaxInt64
	}
	return a + b
}

func by(a, times int64) int64 {
	if a == Unbounded || a == 0 || times == 0 {
		if times == 0 {
			return 0
		}
		return a
	}
	hi, lo := bits.Mul64(uint64(a), uint64(times)) //nolint:gosec // both are positive
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

func within(sum, limit int64) int64 {
	if limit > 0 && (sum == Unbounded || sum > limit) {
		return limit
	}
	return sum
}

// String is one line for people.
func (s Spend) String() string {
	return fmt.Sprintf("at most %s steps, %s tokens, %s, %s tool calls, %s of work", amount(s.Steps), amount(s.Tokens), dollars(s.MicroUSD), amount(s.ToolCalls), duration(s.Wall))
}

func amount(n int64) string {
	if n == Unbounded {
		return "unbounded"
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func dollars(micro int64) string {
	if micro == Unbounded {
		return "unbounded money"
	}
	return dollarText(micro)
}

// dollarText rounds up to cents.
func dollarText(micro int64) string {
	cents := micro / 1e4
	if micro%1e4 > 0 {
		cents++
	}
	return fmt.Sprintf("$%s.%02d", amount(cents/100), cents%100)
}

func duration(d time.Duration) string {
	if d == Unbounded {
		return "unbounded time"
	}
	text := d.Round(time.Second).String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}
