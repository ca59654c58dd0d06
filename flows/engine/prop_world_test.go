package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// quick is a clock on which short timers fire at once and long ones never:
// pauses between attempts take no time, and nothing times out. Nor is an
// action that was cancelled left behind: it would go on after its process.
type quick struct{ *clock.Fake }

func (q quick) NewTimer(d time.Duration) clock.Timer {
	if d <= 30*time.Second && d != engine.Grace {
		return q.Fake.NewTimer(0)
	}
	return noTimer{}
}

const propLease = time.Minute

// propWorld plays a generated flow: what its actions do, what comes from
// outside, and a store that may die.
type propWorld struct {
	t     testing.TB
	flow  *propFlow
	nodes map[string]*propNode // of all flows, branches too
	flows map[string]*propFlow // by name
	clock *clock.Fake
	inner *memory.Store
	store *killer
	reg   *flows.Registry
	eng   *engine.Engine
	seen  *completions

	mu     sync.Mutex
	calls  map[string]int // by run/node/visit
	came   map[string]int // events delivered by run/node/visit
	halted map[string]bool
	marks  map[string]int // what was done outside, by key
	root   string         // the run that was played
	deaths int64
	again  bool // every process dies, each one call later than the one before
}

func newPropWorld(t testing.TB, f *propFlow) *propWorld {
	w := &propWorld{
		t: t, flow: f, nodes: map[string]*propNode{}, flows: map[string]*propFlow{}, clock: clock.NewFake(start()), reg: &flows.Registry{},
	}
	w.add(f)
	w.store = &killer{commit: w.committed, branch: w.joined}
	w.reset()
	anything := func(json.RawMessage) error { return nil }
	denied := []flows.Outcome{flows.Denied}
	for _, a := range []flows.Action{
		{Name: "p.step", Version: "1", Run: w.act, CheckWith: anything, Outcomes: denied},
		{Name: "p.read", Version: "1", Run: w.act, CheckWith: anything, Outcomes: denied, ReadOnly: true},
		{Name: "p.effect", Version: "1", Run: w.effect, CheckWith: anything, Outcomes: denied, Effects: true},
		{Name: "p.gate", Version: "1", Run: w.act, Outcomes: denied, ReadOnly: true},
		{Name: "p.last", Version: "1", Run: func(context.Context, flows.Call) (flows.Result, error) { return flows.Result{}, nil }},
		{Name: "command.run", Version: "1", Run: w.command, CheckWith: anything, Outcomes: []flows.Outcome{flows.Failed, flows.Timeout}},
	} {
		if err := w.reg.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// reset forgets everything that was played.
func (w *propWorld) reset() {
	w.inner = memory.New(memory.Options{Clock: w.clock})
	w.store.revive(w.inner)
	w.deaths, w.again = 0, false
	w.calls, w.came, w.halted, w.marks, w.seen = map[string]int{}, map[string]int{}, map[string]bool{}, map[string]int{}, &completions{done: map[string]bool{}}
}

// restarts puts another process in the place of one that has died.
func (w *propWorld) restarts() {
	w.store.revive(w.inner)
	w.eng = nil
	w.deaths++
	if w.again {
		w.store.at, w.store.after = int(w.deaths)+1, w.deaths%2 == 0
	}
}

func (w *propWorld) add(f *propFlow) {
	w.flows[f.name] = f
	for _, n := range f.nodes {
		w.nodes[n.id] = n
		for _, b := range n.branches {
			w.nodes[b.id] = b
		}
	}
	for _, c := range f.children {
		w.add(c)
	}
}

// committed notes a completed node.
func (w *propWorld) committed(run string, rec checkpoints.NodeRecord) {
	if rec.Outcome != string(flows.Skipped) {
		w.seen.acknowledged(fmt.Sprintf("%s/%s/%d", run, rec.Node, rec.Visit))
	}
}

// joined notes a finished branch.
func (w *propWorld) joined(run string, b checkpoints.BranchRecord) {
	w.seen.acknowledged(fmt.Sprintf("%s/%s/%d", run, b.Branch, b.Visit))
}

// called counts a call of an action.
func (w *propWorld) called(c flows.Call) int {
	key := fmt.Sprintf("%s/%s/%d", c.Run.ID, c.Node, c.Visit)
	w.seen.runs(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[key]++
	return w.calls[key]
}

func (w *propWorld) act(ctx context.Context, c flows.Call) (flows.Result, error) {
	n := w.nodes[c.Node]
	a, seen := n.act(c.Visit), propState{}
	for _, key := range c.In.Keys() {
		seen[key] = c.In.Int(key)
	}
	with, err := flows.With[map[string]string](c.With)
	if err != nil {
		return flows.Result{}, err
	}
	if w.called(c) <= a.again {
		return flows.Result{}, &flows.Retry{Cause: "transient", Err: errors.New("not now")}
	}
	for _, s := range a.spend {
		held, err := c.Meter.Reserve(ctx, flows.Usage{InputTokens: int64(s.estimate)})
		if err != nil {
			return flows.Result{}, err
		}
		if err := held.Settle(ctx, flows.Usage{OutputTokens: int64(s.used)}); err != nil {
			return flows.Result{}, err
		}
	}
	res := flows.Result{Delta: flows.Delta(a.delta(seen, with["echo"]))}
	switch a.end {
	case "failed":
		return flows.Result{}, errors.New("scripted failure")
	case "panic":
		panic("scripted panic")
	case "undeclared":
		res.Outcome = flows.Exhausted
	case "stop":
		res.Stop = &flows.Stop{Code: "early", Reason: "scripted stop"}
	case "denied", "timeout":
		res.Outcome = flows.Outcome(a.end)
	}
	return res, nil
}

// effect does something outside before anything else.
func (w *propWorld) effect(ctx context.Context, c flows.Call) (flows.Result, error) {
	mark := func(add int) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.marks[c.Key] += add
		return w.marks[c.Key]
	}
	_, err := c.Effects.Once(ctx, "mark",
		func(context.Context) (json.RawMessage, bool, error) { return json.RawMessage(`1`), mark(0) > 0, nil },
		func(context.Context) (json.RawMessage, error) { mark(1); return json.RawMessage(`1`), nil })
	if err != nil {
		return flows.Result{}, err
	}
	return w.act(ctx, c)
}

// doubled are the effects that were done more than once.
func (w *propWorld) doubled() (keys []string) {
	for key, n := range w.marks {
		if n > 1 {
			keys = append(keys, fmt.Sprintf("%s was done %d times", key, n))
		}
	}
	return keys
}

func (w *propWorld) command(_ context.Context, c flows.Call) (flows.Result, error) {
	a := w.nodes[c.Node].act(c.Visit)
	w.called(c)
	res := flows.Result{Delta: flows.Delta{"code": a.sets[0].lit}}
	switch a.end {
	case "failed":
		return flows.Result{}, errors.New("could not be started")
	case "timeout":
		return flows.Result{Outcome: flows.Timeout}, nil
	case "exit":
		res.Outcome, res.Note = flows.Failed, "exit"
	}
	return res, nil
}

// engine is the one of the process that lives now.
func (w *propWorld) engine() *engine.Engine {
	if w.eng == nil {
		w.eng = engine.New(engine.Options{Store: w.store, Registry: w.reg, Clock: quick{w.clock}, Hooks: engine.Hooks{KillSwitch: w.kills}})
	}
	return w.eng
}

// kills is on once before each of the flow's halts.
func (w *propWorld) kills(_ context.Context, r checkpoints.Run) (bool, string, error) {
	key := fmt.Sprint(r.ID, "/", r.Seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	on := slices.Contains(w.flows[r.Flow].halts, int(r.Seq)) && !w.halted[key]
	w.halted[key] = w.halted[key] || on
	return on, "scripted stop", nil
}

// load reads the flow as a file.
func (w *propWorld) load() (*flows.Flow, error) {
	f, problems := flows.Load(w.flow.name, []byte(w.flow.yaml()), w.reg)
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("a valid flow was refused: %w", err)
	}
	return f, nil
}

// play starts a run of the loaded flow, walks it to its end over everything that happens on the
// way, and says what it came to. at, when not 0, is the call of the store at
// which the process dies once.
func (w *propWorld) play(f *flows.Flow, at int, after bool) (*propEnd, error) {
	input := map[string]any{}
	for key, v := range w.flow.input {
		input[key] = v
	}
	given, err := flows.StateOf(input)
	if err != nil {
		return nil, err
	}
	req, err := w.engine().Freeze(f, checkpoints.StartReq{Key: "acme/widgets#7", Repo: "acme/widgets", Issue: 7}, given)
	if err != nil {
		return nil, err
	}
	run, err := w.inner.Start(w.t.Context(), req)
	if err != nil {
		return nil, err
	}
	w.root = run.ID
	for i, ev := range w.flow.early {
		if err := w.deliver(run.ID, fmt.Sprint("early/", i), ev); err != nil {
			return nil, err
		}
	}
	w.store.at, w.store.after = at, after
	if err := w.drive(run.ID); err != nil {
		return nil, err
	}
	return w.outcome(run.ID)
}

func (w *propWorld) deliver(id, key string, ev propEvent) error {
	data := map[string]any{"tag": ev.tag, "role": ev.role}
	if ev.outcome != "" {
		data["outcome"] = ev.outcome
	}
	if !ev.bare {
		data["n"], data["by"] = ev.n, ev.by
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = w.inner.Deliver(w.t.Context(), id, checkpoints.Event{Key: key, Kind: ev.kind, Data: raw})
	return err
}

// drive brings a run to its end: it is claimed whenever it can be, gets the
// events it waits for, and a walk that dies is followed by another process.
func (w *propWorld) drive(id string) error {
	ctx := w.t.Context()
	for range 1000 {
		run, err := w.inner.Get(ctx, id)
		if err != nil {
			return err
		}
		switch run.Status {
		case checkpoints.Ending, checkpoints.Done, checkpoints.Failed, checkpoints.Cancelled:
			return nil
		case checkpoints.Halted:
			err = w.inner.Wake(ctx, id)
		case checkpoints.Running:
			w.clock.Advance(2 * propLease)
		case checkpoints.Waiting:
			err = w.wake(run)
		case checkpoints.Ready, checkpoints.Queued:
		}
		if err != nil {
			return err
		}
		if err := w.walk(id); err != nil {
			return err
		}
	}
	return fmt.Errorf("run %s does not end", id)
}

// walk claims a run, if it can be claimed, and walks it.
func (w *propWorld) walk(id string) error {
	run, err := w.inner.Get(w.t.Context(), id)
	if err != nil {
		return err
	}
	run, lease, err := w.inner.Claim(w.t.Context(), id, run.Epoch, "worker", propLease)
	if err != nil {
		return fmt.Errorf("claiming run %s (%s): %w", id, run.Status, err)
	}
	if _, err = w.engine().Walk(w.t.Context(), run, lease); errors.Is(err, errKilled) {
		w.restarts()
		return nil
	}
	return err
}

// wake gives a waiting run what it waits for, or lets its deadline come.
func (w *propWorld) wake(run checkpoints.Run) error {
	n := w.nodes[run.Wait.Node]
	if strings.HasPrefix(run.Wait.Event, "child/") {
		return w.child(strings.TrimPrefix(run.Wait.Event, "child/"))
	}
	if run.Wait.Event != "" {
		visit := run.Visits[n.id] + 1
		coming, place := n.events[(visit-1)%len(n.events)], fmt.Sprintf("%s/%s/%d", run.ID, n.id, visit)
		if i := w.came[place]; i < len(coming) {
			w.came[place]++
			return w.deliver(run.ID, fmt.Sprint(place, "/", i), coming[i])
		}
	}
	w.clock.Advance(run.Wait.Until.Sub(w.clock.Now()) + time.Second)
	return nil
}

// outcome is what the store says that a run came to.
func (w *propWorld) outcome(id string) (*propEnd, error) {
	ctx := w.t.Context()
	run, err := w.inner.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	end := &propEnd{Result: run.Result, Code: run.Code, Spent: int(run.Spent.Tokens()), Calls: map[string]int{}, Children: map[string]*propEnd{}}
	if end.State, err = stated(run.State); err != nil {
		return nil, err
	}
	history, err := w.inner.History(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, rec := range history {
		end.Path = append(end.Path, propVisit{rec.Node, rec.Visit, rec.Outcome, rec.Next})
	}
	for key, n := range w.calls {
		if rest, ok := strings.CutPrefix(key, id+"/"); ok {
			end.Calls[rest] = n
		}
	}
	return end, w.grown(id, end)
}

// stated is a stored state as the interpreter has it: without what the engine
// keeps in it and without the words of reports.
func stated(raw json.RawMessage) (propState, error) {
	var s propState
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	delete(s, "_stop")
	lines, _ := s["lines"].([]any)
	for i := range lines {
		lines[i], _, _ = strings.Cut(fmt.Sprint(lines[i]), " (")
	}
	return s, nil
}
