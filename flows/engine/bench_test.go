package engine_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkNode is the own cost of a node over the memory store, with its share
// of loading the frozen flow again.
func BenchmarkNode(b *testing.B) {
	const nodes = 50
	var body strings.Builder
	for i := range nodes {
		fmt.Fprintf(&body, "  - {id: n%d, kind: step, uses: t.step, in: [n], writes: [n, result]}\n", i)
	}
	body.WriteString("  - {id: done, kind: sink}\nedges:\n")
	for i := range nodes - 1 {
		fmt.Fprintf(&body, "  - {from: n%d, to: n%d, when: \"state.n >= 0\"}\n  - {from: n%d, to: done}\n", i, i+1, i)
	}
	fmt.Fprintf(&body, "  - {from: n%d, to: done, set: {result: ok}}\n", nodes-1)
	src := strings.Replace(header, "entry: a", "entry: n0", 1) + "nodes:\n" + body.String()
	script := map[string]action{}
	for i := range nodes {
		script[fmt.Sprint("n", i)] = counts
	}
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, script)
		id := w.begin(src)
		run, lease := w.claim(id)
		eng := w.engine()
		b.StartTimer()
		if _, err := eng.Walk(b.Context(), run, lease); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
}
