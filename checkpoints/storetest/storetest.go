// Package storetest is the suite that every driver of checkpoints.Store
// passes, and a wrapper that makes a store fail on demand.
//
// A driver's test is five lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clk *clock.Fake, enqueue func(queue.Token)) checkpoints.Store {
//			return memory.New(memory.Options{Clock: clk, Enqueue: enqueue})
//		})
//	}
//
// It must not know any driver. It imports testing and go-cmp, checkpoints,
// internal/clock and internal/queue.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// New opens an empty store that tells the time by clk and hands every token
// of a successful call to enqueue before that call returns. It registers its
// own cleaning up with t.
type New func(t *testing.T, clk *clock.Fake, enqueue func(queue.Token)) checkpoints.Store

// ttl is the lease of the suite's claims.
const ttl = time.Minute

// Run runs the suite. Each case has a store of its own and runs in parallel.
func Run(t *testing.T, open New) {
	t.Helper()
	for name, cases := range map[string]map[string]func(*fixture){
		"Start": startCases(), "Lease": leaseCases(), "Fence": fenceCases(),
		"Progress": progressCases(), "Finish": finishCases(), "Event": eventCases(),
		"Sweep": sweepCases(), "Cancel": cancelCases(), "List": listCases(),
		"Prune": pruneCases(), "Ledger": ledgerCases(), "Effect": effectCases(),
		"Stop": stopCases(), "Inbox": inboxCases(), "Context": contextCases(),
		"Concurrency": concurrencyCases(), "Child": childCases(), "Record": recordCases(), "Retention": retentionCases(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, run := range cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(newFixture(t, open))
				})
			}
		})
	}
}

// fixture is one store under test with the words the cases are written in.
type fixture struct {
	*testing.T
	ctx context.Context //nolint:containedctx // the life of one test
	checkpoints.Store
	clk *clock.Fake

	mu     sync.Mutex
	tokens []queue.Token
}

func newFixture(t *testing.T, open New) *fixture {
	t.Helper()
	f := &fixture{
		T: t, ctx: t.Context(),
		clk: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)),
	}
	f.Store = open(t, f.clk, func(tok queue.Token) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, tok)
	})
	return f
}

// taken returns the tokens given out since the last call.
func (f *fixture) taken() []queue.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.tokens
	f.tokens = nil
	return out
}

// ok fails the test at once on an error.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

// is fails the test unless err is want.
func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error: got %v, want %v", err, want)
	}
}

// refused fails the test unless there is an error.
func (f *fixture) refused(err error) {
	f.Helper()
	if err == nil {
		f.Fatal("no error")
	}
}

// same fails the test when got differs from want.
func (f *fixture) same(got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("(-want +got):\n%s", diff)
	}
}

// tokenFor fails the test unless exactly one token, for r at its epoch, was
// given out since the last look.
func (f *fixture) tokenFor(r checkpoints.Run) {
	f.Helper()
	f.same(f.taken(), []queue.Token{{Kind: queue.Run, ID: r.ID, Epoch: r.Epoch}})
}

func (f *fixture) noToken() {
	f.Helper()
	f.same(f.taken(), []queue.Token(nil))
}

func req(key string) checkpoints.StartReq {
	return checkpoints.StartReq{Key: key, Repo: "acme/widgets", Issue: 7, Phase: "triage", Flow: "triage", Entry: "a"}
}

// start creates a run and takes its token.
func (f *fixture) start(key string) checkpoints.Run {
	f.Helper()
	r, err := f.Start(f.ctx, req(key))
	f.ok(err)
	f.tokenFor(r)
	return r
}

// get reads a run anew.
func (f *fixture) get(id string) checkpoints.Run {
	f.Helper()
	r, err := f.Get(f.ctx, id)
	f.ok(err)
	return r
}

func (f *fixture) claim(r checkpoints.Run) (checkpoints.Run, checkpoints.Lease) {
	f.Helper()
	r, l, err := f.Claim(f.ctx, r.ID, r.Epoch, "worker-1", ttl)
	f.ok(err)
	return r, l
}

// claimed starts and claims a run.
func (f *fixture) claimed(key string) (checkpoints.Run, checkpoints.Lease) {
	f.Helper()
	return f.claim(f.start(key))
}

// step is a commit of node with seq that goes to next.
func step(seq int64, node, next string) checkpoints.Commit {
	return checkpoints.Commit{
		Record: checkpoints.NodeRecord{Node: node, Kind: "step", Visit: 1, Attempt: 1, Outcome: "ok"},
		Seq:    seq, Next: next,
		State:  json.RawMessage(fmt.Sprintf(`{"at":%q}`, node)),
		Visits: map[string]int{node: 1},
	}
}

// parked is a commit that parks at next.
func parked(seq int64, node, next string, w checkpoints.Wait) checkpoints.Commit {
	c := step(seq, node, next)
	c.Park = &w
	return c
}

var ended = checkpoints.Ended{Result: "triaged", Code: "ok", Reason: "all is well"}

// waiting is a run that waits at node b for an approval until a deadline;
// zero is none.
func (f *fixture) waiting(key string, until time.Time) checkpoints.Run {
	f.Helper()
	r, l := f.claimed(key)
	f.ok(f.Commit(f.ctx, l, parked(1, "a", "b", checkpoints.Wait{
		Node: "b", Event: "approval", Since: f.clk.Now(), Until: until, Why: "a maintainer must approve",
	})))
	return f.get(r.ID)
}

// final is a run that is done.
func (f *fixture) final(key string) checkpoints.Run {
	f.Helper()
	r, l := f.claimed(key)
	f.ok(f.End(f.ctx, l, ended))
	_, err := f.Finish(f.ctx, l, checkpoints.Done, nil)
	f.ok(err)
	return f.get(r.ID)
}

func event(key string) checkpoints.Event {
	return checkpoints.Event{Key: key, Kind: "approval", Data: json.RawMessage(`{"by":"ann"}`)}
}
