package turns_test

import (
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/internal/turns"
)

// One caller of a key is let through at a time, whatever the case.
func TestTurns(t *testing.T) {
	t.Parallel()
	var queue turns.Turns
	n := 0 // guarded by the turns alone: the race detector would tell
	var group sync.WaitGroup
	for i := range 100 {
		key := "Acme/Widgets#7"
		if i%2 == 0 {
			key = "acme/widgets#7"
		}
		group.Go(func() {
			defer queue.Take(key)()
			n++
		})
	}
	group.Wait()
	if n != 100 {
		t.Errorf("%d got through", n)
	}
	held := queue.Take("a")
	queue.Take("b")() // another key does not wait
	held()
}
