package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// tick is how often the end is looked for. The bot is another process, so
// there is nothing to wait on but the clock.
const tick = 40 * time.Millisecond

// settle waits until all expectations have held for the settle time while
// nothing was written and the bot was proven alive, or until ctx ends.
func (r *running) settle(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	var since time.Time // when the expectations began to hold
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r.hopeless() != nil {
			return
		}
		if lost := r.stuck(); lost != nil {
			r.complain("%v", lost)
			return
		}
		s, err := r.look(ctx)
		if err != nil || len(r.faultsLeft()) > 0 || len(r.judge(s)) > 0 || !r.calm() {
			since = time.Time{}
			continue
		}
		r.mu.Lock()
		active := r.active
		r.mu.Unlock()
		now := time.Now()
		if since.IsZero() || active.After(since) {
			since = now
		}
		if now.Sub(since) >= r.s.Settle && r.alive() && s.World.PendingDeliveries == 0 && r.model.InFlight("") == 0 {
			r.note("settled", "all expectations held for %s", r.s.Settle)
			return
		}
	}
}

// judge is Evaluate, and the comparison with the end that is wanted.
func (r *running) judge(s Seen) []Mismatch {
	bad := Evaluate(r.expect, r.withoutKept(s))
	if r.o.Same == nil {
		return bad
	}
	if diff := Diff(r.o.Same, r.normal(s)); diff != "" {
		bad = append(bad, Mismatch{Path: "expect", Want: "the same end as undisturbed; only there (-), only here (+)", Got: "\n" + diff})
	}
	return bad
}

// alive reports that the bot has been heard of after the last action: it asked
// the world for something, or answered a delivery. A bot that is meant to be
// down need not be.
func (r *running) alive() bool {
	running, _, _ := r.bots.state()
	if !running {
		return true
	}
	r.mu.Lock()
	heard, stepped := r.heard, r.stepped
	r.mu.Unlock()
	if heard.After(stepped) {
		return true
	}
	deliveries := r.world.Deliveries()
	if len(deliveries) == 0 {
		return false
	}
	last := deliveries[len(deliveries)-1]
	return last.Done && last.Status != 0 && last.At.After(stepped.Add(-time.Second))
}

// faultsLeft names the faults that never struck.
func (r *running) faultsLeft() []string {
	left := r.world.FaultsLeft()
	for _, d := range r.deaths {
		if d.left() {
			left = append(left, d.name)
		}
	}
	return left
}

// stuckAfter is longer than any wait of the program for something that it lost
// (ten seconds for a queue's token, a poll for an event).
const stuckAfter = 30 * time.Second

// stuck says that a variant of a story has come to rest somewhere else than
// it ought to; it has more time than that only while something happens.
func (r *running) stuck() error {
	if r.o.Same == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.began
	for _, t := range []time.Time{r.active, r.stepped, r.worked} {
		if t.After(last) {
			last = t
		}
	}
	if time.Since(last) < stuckAfter {
		return nil
	}
	return fmt.Errorf("nothing has happened for %s", stuckAfter)
}

// hopeless says why the scenario can't pass any more: what happened cannot be
// taken back, so waiting for the timeout would only cost time.
func (r *running) hopeless() error {
	if _, exited, _ := r.bots.state(); exited && !r.s.awaitsExit() {
		return errors.New("the bot ended by itself")
	}
	r.mu.Lock()
	trouble := slices.Clone(r.trouble)
	r.mu.Unlock()
	j := &judge{seen: Seen{World: mockworld.Snapshot{Violations: r.world.Violations()}, ModelViolations: r.model.Violations(), Trouble: trouble}}
	j.others(r.s.Expect.Violations)
	if bad := j.out; len(bad) > 0 {
		return fmt.Errorf("given up: %s", bad[0].Got)
	}
	return nil
}
