package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// child brings a child to its end and tells its parent, as a worker does.
func (w *propWorld) child(id string) error {
	ctx := w.t.Context()
	for range 10 {
		if err := w.drive(id); err != nil {
			return err
		}
		run, err := w.inner.Get(ctx, id)
		if err != nil || run.Status.Final() {
			return err
		}
		if run.Owner != "" {
			w.clock.Advance(2 * propLease)
		}
		run, lease, err := w.inner.Claim(ctx, id, run.Epoch, "worker", propLease)
		if err != nil {
			return fmt.Errorf("claiming child %s: %w", id, err)
		}
		if err := w.engine().ChildEnded(ctx, run); errors.Is(err, errKilled) {
			w.restarts()
			continue
		} else if err != nil {
			return err
		}
		final := checkpoints.Done
		if run.Result == "error" {
			final = checkpoints.Failed
		}
		_, err = w.inner.Finish(ctx, lease, final, nil)
		return err
	}
	return fmt.Errorf("child %s is not finished", id)
}

// grown adds what became of a run's children, those that nobody waits for
// among them.
func (w *propWorld) grown(id string, end *propEnd) error {
	children, err := w.inner.List(w.t.Context(), checkpoints.Filter{Parent: id})
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := w.child(c.ID); err != nil {
			return err
		}
		key := strings.TrimPrefix(c.Key, id+":")
		if end.Children[key], err = w.outcome(c.ID); err != nil {
			return err
		}
	}
	return nil
}

// forks begins again from a node in the middle of the run, and checks that
// the state is the one with which the node was entered last.
func (w *propWorld) forks(want *propEnd) error {
	run, err := w.inner.Get(w.t.Context(), w.root)
	if err != nil {
		return err
	}
	for _, v := range want.Path[len(want.Path)/2:] {
		if v.Node == propSink || w.flow.node(v.Node).kind == "merge" {
			continue
		}
		req, err := w.engine().Fork(w.t.Context(), run, v.Node, nil)
		if err != nil {
			return err
		}
		got, err := stated(req.State)
		if err != nil {
			return err
		}
		if from := want.Entered[v.Node]; req.Entry != v.Node || got.text() != from.text() {
			return fmt.Errorf("forked from %s: entry %s, state %s, must be %s", v.Node, req.Entry, got.text(), from.text())
		}
		return nil
	}
	return nil
}

// allCalls are the calls of a run and of its children.
func (e *propEnd) allCalls() map[string]int {
	all := maps.Clone(e.Calls)
	for _, c := range e.Children {
		for key, n := range c.allCalls() {
			all[key] += n
		}
	}
	return all
}

// callsLike are allCalls without those of branches that need not be made:
// when their fanout fails they may be cancelled before they begin.
func (e *propEnd) callsLike(want *propEnd) map[string]int {
	must, calls := want.allCalls(), e.allCalls()
	maps.DeleteFunc(calls, func(key string, _ int) bool {
		node, _, _ := strings.Cut(key, "/")
		return strings.Contains(node, "_b") && must[key] == 0
	})
	return calls
}
