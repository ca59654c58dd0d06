package flows

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// worstFlow has a loop around one step and a second loop before it.
const worstFlow = `
apiVersion: flows/v1
name: worst
phase: test
entry: start
sink: done
state:
  n: {type: int, default: 0}
  result: {type: enum, values: [none, ok], default: none}
LIMITS
nodes:
  - {id: start, kind: step, uses: test.step, in: [], writes: [], budget: {tokens: 10, tool_calls: 1, cost_usd: 0.01}, timeout: 1m}
  - {id: body, kind: step, uses: test.step, in: [], writes: [], BUDGET, timeout: 10m}
  - {id: check, kind: gate, uses: test.gate, in: [], writes: [], timeout: 1s}
  - {id: inner, kind: loop, back_to: body, max: 3}
  - {id: outer, kind: loop, back_to: start, max: 2}
  - {id: done, kind: sink}
edges:
  - {from: start, to: body}
  - {from: body, to: check}
  - {from: check, to: inner, when: "state.n > 1"}
  - {from: check, to: outer, when: "state.n > 0"}
  - {from: check, to: done, set: {result: ok}}
  - {from: inner, to: body}
  - {from: inner, to: outer, on: [exhausted]}
  - {from: outer, to: start}
  - {from: outer, to: done, on: [exhausted], set: {result: ok}}
`

// A run can't cost more than its budgets, as often as its loops allow, and its
// limits.
//
// Covers: VK27, HF15.
func TestWorstCase(t *testing.T) {
	t.Parallel()
	load := func(budget, limits string) *Flow {
		return mustLoad(t, strings.NewReplacer("BUDGET", budget, "LIMITS", limits).Replace(worstFlow))
	}
	// start: 1 + 2 entries, body and check: 1 + 2 + 3 entries.
	got := WorstCase(load("budget: {tokens: 100, tool_calls: 10, cost_usd: 0.5, wall: 5m}", ""))
	want := Spend{Steps: 3 + 4*6 + 1, Tokens: 630, ToolCalls: 63, MicroUSD: 3_030_000, Wall: 3*time.Minute + 30*time.Minute + 6*time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("at most 28 steps, 630 tokens, $3.03, 63 tool calls, 33m6s of work", got.String()); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	got = WorstCase(load("budget: {tokens: 100}", "limits: {max_steps: 20, tokens: 500, wall: 1h}"))
	want = Spend{
		Steps: 20, Tokens: 500, ToolCalls: Unbounded, MicroUSD: Unbounded, Wall: time.Hour,
		Why: []string{"no limit of tool calls in the flow, and no budget of tool calls in body", "no limit of money in the flow, and no budget of money in body"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("at most 20 steps, 500 tokens, unbounded money, unbounded tool calls, 1h of work", got.String()); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	got = WorstCase(load("budget: {tokens: 2000000000000}", "limits: {max_steps: 2000000000000}\n"))
	if got.Tokens != 12_000_000_000_030 {
		t.Errorf("tokens = %d", got.Tokens)
	}
	if got := by(math.MaxInt64/2, 3); got != math.MaxInt64 {
		t.Errorf("by = %d, want no overflow", got)
	}
}

// Nodes whose action never asks the meter use no tokens, and are not named for
// having no budget of them.
func TestWorstCaseNamesWhoSpends(t *testing.T) {
	t.Parallel()
	src := strings.NewReplacer("BUDGET", "retry: {max: 1}", "LIMITS", "", "{id: start, kind: step, uses: test.step", "{id: start, kind: step, uses: test.save").Replace(worstFlow)
	got := WorstCase(mustLoad(t, src))
	want := []string{
		"no limit of tokens in the flow, and no budget of tokens in body",
		"no limit of tool calls in the flow, and no budget of tool calls in body",
		"no limit of money in the flow, and no budget of money in body",
	}
	if diff := cmp.Diff(want, got.Why); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
	got = WorstCase(mustLoad(t, strings.Replace(src, "{id: body, kind: step, uses: test.step", "{id: body, kind: step, uses: test.save", 1)))
	if got.Tokens != 0 || got.MicroUSD != 0 || got.ToolCalls != 0 || got.Why != nil || got.Wall == 0 {
		t.Errorf("nobody spends: %+v", got)
	}
}

// A child that is waited for counts for its parent, another one is told of.
func TestWorstCaseOfChildren(t *testing.T) {
	t.Parallel()
	f, problems := Load("subflow.yaml", readFile(t, "testdata/flows/good/subflow.yaml"), testRegistry(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	leaf := Spend{
		Steps: 2, Tokens: 10, ToolCalls: Unbounded, MicroUSD: Unbounded, Wall: time.Hour,
		Why: []string{"no limit of tool calls in the flow, and no budget of tool calls in a", "no limit of money in the flow, and no budget of money in a"},
	}
	want := Spend{
		Steps: 3, Tokens: 110, ToolCalls: Unbounded, MicroUSD: Unbounded, Wall: time.Hour + time.Minute,
		Why:   []string{"pr-review: leaf: " + leaf.Why[0], "pr-review: leaf: " + leaf.Why[1]},
		Apart: []ApartSpend{{"leaf", 1, leaf}},
	}
	if diff := cmp.Diff(want, WorstCase(f)); diff != "" {
		t.Errorf("spend (-want +got):\n%s", diff)
	}
	f, problems = Load("fanout.yaml", readFile(t, "testdata/flows/good/fanout.yaml"), testRegistry(t))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if got := WorstCase(f); got.Steps != 3*3+3 || got.Tokens != Unbounded || !strings.Contains(strings.Join(got.Why, "\n"), "tokens in docs, only") {
		t.Errorf("spend of a fanout = %+v", got)
	}
}
