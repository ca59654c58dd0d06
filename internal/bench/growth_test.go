package bench_test

import (
	"fmt"
	"testing"

	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// BenchmarkGrowth is a loop of 1,000 visits over 2 KB of state, in which a
// visit counts: what the first and the second half add to the file. Storing
// the history with each checkpoint, or the whole state, shows here.
func BenchmarkGrowth(b *testing.B) {
	const visits = 1000
	// A file grows by whole pages, which count where visits are small.
	const alike = 5
	for _, m := range []mode{kept, rewritten} {
		b.Run(string(m)+"/pipelinebot", func(b *testing.B) {
			s := newStage(b, file(b), sqlite.Normal)
			grow := func(visits int, key string) float64 {
				before := s.size()
				for i := range alike {
					req, err := request(s.eng, s.load(circle(visits, m)), fmt.Sprint(key, "/", i))
					if err != nil {
						b.Fatal(err)
					}
					c, err := s.claim(b.Context(), req)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.walk(b.Context(), c, engine.Ended); err != nil {
						b.Fatal(err)
					}
				}
				return float64(s.size()-before) / alike
			}
			report(b, visits, func(i int) (half, whole float64) {
				return grow(visits/2, fmt.Sprint("half", i)), grow(visits, fmt.Sprint("whole", i))
			})
		})
		b.Run(string(m)+"/langgraph", func(b *testing.B) {
			p, err := startPeer(b, sqlite.Normal)
			if err != nil {
				b.Skipf("without the peer: %v", err)
			}
			grow := func(visits int) float64 {
				return float64(p.ask(fmt.Sprintf("loop %d %d %s", visits, bytes, m)).Bytes)
			}
			report(b, visits, func(int) (half, whole float64) { return grow(visits / 2), grow(visits) })
		})
	}
}

// report says how many bytes a visit costs, and what a visit of the second
// half costs of one of the first: 1 is linear.
func report(b *testing.B, visits int, grow func(i int) (half, whole float64)) {
	var first, all float64
	runs := 0
	for b.Loop() {
		half, whole := grow(runs)
		first, all = first+half, all+whole
		runs++
	}
	b.ReportMetric(all/float64(runs*visits), "disk-B/visit")
	b.ReportMetric((all-first)/first, "second/first-half")
}
