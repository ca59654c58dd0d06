package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/sqlite"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

func levels() []sqlite.Synchronous { return []sqlite.Synchronous{sqlite.Full, sqlite.Normal} }

const (
	// batch is how many runs of one kind are made before the next kind's turn.
	batch = 10
	// warm is how many turns go before what is measured; the peer's compiler
	// needs the most.
	warm = 5
)

// BenchmarkSequence is runs of ten nodes with 2 KB of state, one after the
// other, a durable checkpoint a node: the driver's floor, ours, and the peer.
// They take turns, so that whatever else the machine and its disk do slows down
// all alike.
func BenchmarkSequence(b *testing.B) {
	for _, level := range levels() {
		for _, m := range []mode{rewritten, kept} {
			b.Run(fmt.Sprintf("%s/%s", level, m), func(b *testing.B) { sequence(b, level, m) })
		}
	}
}

func sequence(b *testing.B, level sqlite.Synchronous, m mode) {
	low, own := newFloor(b, level, m), newOwn(b, level, m)
	p, err := startPeer(b, level)
	if err != nil {
		b.Logf("without the peer: %v", err)
	}
	command := fmt.Sprintf("chain %d %d %d %s", nodes, bytes, batch, m)
	var peer peerAnswer
	turn := func() {
		for range batch {
			low.run()
		}
		for range batch {
			own.run()
		}
		if p != nil {
			peer.add(p.ask(command))
		}
	}
	for range warm {
		turn()
	}
	low.reset()
	own.reset()
	peer = peerAnswer{}
	before := own.size()
	for b.Loop() {
		turn()
	}
	b.ReportMetric(float64(low.commits)/low.spent.Seconds(), "floor-checkpoints/s")
	b.ReportMetric(float64(own.commits)/own.walking.Seconds(), "checkpoints/s")
	b.ReportMetric(float64(own.runs*nodes)/own.whole.Seconds(), "nodes/s")
	b.ReportMetric(float64(own.size()-before)/float64(own.runs*nodes), "disk-B/node")
	if p != nil {
		b.ReportMetric(float64(peer.Nodes)/time.Duration(peer.NS).Seconds(), "peer-nodes/s")
		b.ReportMetric(float64(peer.Bytes)/float64(peer.Nodes), "peer-disk-B/node")
	}
}

// own is ours.
type own struct {
	*stage
	flow *flows.Flow
	name int // the next run's
	// whole is from the start of a run to its end, walking the part of it in
	// which the run is walked. The sink's checkpoint is among the commits.
	whole, walking time.Duration
	runs, commits  int
}

func newOwn(b *testing.B, level sqlite.Synchronous, m mode) *own {
	s := newStage(b, file(b), level)
	return &own{stage: s, flow: s.load(chain(nodes, m))}
}

func (o *own) reset() { o.whole, o.walking, o.runs, o.commits = 0, 0, 0, 0 }

func (o *own) run() {
	o.tb.Helper()
	ctx := o.tb.Context()
	o.name++
	began := time.Now()
	req, err := request(o.eng, o.flow, fmt.Sprint("run", o.name))
	if err != nil {
		o.tb.Fatal(err)
	}
	c, err := o.claim(ctx, req)
	if err != nil {
		o.tb.Fatal(err)
	}
	walked := time.Now()
	out, err := o.walk(ctx, c, engine.Ended)
	if err != nil {
		o.tb.Fatal(err)
	}
	o.walking += time.Since(walked)
	if _, err := o.store.Finish(ctx, c.lease, checkpoints.Done, nil); err != nil {
		o.tb.Fatal(err)
	}
	o.whole += time.Since(began)
	if len(out.Path) != nodes+1 {
		o.tb.Fatalf("%d checkpoints in a run", len(out.Path))
	}
	o.runs, o.commits = o.runs+1, o.commits+len(out.Path)
}
