package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var propSeed = flag.Uint64("prop.seed", 1, "first seed of the generated flows")

func propKinds() []string {
	return []string{"gate", "loop", "loop", "wait", "approval", "command", "fanout", "subflow", "cache"}
}

// generated is the flow of a seed.
func generated(seed uint64, crash bool) *propFlow {
	g := propGen{rnd: rand.New(rand.NewPCG(seed, 7)), crash: crash, kinds: propKinds(), depth: 2}
	most := 9
	if crash {
		most = 5
	}
	return g.flow("f", most)
}

// propDiff tells how what a run came to differs from what it must.
func propDiff(want, got *propEnd) string { return cmp.Diff(want.text(), got.text()) }

// text is what a run and its children came to, a line a fact.
func (e *propEnd) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "result %s %s\nstate %s\n", e.Result, e.Code, e.State.text())
	for _, v := range e.Path {
		fmt.Fprintf(&b, "%s/%d %s -> %s\n", v.Node, v.Visit, v.Outcome, v.Next)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Children)) {
		fmt.Fprintf(&b, "child %s:\n%s", key, e.Children[key].text())
	}
	return b.String()
}

// eachFlow plays n generated flows on as many goroutines as there are
// processors.
func eachFlow(t *testing.T, n int, crash bool, play func(t *testing.T, seed uint64, f *propFlow)) {
	t.Helper()
	const shards = 4
	t.Logf("seeds %d to %d", *propSeed, *propSeed+uint64(n)-1)
	for shard := range shards {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < n; i += shards {
				seed := *propSeed + uint64(i)
				f := generated(seed, crash)
				play(t, seed, f)
				if t.Failed() {
					t.Fatalf("seed %d is this flow:\n%s", seed, f.yaml())
				}
			}
		})
	}
}

// Random flows of every kind of node come to what a plain interpreter says:
// the same end, state and path, each action called as often as it must be.
//
// Covers: HF1, HF4, HF5, HF6, CN10, CN13, CN14, CN19, VK6, VK19, AR6, BL2, BL7,
// BL30, NX1, NX15.
func TestFlowsMeanWhatTheInterpreterSays(t *testing.T) {
	t.Parallel()
	n := 10_000
	switch {
	case testing.Short():
		n = 500
	case propRace:
		n = 1500
	}
	eachFlow(t, n, false, func(t *testing.T, _ uint64, f *propFlow) {
		want, w := f.interpret(f.input, nil), newPropWorld(t, f)
		loaded, err := w.load()
		if err != nil {
			t.Error(err)
			return
		}
		got, err := w.play(loaded, 0, false)
		if err != nil {
			t.Error(err)
			return
		}
		if diff := propDiff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.allCalls(), got.callsLike(want)); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if bad := append(w.seen.complaints(), w.doubled()...); len(bad) > 0 {
			t.Error(bad)
		}
		if err := w.forks(want); err != nil {
			t.Error(err)
		}
		if want.Spent >= 0 && want.Spent != got.Spent {
			t.Errorf("it spent %d tokens, must be %d", got.Spent, want.Spent)
		}
	})
}

// Wherever the process dies, at any commit and any other call of the store,
// before or after the call takes effect: another process brings the run to
// the same end, state and path, and runs nothing that was completed.
//
// Covers: CN20, CN21, CN23, CN25, CN28, VK22, AR13, BL2, BL7, BL11, BL23, NX5.
func TestFlowsMeanTheSameOverCrashes(t *testing.T) {
	t.Parallel()
	var plays, deaths atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d deaths in %d plays", deaths.Load(), plays.Load())
		if deaths.Load() < plays.Load()*9/10 {
			t.Error("most plays were meant to have a death")
		}
	})
	n := 500
	switch {
	case testing.Short():
		n = 20
	case propRace:
		n = 40
	}
	eachFlow(t, n, true, func(t *testing.T, _ uint64, f *propFlow) {
		want, w := f.interpret(f.input, nil), newPropWorld(t, f)
		loaded, err := w.load()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.play(loaded, 0, false); err != nil {
			t.Error(err)
			return
		}
		same := func(at int, after, again bool) bool {
			w.reset()
			w.again = again
			got, err := w.play(loaded, at, after)
			plays.Add(1)
			deaths.Add(w.deaths)
			bad, diff := append(w.seen.complaints(), w.doubled()...), ""
			if err == nil {
				diff = propDiff(want, got)
			}
			if err != nil || diff != "" || len(bad) > 0 {
				t.Errorf("death at call %d, after it: %t, again and again: %t: %v %v (-want +got):\n%s", at, after, again, err, bad, diff)
				return false
			}
			return true
		}
		for i, writes := range slices.Clone(w.store.calls) {
			if !same(i+1, false, false) || writes && !same(i+1, true, false) { // a read that took effect is one that did not
				return
			}
		}
		same(1, false, true)
	})
}

// The generator reaches every kind of node with every outcome, and every way
// in which a run can end; a fanout that is not entered has a test of its own.
func TestGeneratorReachesEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var look func(f *propFlow, e *propEnd)
	look = func(f *propFlow, e *propEnd) {
		seen[strings.TrimSpace(e.Result+" "+e.Code)] = true
		for _, v := range e.Path {
			if v.Node != propSink {
				seen[f.node(v.Node).kind+" "+v.Outcome] = true
			}
		}
		for key, c := range e.Children {
			name, _, _ := strings.Cut(key, ":")
			look(f.children[name], c)
		}
	}
	for seed := range uint64(3000) {
		f := generated(seed, false)
		look(f, f.interpret(f.input, nil))
	}
	for _, want := range []string{
		"ok", "late", "ok early", "needs_human budget",
		"error bad-event", "error budget", "error child-failed", "error denied", "error failed", "error guard", "error invalid-state",
		"error max-steps", "error no-result", "error no-route", "error outcome-unknown", "error panic", "error timeout",
		"step ok", "step failed", "step denied", "step timeout", "step budget-exhausted", "gate ok", "gate failed", "gate denied", "gate timeout",
		"loop ok", "loop exhausted", "wait ok", "wait skipped", "wait failed", "wait denied", "wait timeout", "wait exhausted",
		"approval ok", "approval skipped", "approval denied", "approval timeout", "approval exhausted",
		"command ok", "command failed", "command timeout", "command budget-exhausted",
		"fanout ok", "fanout failed", "merge ok", "merge failed", "subflow ok", "subflow failed",
	} {
		if !seen[want] {
			t.Errorf("no flow came to %q", want)
		}
	}
}
