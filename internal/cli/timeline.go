package cli

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/mockworld/scenario"
)

// timeline prints what people and the bot do, as it happens. It is an
// app.Observer, and safe for concurrent use.
type timeline struct {
	*shell
	began time.Time
	mu    sync.Mutex // guards the output and what follows
	runs  []checkpoints.Run
	slow  map[string]*time.Timer // by run and node: says that it is still at work
}

// say prints a line for people or an event as JSON.
func (t *timeline) say(v map[string]any, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.json {
		v["t"] = time.Since(t.began).Seconds()
		t.emit(v)
		return
	}
	fmt.Fprintf(t.Out, format, args...)
}

func (t *timeline) since() string { return fmt.Sprintf("%6.1fs", time.Since(t.began).Seconds()) }

// ended is the phases that ended, in order.
func (t *timeline) ended() []checkpoints.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.runs)
}

func (t *timeline) sandbox(name string) {
	t.say(map[string]any{"event": "sandbox", "name": name}, "sandbox: %s\n\n%7s  %-9s  %-14s  %-16s %8s %8s %9s  %s\n",
		name, "time", "phase", "node", "outcome", "took", "tokens", "cost", "note")
}

// world shows what people do; what the bot does is shown by its nodes.
func (t *timeline) world(e scenario.Event) {
	if e.Kind == "step" {
		t.say(map[string]any{"event": "world", "text": e.Text}, "%s  %-9s  %s\n", t.since(), "people", e.Text)
	}
}

// Node implements app.Observer.
func (t *timeline) Node(ev app.NodeEvent) {
	if !t.json && !t.awaited(ev) {
		return
	}
	t.say(map[string]any{"event": "node", "node": ev}, "%s  %-9s  %-14s  %-16s %8s %8d %9s  %s\n",
		t.since(), ev.Phase, ev.Node, ev.Outcome, took(ev.Took), ev.Usage.Tokens(), dollars(ev.Usage.MicroUSD), firstLine(ev.Note))
}

// slowNode is how long a node is silent before a line says that it works.
const slowNode = 3 * time.Second

// awaited reports that a node has ended; of one that takes long it says so
// meanwhile.
func (t *timeline) awaited(ev app.NodeEvent) bool {
	key := ev.Run + "/" + ev.Node
	t.mu.Lock()
	defer t.mu.Unlock()
	switch ev.Stage {
	case "start":
		if t.slow == nil {
			t.slow = map[string]*time.Timer{}
		}
		t.slow[key] = time.AfterFunc(slowNode, func() {
			t.say(nil, "%s  %-9s  %-14s  at work%s\n", t.since(), ev.Phase, ev.Node, firstTime(ev.Node))
		})
	case "end":
		if timer := t.slow[key]; timer != nil {
			timer.Stop()
			delete(t.slow, key)
		}
		return true
	}
	return false
}

// firstTime explains the one long wait of a cold machine.
func firstTime(node string) string {
	if node == "baseline" {
		return ": the first test run compiles Go's library inside the sandbox"
	}
	return ""
}

// RunEnded implements app.Observer.
func (t *timeline) RunEnded(run checkpoints.Run, status checkpoints.Status) {
	t.mu.Lock()
	t.runs = append(t.runs, run)
	t.mu.Unlock()
	t.say(map[string]any{"event": "phase", "phase": run.Phase, "result": run.Result, "status": status, "reason": run.Reason},
		"%s  %-9s  → %s\n", t.since(), run.Phase, run.Result)
}
