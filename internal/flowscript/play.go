package flowscript

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/checkpoints/memory"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/flows/engine"
)

// maxTurns bounds how often runs are taken up; a flow's own bounds end it long
// before.
const maxTurns = 100_000

// part is a run with the lines of its script.
type part struct {
	flow *flows.Flow
	// path is where the lines stand in the file, e.g. "nodes".
	path  string
	nodes map[string][]Line
	used  map[string]int
}

func (p *part) take(id string) (Line, bool) {
	i := p.used[id]
	if i >= len(p.nodes[id]) {
		return Line{}, false
	}
	p.used[id] = i + 1
	return p.nodes[id][i], true
}

// player plays one script.
type player struct {
	clock  *hop
	store  *memory.Store
	kept   *memory.Artifacts
	engine *engine.Engine
	script Script
	events int
	asked  map[asking]string

	mu    sync.Mutex
	parts map[string]*part // by run id
	check checker
	stop  context.CancelCauseFunc
}

// asking is an approval's visit.
type asking struct {
	run, node string
	visit     int
}

// Run rehearses a flow. The error is a strictyaml.Problems when the script does
// not fit the flow, or what happened does not fit the script; a flow that ends
// in an error is a Report. A rehearsal that began has a Report also beside an
// error: as far as it came. registry tells what the loader knew of the actions;
// none of them is called.
func Run(ctx context.Context, flow *flows.Flow, registry *flows.Registry, s Script) (Report, error) {
	p := &player{
		clock: &hop{now: begin()}, kept: &memory.Artifacts{}, script: s, parts: map[string]*part{}, asked: map[asking]string{}, check: checker{doc: s.document()},
	}
	p.check.input(flow, s.Input)
	p.check.fit("nodes", flow, registry, s.Nodes)
	if err := p.problems(); err != nil {
		return Report{}, err
	}
	scripted, err := p.registry(registry, flow)
	if err != nil {
		return Report{}, err
	}
	p.store = memory.New(memory.Options{Clock: p.clock})
	p.engine = engine.New(engine.Options{Store: p.store, Registry: scripted, Artifacts: p.kept, Clock: p.clock})
	run, err := p.start(ctx, flow)
	if err != nil {
		return Report{}, err
	}
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	wrong := p.play(ctx)
	if wrong == nil {
		p.unused()
	}
	if told := p.problems(); told != nil {
		wrong = told
	}
	rep, err := p.report(context.WithoutCancel(ctx), run.ID)
	if err != nil || wrong != nil {
		return rep, cmp.Or(wrong, err)
	}
	rep.compare(s.Expect)
	return rep, nil
}

func (p *player) problems() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.check.problems) == 0 {
		return nil
	}
	p.check.problems.Sort()
	return p.check.problems
}

func (p *player) start(ctx context.Context, f *flows.Flow) (checkpoints.Run, error) {
	in := map[string]any{}
	for key, v := range p.script.Input {
		in[key] = v
	}
	req := checkpoints.StartReq{Key: "rehearsal", Repo: "example/project", Issue: 1, Phase: f.Phase(), Round: 1}
	if n, ok := in["issue"].(int); ok {
		req.Issue = n
	}
	if name, ok := in["repo"].(string); ok {
		req.Repo = name
	}
	values, err := stateValues(p.kept, f, in)
	if err != nil {
		return checkpoints.Run{}, err
	}
	req, err = p.engine.Freeze(f, req, flows.NewState(values))
	if err != nil {
		return checkpoints.Run{}, err
	}
	run, err := p.store.Start(ctx, req)
	if err != nil {
		return run, fmt.Errorf("starting the rehearsal: %w", err)
	}
	p.parts[run.ID] = &part{flow: f, path: "nodes", nodes: p.script.Nodes, used: map[string]int{}}
	return run, nil
}

// play takes runs up until all are final.
func (p *player) play(ctx context.Context) error {
	for range maxTurns {
		if err := p.problems(); err != nil {
			return err
		}
		runs, err := p.open(ctx)
		if err != nil || len(runs) == 0 {
			return err
		}
		if err := p.turn(ctx, runs); err != nil {
			return err
		}
	}
	return fmt.Errorf("the rehearsal does not end: runs were taken up %d times", maxTurns)
}

// open are the runs that are not final, oldest first. Children that are new
// get their lines.
func (p *player) open(ctx context.Context) ([]checkpoints.Run, error) {
	all, err := p.store.List(ctx, checkpoints.Filter{Limit: maxTurns})
	if err != nil {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	slices.Reverse(all)
	var open []checkpoints.Run
	for _, run := range all {
		if !run.Status.Final() {
			open = append(open, run)
		}
		if err := p.adopt(run); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// adopt gives a new child its lines: the next of its parent's node.
func (p *player) adopt(run checkpoints.Run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	parent := p.parts[run.Parent]
	if p.parts[run.ID] != nil || parent == nil {
		return nil
	}
	f, ok := parent.flow.Child(run.Flow)
	if !ok {
		return fmt.Errorf("run %s: the flow %s has no child %s", run.Key, parent.flow.Name(), run.Flow)
	}
	i := parent.used[run.ParentNode]
	l, ok := parent.take(run.ParentNode)
	if !ok {
		return p.missing(parent, run.ParentNode, "child run "+run.Key)
	}
	p.parts[run.ID] = &part{
		flow: f, path: at(parent.path, run.ParentNode, i) + ".child.nodes", nodes: l.Child.Nodes, used: map[string]int{},
	}
	return nil
}

// turn does one thing: it walks a run that can go on, or lets an event come,
// or lets time pass.
func (p *player) turn(ctx context.Context, runs []checkpoints.Run) error {
	now := p.clock.Now()
	for _, run := range runs {
		if run.Status == checkpoints.Ready || run.Status == checkpoints.Ending || run.Status == checkpoints.Running ||
			run.Status == checkpoints.Waiting && run.Wait.Over(now) {
			return p.walk(ctx, run)
		}
	}
	for _, run := range runs {
		if done, err := p.event(ctx, run); done || err != nil {
			return err
		}
	}
	return p.later(runs)
}

// walk claims a run and walks it, and puts an ended one away.
func (p *player) walk(ctx context.Context, run checkpoints.Run) error {
	run, lease, err := p.store.Claim(ctx, run.ID, run.Epoch, "rehearsal", 100*365*24*time.Hour)
	if err != nil {
		return fmt.Errorf("taking up run %s: %w", run.Key, err)
	}
	out, err := p.engine.Walk(ctx, run, lease)
	if err != nil {
		return fmt.Errorf("walking run %s: %w", run.Key, err)
	}
	switch out.How {
	case engine.Ended, engine.Cancelled:
		return p.finish(context.WithoutCancel(ctx), out, lease)
	case engine.Released, engine.Lost:
		return fmt.Errorf("walking run %s: %s: %w", run.Key, out.How, errors.Join(out.Err, context.Cause(ctx)))
	}
	return nil
}

func (p *player) finish(ctx context.Context, out engine.Outcome, lease checkpoints.Lease) error {
	run, err := p.store.Get(ctx, lease.RunID)
	if err != nil {
		return fmt.Errorf("reading run %s: %w", lease.RunID, err)
	}
	if err := p.endChildren(ctx, run); err != nil {
		return err
	}
	if err := p.tellParent(ctx, run); err != nil {
		return err
	}
	if _, err := p.store.Finish(ctx, lease, engine.StatusOf(out.Result), nil); err != nil {
		return fmt.Errorf("finishing run %s: %w", run.Key, err)
	}
	return nil
}

// event lets the next line of a waiting run's node come true.
func (p *player) event(ctx context.Context, run checkpoints.Run) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.parts[run.ID]
	if run.Status != checkpoints.Waiting || run.Wait == nil || run.Wait.Event == "" || part == nil {
		return false, nil
	}
	n, ok := part.flow.Node(run.Wait.Node)
	if !ok || n.Kind != flows.Wait && n.Kind != flows.Approval {
		return false, nil
	}
	visit := run.Visits[n.ID] + 1
	if n.Kind == flows.Approval {
		p.asked[asking{run.ID, n.ID, visit}] = run.Wait.Why
	}
	l, ok := part.take(n.ID)
	if !ok {
		when := fmt.Sprintf("visit %d", visit)
		if n.Kind == flows.Wait {
			when += ", " + run.Wait.Why
		}
		if why := p.passedOver(ctx, run.ID, n.ID); why != "" {
			when += ", still waiting, since the last event was passed over: " + why
		}
		return false, p.missing(part, n.ID, when)
	}
	if l.Expires {
		p.clock.until(run.Wait.Until)
		return true, nil
	}
	p.clock.advance(l.Took)
	p.events++
	raw, err := json.Marshal(data(n, l))
	if err != nil {
		return false, fmt.Errorf("encoding the event of node %s: %w", n.ID, err)
	}
	ev := checkpoints.Event{Key: fmt.Sprintf("script/%d", p.events), Kind: run.Wait.Event, Data: raw, At: p.clock.Now()}
	if _, err := p.store.Deliver(ctx, run.ID, ev); err != nil {
		return false, fmt.Errorf("delivering to node %s: %w", n.ID, err)
	}
	return true, nil
}

// passedOver is why the node's last event did not count, "" when none came or
// it did.
func (p *player) passedOver(ctx context.Context, run, node string) string {
	history, err := p.store.History(ctx, run)
	if err != nil || len(history) == 0 {
		return ""
	}
	if last := history[len(history)-1]; last.Node == node && last.Outcome == string(flows.Skipped) {
		return last.Note
	}
	return ""
}

// data is an event's; an approval without any is the operator's.
func data(n flows.Node, l Line) map[string]any {
	d := map[string]any{}
	for key, v := range l.Event {
		d[key] = v
	}
	if l.Outcome != "" {
		d["outcome"] = l.Outcome
	}
	if n.Kind == flows.Approval {
		if l.Event == nil {
			d["by"], d["role"] = "operator", "operator"
		}
		if d["outcome"] == nil {
			d["outcome"] = string(flows.OK)
		}
	}
	return d
}

// later lets time pass until the first run wakes by itself.
func (p *player) later(runs []checkpoints.Run) error {
	var first time.Time
	var stuck []string
	for _, run := range runs {
		if run.Status == checkpoints.Waiting && run.Wait != nil && !run.Wait.Until.IsZero() && (first.IsZero() || run.Wait.Until.Before(first)) {
			first = run.Wait.Until
		}
		stuck = append(stuck, fmt.Sprintf("%s (%s)", run.Key, run.Status))
	}
	if first.IsZero() {
		return fmt.Errorf("nothing goes on: %s", strings.Join(stuck, ", "))
	}
	p.clock.until(first)
	return nil
}

// missing says that a node needs one line more, and ends the rehearsal. The
// caller holds the lock.
func (p *player) missing(part *part, id, when string) error {
	have, holds := len(part.nodes[id]), "none"
	if have > 0 {
		holds = fmt.Sprint(have)
	}
	path := part.path
	if have > 0 {
		path = at(part.path, id, have-1)
	}
	p.check.add(path, fmt.Sprintf("add %s", at(part.path, id, have)),
		"node %s (%s) needs a line more: the script holds %s for it", id, when, holds)
	err := fmt.Errorf("node %s has no line in the script", id)
	if p.stop != nil {
		p.stop(engine.Cancel{Code: "script", Reason: err.Error()})
	}
	return err
}

// unused says which lines nothing used.
func (p *player) unused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.parts {
		for id, lines := range part.nodes {
			for i := part.used[id]; i < len(lines); i++ {
				what := fmt.Sprintf("node %s used %d of its %s", id, part.used[id], count(int64(len(lines)), "line"))
				if part.used[id] == 0 {
					what = fmt.Sprintf("node %s was never entered", id)
				}
				p.check.add(at(part.path, id, i), "leave it out, or see why the path went elsewhere", "the line is not used: %s", what)
			}
		}
	}
}
