package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

func levels() []sqlite.Synchronous { return []sqlite.Synchronous{sqlite.Full, sqlite.Normal} }

// BenchmarkSequence is runs of ten nodes with 2 KB of state, one after the
// other, a durable checkpoint a node: the floor of the driver, ours, and the
// peer.
func BenchmarkSequence(b *testing.B) {
	for _, level := range levels() {
		for _, m := range []mode{rewritten, kept} {
			at := fmt.Sprintf("%s/%s/", level, m)
			b.Run(at+"floor", func(b *testing.B) { floor(b, level, m) })
			b.Run(at+"pipelinebot", func(b *testing.B) { sequence(b, level, m) })
			b.Run(at+"langgraph", func(b *testing.B) { peerSequence(b, level, m) })
		}
	}
}

// sequence reports nodes a second from the start of a run to its end, and
// checkpoints a second while it is walked, the sink's included.
func sequence(b *testing.B, level sqlite.Synchronous, m mode) {
	s := newStage(b, file(b), level)
	f := s.load(chain(nodes, m))
	var walking, whole time.Duration
	var commits, runs int
	turn := func(key string) {
		began := time.Now()
		req, err := request(s.eng, f, key)
		if err != nil {
			b.Fatal(err)
		}
		c, err := s.claim(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		walked := time.Now()
		out, err := s.walk(b.Context(), c, engine.Ended)
		if err != nil {
			b.Fatal(err)
		}
		walking += time.Since(walked)
		if _, err := s.store.Finish(b.Context(), c.lease, checkpoints.Done, nil); err != nil {
			b.Fatal(err)
		}
		whole += time.Since(began)
		commits += len(out.Path)
		runs++
	}
	for i := range warm {
		turn(fmt.Sprint("warm", i))
	}
	walking, whole, commits, runs = 0, 0, 0, 0
	before := s.size()
	for b.Loop() {
		turn(fmt.Sprint("run", runs))
	}
	if commits != runs*(nodes+1) {
		b.Fatalf("%d checkpoints in %d runs", commits, runs)
	}
	b.ReportMetric(float64(runs*nodes)/whole.Seconds(), "nodes/s")
	b.ReportMetric(float64(commits)/walking.Seconds(), "checkpoints/s")
	b.ReportMetric(float64(s.size()-before)/float64(runs*nodes), "disk-B/node")
}

// warm is how many runs go before what is measured.
const warm = 5

// peerSequence is the same in the peer, in batches, as its own clock says.
func peerSequence(b *testing.B, level sqlite.Synchronous, m mode) {
	p := startPeer(b, level)
	const batch = 10
	command := fmt.Sprintf("chain %d %d %d %s", nodes, bytes, batch, m)
	for range warm { // its compiler needs more of it than ours
		p.ask(command)
	}
	var sum peerAnswer
	for b.Loop() {
		a := p.ask(command)
		sum.Nodes, sum.NS, sum.Bytes = sum.Nodes+a.Nodes, sum.NS+a.NS, sum.Bytes+a.Bytes
	}
	b.ReportMetric(float64(sum.Nodes)/time.Duration(sum.NS).Seconds(), "nodes/s")
	b.ReportMetric(float64(sum.Bytes)/float64(sum.Nodes), "disk-B/node")
}
