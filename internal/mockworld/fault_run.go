package mockworld

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// faultState is a fault with what has become of it.
type faultState struct {
	Fault
	path    *regexp.Regexp
	seen    int
	struck  int
	release chan struct{}
	freed   bool
}

// strikeable is what a fault may strike: a request or a delivery.
type strikeable struct {
	method, path, actor string
	event, action       string
}

// AddFault injects a fault from now on. Faults are looked at in the order in
// which they were added; the first of a kind that matches strikes.
func (w *World) AddFault(f Fault) error {
	s := &faultState{Fault: f, release: make(chan struct{})}
	hook := oneOf(string(f.Kind), string(FaultDuplicate), string(FaultReorder), string(FaultLose))
	request := oneOf(string(f.Kind), string(FaultDropRequest), string(FaultDropResponse), string(FaultRefuse))
	switch {
	case !hook && !request && f.Kind != FaultHold && f.Kind != FaultDelay:
		return fmt.Errorf("adding fault %s: kind %q: not known", f.Name, f.Kind)
	case hook && f.Match.Event == "":
		return fmt.Errorf("adding fault %s: a %s strikes webhooks, so match.event is needed (\"*\" for all)", f.Name, f.Kind)
	case request && f.Match.Event != "":
		return fmt.Errorf("adding fault %s: a %s strikes requests, not events", f.Name, f.Kind)
	case f.Kind == FaultDelay && f.Delay <= 0:
		return fmt.Errorf("adding fault %s: a delay needs a duration", f.Name)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("adding fault %s: status %d", f.Name, f.Status)
	}
	if f.Match.Path != "" {
		re, err := regexp.Compile(f.Match.Path)
		if err != nil {
			return fmt.Errorf("adding fault %s: path: %w", f.Name, err)
		}
		s.path = re
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, s)
	return nil
}

// Release frees what a hold of this name keeps, and spends the fault.
func (w *World) Release(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, f := range w.faults {
		if f.Kind == FaultHold && f.Name == name {
			found = true
			if !f.freed {
				f.freed = true
				close(f.release)
			}
		}
	}
	if !found {
		return fmt.Errorf("releasing %q: no hold of that name", name)
	}
	return nil
}

// ClearFaults takes all faults away and frees all holds.
func (w *World) ClearFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if !f.freed {
			f.freed = true
			close(f.release)
		}
	}
	w.faults = nil
}

// FaultsLeft names the faults that have not struck yet, so that a scenario
// can tell that one never did.
func (w *World) FaultsLeft() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []string
	for _, f := range w.faults {
		if f.struck == 0 {
			left = append(left, f.Name)
		}
	}
	return left
}

// strike is the first fault of one of the kinds that strikes; the lock is
// held. Each matching one counts what it sees.
func (w *World) strike(s strikeable, kinds ...FaultKind) *faultState {
	var hit *faultState
	for _, f := range w.faults {
		wanted := false
		for _, k := range kinds {
			wanted = wanted || f.Kind == k
		}
		if !wanted || f.freed || !f.matches(s) {
			continue
		}
		f.seen++
		first, times := max(f.Match.Nth, 1), f.Times
		if times == 0 {
			times = 1
		}
		if hit == nil && f.seen >= first && (times < 0 || f.seen < first+times) {
			f.struck++
			hit = f
		}
	}
	return hit
}

func (f *faultState) matches(s strikeable) bool {
	m := f.Match
	if s.event != "" {
		return m.Event == "*" || m.Event == s.event || m.Event == s.event+"."+s.action
	}
	return m.Event == "" && (m.Method == "" || m.Method == s.method) && (f.path == nil || f.path.MatchString(s.path)) &&
		(m.Actor == "" || key(m.Actor) == key(s.actor))
}

// wait blocks until the hold is released; false when the client or the world
// is gone first.
func (f *faultState) wait(client, world context.Context) bool {
	select {
	case <-f.release:
		return true
	case <-client.Done():
		return false
	case <-world.Done():
		return false
	}
}

// pause waits by the world's clock; false when ctx or the world ends first.
func (w *World) pause(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(w.ctx, cancel) //nolint:contextcheck // the end of the world ends the pause too
	defer stop()
	return clock.Sleep(ctx, w.clock, d) == nil
}
