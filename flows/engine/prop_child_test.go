package engine_test

import (
	"maps"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

func (w *propWorld) child(checkpoints.Run, string) error { return nil }
func (w *propWorld) grown(string, *propEnd) error        { return nil }

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
