package bench_test

import (
	"encoding/json"
	"testing"

	"github.com/pipelinebot/pipelinebot/flows"
)

// BenchmarkLoad reads and validates a flow of 200 nodes, its sink included, each
// with a guard.
func BenchmarkLoad(b *testing.B) {
	reg, err := registry()
	if err != nil {
		b.Fatal(err)
	}
	src := []byte(chain(199, rewritten))
	for b.Loop() {
		if _, problems := flows.Load("bench.yaml", src, reg); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/load")
}

// BenchmarkGuard evaluates a guard over 2 KB of state.
func BenchmarkGuard(b *testing.B) {
	reg, err := registry()
	if err != nil {
		b.Fatal(err)
	}
	f, problems := flows.Load("bench.yaml", []byte(chain(nodes, rewritten)), reg)
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	state, err := f.Initial(flows.State{})
	if err != nil {
		b.Fatal(err)
	}
	state = state.With(map[string]json.RawMessage{"payload": json.RawMessage(`"` + text(bytes, 1) + `"`)})
	guard := f.Out("n0")[0].When
	env := flows.GuardEnv{State: state, Outcome: flows.OK, Visits: map[string]int{"n0": 1}}
	for b.Loop() {
		if ok, err := guard.Eval(env); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/guard")
}
