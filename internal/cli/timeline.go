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
	mu    sync.Mutex // guards the output and runs
	runs  []checkpoints.Run
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
	if ev.Stage != "end" && !t.json {
		return
	}
	t.say(map[string]any{"event": "node", "node": ev}, "%s  %-9s  %-14s  %-16s %8s %8d %9s  %s\n",
		t.since(), ev.Phase, ev.Node, ev.Outcome, took(ev.Took), ev.Usage.Tokens(), dollars(ev.Usage.MicroUSD), firstLine(ev.Note))
}

// RunEnded implements app.Observer.
func (t *timeline) RunEnded(run checkpoints.Run, status checkpoints.Status) {
	t.mu.Lock()
	t.runs = append(t.runs, run)
	t.mu.Unlock()
	t.say(map[string]any{"event": "phase", "phase": run.Phase, "result": run.Result, "status": status, "reason": run.Reason},
		"%s  %-9s  → %s\n", t.since(), run.Phase, run.Result)
}
