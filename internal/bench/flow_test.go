package bench_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

const header = `
apiVersion: flows/v1
name: bench
phase: bench
entry: n0
sink: done
limits: {max_steps: 5000}
state:
  n: {type: int, default: 0}
  payload: {type: string, default: "", max_len: 4096, input: true}
  result: {type: enum, values: [none, ok], default: none}
`

// chain is count nodes in a row, each behind a guard, and the sink.
func chain(count int, m mode) string {
	var b strings.Builder
	b.WriteString(header + "nodes:\n")
	for i := range count {
		fmt.Fprintf(&b, "  - {id: n%d, kind: step, uses: bench.%s, in: [n], writes: [n, payload]}\n", i, m)
	}
	b.WriteString("  - {id: done, kind: sink}\nedges:\n")
	for i := range count - 1 {
		fmt.Fprintf(&b, "  - {from: n%d, to: n%d, when: \"state.n >= 0\"}\n  - {from: n%d, to: done}\n", i, i+1, i)
	}
	fmt.Fprintf(&b, "  - {from: n%d, to: done, set: {result: ok}}\n", count-1)
	return b.String()
}

// circle visits its body visits times.
func circle(visits int, m mode) string {
	return header + fmt.Sprintf(`
nodes:
  - {id: n0, kind: step, uses: bench.%s, in: [n], writes: [n, payload]}
  - {id: again, kind: loop, back_to: n0, max: %d}
  - {id: done, kind: sink}
edges:
  - {from: n0, to: again}
  - {from: again, to: n0}
  - {from: again, to: done, on: [exhausted], set: {result: ok}}
`, m, visits-1)
}

// parking waits for a person, then works once.
const parking = header + `
nodes:
  - {id: n0, kind: wait, event: go, expires: 720h, on_expire: timeout}
  - {id: work, kind: step, uses: bench.kept, in: [n], writes: [n, payload]}
  - {id: done, kind: sink}
edges:
  - {from: n0, to: work}
  - {from: n0, to: done, on: [timeout], set: {result: ok}}
  - {from: work, to: done, set: {result: ok}}
`

// request freezes a flow with 2 KB of state.
func request(eng *engine.Engine, f *flows.Flow, key string) (checkpoints.StartReq, error) {
	input, err := flows.StateOf(map[string]any{"payload": text(bytes, 0)})
	if err != nil {
		return checkpoints.StartReq{}, err
	}
	return eng.Freeze(f, checkpoints.StartReq{Key: key, Repo: "acme/widgets", Issue: 7}, input)
}

// claimed is a run about to be walked.
type claimed struct {
	run   checkpoints.Run
	lease checkpoints.Lease
}

func (s *stage) claim(ctx context.Context, req checkpoints.StartReq) (claimed, error) {
	run, err := s.store.Start(ctx, req)
	if err != nil {
		return claimed{}, err
	}
	run, lease, err := s.store.Claim(ctx, run.ID, run.Epoch, "bench", time.Hour)
	return claimed{run, lease}, err
}

// walk walks a run to its end, of which want is the way.
func (s *stage) walk(ctx context.Context, c claimed, want string) (engine.Outcome, error) {
	out, err := s.eng.Walk(ctx, c.run, c.lease)
	switch {
	case err != nil:
		return out, err
	case out.How != want:
		return out, fmt.Errorf("the run is %s, want %s: %s %w", out.How, want, out.Reason, out.Err)
	}
	return out, nil
}
