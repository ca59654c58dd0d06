package scenario

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/internal/mockworld"
)

// addFault injects what the world can do by itself; kills are the deaths'.
func addFault(w *mockworld.World, f Fault, name string) error {
	m := mockworld.Match{Method: strings.ToUpper(f.Match.Method), Path: f.Match.Path, Event: f.Match.Event, Nth: f.Match.Nth}
	mf := mockworld.Fault{
		Name: name, Match: m, Kind: mockworld.FaultKind(f.Kind), Times: f.Times, After: f.After, Delay: f.Delay,
		Status: f.Status, Body: f.Body,
	}
	switch f.KillBot {
	case "before":
		// A dead client's request must not be handled after all.
		mf.Kind = mockworld.FaultDropRequest
	case "after":
		return nil
	}
	if len(f.Headers) > 0 {
		mf.Headers = http.Header{}
		for k, v := range f.Headers {
			mf.Headers.Set(k, v)
		}
	}
	return w.AddFault(mf)
}

// death kills the bot at its n-th matching request.
type death struct {
	fault  Fault
	name   string
	path   *regexp.Regexp
	mu     sync.Mutex
	seen   int
	struck bool
}

func newDeath(f Fault, name string) (*death, error) {
	re, err := regexp.Compile(f.Match.Path)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", name, err)
	}
	return &death{fault: f, name: name, path: re}, nil
}

// strikes reports that this request, at this stage, is the one.
func (d *death) strikes(stage mockworld.Stage, r mockworld.Request) bool {
	if string(stage) != d.fault.KillBot || !d.path.MatchString(r.Path) ||
		(d.fault.Match.Method != "" && !strings.EqualFold(d.fault.Match.Method, r.Method)) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen++
	first := max(d.fault.Match.Nth, 1)
	if d.seen >= first && d.seen < first+max(d.fault.Times, 1) {
		d.struck = true
		return true
	}
	return false
}

func (d *death) left() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.struck
}

func faultName(i int, f Fault) string {
	if f.Name != "" {
		return f.Name
	}
	return fmt.Sprintf("faults[%d]", i)
}
