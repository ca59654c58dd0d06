package report

import (
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

// children is what the comment says of the runs that a run has started, which
// have no comment of their own.
type children struct {
	// asks is the child that waits for a person, halted one that is stopped,
	// nil when there is none.
	asks, halted *checkpoints.Run
	// uncounted is what those have cost that their parents don't count.
	uncounted checkpoints.Usage
}

// childrenOf looks at the open descendants of a run, among the runs of its
// pipeline, oldest first.
func childrenOf(run checkpoints.Run, runs []checkpoints.Run) children {
	var c children
	family := map[string]bool{run.ID: true}
	for _, one := range runs {
		if one.Parent == "" {
			continue
		}
		if !one.Counted {
			c.uncounted = c.uncounted.Add(one.Spent)
		}
		if !family[one.Parent] || one.Status.Final() {
			continue
		}
		family[one.ID] = true
		switch {
		case one.Status == checkpoints.Halted && c.halted == nil:
			c.halted = &one
		case one.Status == checkpoints.Waiting && c.asks == nil && one.Wait != nil && asksPerson(one.Wait.Event):
			c.asks = &one
		}
	}
	return c
}

// asksPerson tells what a person can bring about from the end of a child and
// from back-offs.
func asksPerson(event string) bool { return event != "" && !strings.HasPrefix(event, "child/") }

// tell lets the comment say what a child waits for, or that it is stopped:
// that is where the whole stands.
func (c children) tell(v *status.View) {
	switch {
	case v.State == status.Halted:
	case c.halted != nil:
		v.State, v.Code, v.Reason = status.Halted, c.halted.Code, c.halted.Reason
		v.WaitsFor = ""
		if v.Code == "drift" {
			v.RunID = c.halted.ID // the run that an operator has to look at
		}
	case c.asks != nil:
		w := c.asks.Wait
		v.State, v.WaitsFor, v.Until, v.Reason = status.Waiting, w.Event, w.Until, w.Why
	}
}
