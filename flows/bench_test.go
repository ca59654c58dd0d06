package flows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// largeFlow is a flow of n nodes as people write them: steps with budgets and
// retries, a guarded edge after every second one, each pair within a loop.
func largeFlow(n int) []byte {
	var b strings.Builder
	b.WriteString(`apiVersion: flows/v1
name: large
phase: test
entry: n0
sink: done
state:
  issue: {type: int, required: true}
  kind: {type: enum, values: [bug, feature, docs], default: bug}
  title: {type: string, default: "", max_len: 200}
  tags: {type: list, of: string, default: []}
  n: {type: int, default: 0}
  patch: {type: artifact}
  passed: {type: bool, default: false}
  result: {type: enum, values: [none, ok, poor], default: none}
stop: {to: done}
limits: {max_steps: 1000, tokens: 100000}
nodes:
`)
	for i := range n - 1 {
		if i%10 == 9 {
			fmt.Fprintf(&b, "  - {id: n%d, kind: loop, back_to: n%d, max: 3}\n", i, i-5)
			continue
		}
		fmt.Fprintf(&b, "  - id: n%d\n    kind: step\n    uses: test.step\n    with: {aim: \"look at {{state.title}}\", depth: %d}\n    in: [issue, kind, title, n]\n    writes: [n, patch, passed]\n    budget: {tokens: 40000, wall: 20m}\n    retry: {max: 2, on: [transient], backoff: 5s, factor: 2, max_backoff: 1m, jitter: full}\n", i, i)
	}
	b.WriteString("  - {id: done, kind: sink}\nedges:\n")
	for i := range n - 1 {
		next := fmt.Sprintf("n%d", i+1)
		if i == n-2 {
			next = "done"
		}
		switch {
		case i%10 == 9:
			fmt.Fprintf(&b, "  - {from: n%d, to: n%d}\n  - {from: n%d, to: %s, on: [exhausted], set: {result: poor}}\n", i, i-5, i, next)
		case i%2 == 0 && next != "done":
			fmt.Fprintf(&b, "  - {from: n%d, to: done, when: \"state.n > %d && state.kind in ['bug', 'docs'] || outcome == 'failed'\", set: {result: ok}}\n  - {from: n%d, to: %s}\n", i, i, i, next)
		default:
			fmt.Fprintf(&b, "  - {from: n%d, to: %s}\n", i, next)
		}
	}
	return []byte(b.String())
}

// A flow of 200 nodes is read and checked within 10 ms.
func BenchmarkLoad(b *testing.B) {
	src, reg := largeFlow(200), testRegistry(b)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, problems := Load("large.yaml", src, reg); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

// A file of one line, as large as a file may be, takes time by its length.
func BenchmarkLongLine(b *testing.B) {
	src := []byte("a: [" + strings.Repeat("1,", (maxFile-6)/2) + "1]")
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if parsePlain(src) == nil {
			b.Fatal("the line needs the library")
		}
	}
}

// A frozen flow of 200 nodes is read again.
func BenchmarkThaw(b *testing.B) {
	reg := testRegistry(b)
	f, problems := Load("large.yaml", largeFlow(200), reg)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	raw, actions := f.Definition(), f.Actions()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := Thaw(raw, f.Hash(), actions, reg); err != nil {
			b.Fatal(err)
		}
	}
}

// A guard over the state takes at most 1 µs.
func BenchmarkGuard(b *testing.B) {
	for name, src := range map[string]string{
		"short": "state.n > 0",
		"long":  "has(state.late) && (state.n >= 2 || !state.flag) && state.kind in ['feature', 'bug'] && outcome != 'failed' && visits(build) < 5 && len(state.late) > 1",
		"list":  "'b' in state.tags",
	} {
		g, problems := compileGuard(src, guardFields())
		if len(problems) > 0 {
			b.Fatal(problems)
		}
		s := mustState(b, map[string]any{"n": 2, "kind": "bug", "flag": false, "late": "xyz", "tags": []string{"a", "b"}})
		env := GuardEnv{State: s, Outcome: OK, Visits: map[string]int{"build": 3}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v, err := g.Eval(env); err != nil || !v {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// A delta is checked and applied to a state of 2 KB.
func BenchmarkApply(b *testing.B) {
	f := mustLoad(b, schemaFlow)
	s, err := f.Initial(mustState(b, map[string]any{"issue": 7}))
	if err != nil {
		b.Fatal(err)
	}
	sum := strings.Repeat("a", 64)
	delta := map[string]json.RawMessage{
		"title": json.RawMessage(`"a title"`), "size": json.RawMessage(`"m"`), "nums": json.RawMessage("[1,2,3]"),
		"ref": json.RawMessage(`{"path":"p","sha256":"` + sum + `","bytes":3}`), "flag": json.RawMessage("true"),
		"big": json.RawMessage(`["` + strings.Repeat("x", 2000) + `"]`),
	}
	writes := []string{"size", "title", "nums", "flag", "ref", "big"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Apply(s, writes, delta); err != nil {
			b.Fatal(err)
		}
	}
}
