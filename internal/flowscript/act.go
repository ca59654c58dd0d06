package flowscript

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pipelinebot/pipelinebot/flows"
)

// registry is the flow's actions with scripted results; what the loader and
// the engine know of them stays.
func (p *player) registry(reg *flows.Registry, f *flows.Flow) (*flows.Registry, error) {
	out := &flows.Registry{}
	for name := range f.Actions() {
		a, ok := reg.Get(name)
		if !ok {
			return nil, fmt.Errorf("rehearsing %s: no action is called %s", f.Name(), name)
		}
		a.Run = p.act
		if err := out.Add(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// act is what every action does here: it says its line.
func (p *player) act(ctx context.Context, c flows.Call) (flows.Result, error) {
	if c.Ended != nil {
		return flows.Result{}, nil // `finally` has nothing to put away
	}
	part, n, l, err := p.line(c)
	if err != nil {
		return flows.Result{}, err
	}
	if l.Spend != nil {
		if err := spend(ctx, c.Meter, *l.Spend); err != nil {
			return flows.Result{}, err
		}
	}
	if err := p.pass(ctx, n, l); err != nil {
		return flows.Result{}, err
	}
	if l.Error != "" {
		err := errors.New(l.Error)
		if l.Retry == "" {
			return flows.Result{}, err
		}
		p.clock.resting(limitOf(n))
		return flows.Result{}, &flows.Retry{Cause: l.Retry, Err: err}
	}
	return p.result(part, n, l)
}

// line takes the next line of the call's node.
func (p *player) line(c flows.Call) (*part, flows.Node, Line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.parts[c.Run.ID]
	if part == nil {
		return nil, flows.Node{}, Line{}, fmt.Errorf("run %s is in no script", c.Run.ID)
	}
	n, _ := part.flow.Node(c.Node)
	l, ok := part.take(c.Node)
	if !ok {
		when := fmt.Sprintf("visit %d", c.Visit)
		if c.Attempt > 1 {
			when += fmt.Sprintf(", attempt %d", c.Attempt)
		}
		err := p.missing(part, c.Node, when)
		return nil, n, Line{}, err
	}
	return part, n, l, nil
}

// spend reserves and settles, as an action that pays does.
func spend(ctx context.Context, m flows.Meter, s Spend) error {
	u := flows.Usage{InputTokens: s.Tokens, ToolCalls: s.ToolCalls, MicroUSD: int64(math.Round(s.CostUSD * 1e6))}
	if s.Tokens > 0 || s.CostUSD > 0 {
		u.ModelCalls = 1
	}
	r, err := m.Reserve(ctx, u)
	if err != nil {
		return err
	}
	return r.Settle(ctx, u)
}

// patience is how long, in real time, the engine has to notice that time has
// passed. It bounds a mistake, nothing waits for it.
const patience = 10 * time.Second

// pass lets a line's time pass. What outlasts the node is cut by the engine.
func (p *player) pass(ctx context.Context, n flows.Node, l Line) error {
	switch {
	case l.Hang:
		return p.hang(ctx, n)
	case l.Took == 0:
		return nil
	}
	p.clock.advance(l.Took)
	if l.Took >= limitOf(n) {
		return p.cut(ctx, n)
	}
	return nil
}

// hang moves time on until the engine ends the node.
func (p *player) hang(ctx context.Context, n flows.Node) error {
	bound := time.NewTimer(patience)
	defer bound.Stop()
	for {
		// The engine may still be about to set its timers, or to act on the one
		// that has fired.
		wait := time.Millisecond
		if p.clock.next(ctx) {
			wait = time.Second
		}
		again := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		case <-bound.C:
			again.Stop()
			return fmt.Errorf("node %s hangs, and nothing ends it", n.ID)
		case <-again.C:
		}
	}
}

func (p *player) cut(ctx context.Context, n flows.Node) error {
	bound := time.NewTimer(patience)
	defer bound.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-bound.C:
		return fmt.Errorf("node %s took longer than it may, and nothing ended it", n.ID)
	}
}

// limitOf is the shortest time after which a node is cut.
func limitOf(n flows.Node) time.Duration {
	limit := time.Hour // the engine's for nodes that name none
	for _, d := range []time.Duration{n.Timeout, n.Idle, n.Budget.Wall} {
		if d > 0 && d < limit {
			limit = d
		}
	}
	return limit
}

// codeOf is a command's exit code: 0 unless the line says that it did not go
// well, as a program's would be, and -1 of one that was killed.
func codeOf(l Line) int {
	switch {
	case l.Code != nil:
		return *l.Code
	case l.Outcome == string(flows.Timeout):
		return -1
	case l.Outcome != "" && l.Outcome != string(flows.OK):
		return 1
	}
	return 0
}

func (p *player) result(part *part, n flows.Node, l Line) (flows.Result, error) {
	r := flows.Result{Outcome: flows.Outcome(l.Outcome), Note: l.Note}
	if l.Stop != nil {
		r.Stop = &flows.Stop{Code: l.Stop.Code, Reason: l.Stop.Reason}
	}
	if n.Kind == flows.Command {
		a := p.kept.Keep([]byte(l.Output))
		code := codeOf(l)
		if code != 0 && l.Outcome == "" {
			r.Outcome = flows.Failed
		}
		if r.Note == "" && code > 0 {
			r.Note = fmt.Sprintf("exit code %d", code)
		}
		r.Delta = flows.Delta{flows.OutputKey: a, flows.CodeKey: code}
		return r, nil
	}
	values, err := stateValues(p.kept, part.flow, l.Delta)
	if err != nil {
		return r, err
	}
	if len(values) > 0 {
		r.Delta = flows.Delta{}
		for key, raw := range values {
			r.Delta[key] = raw
		}
	}
	return r, nil
}
