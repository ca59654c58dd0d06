package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// consistent refuses a run whose row and history disagree: it was changed by
// something else than a walk, and where it really stands is unknown.
func consistent(run *checkpoints.Run, f *flows.Flow, history []checkpoints.NodeRecord) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: run %s %s", flows.ErrCorrupt, run.ID, fmt.Sprintf(format, args...))
	}
	if int64(len(history)) != run.Seq {
		return bad("has completed %d nodes, its history has %d", run.Seq, len(history))
	}
	stands := begins(run, f)
	for i := range history {
		rec := &history[i]
		switch {
		case rec.Seq != int64(i+1):
			return bad("has record %d where %d belongs", rec.Seq, i+1)
		case stands != "" && rec.Node != stands:
			return bad("was led to %s, its record %d is of %s", stands, rec.Seq, rec.Node)
		}
		stands = rec.Next
	}
	if stands != "" && stands != run.Next {
		return bad("stands at %s, its history leads to %s", run.Next, stands)
	}
	if visits := visitsOf(history); !maps.Equal(visits, positive(run.Visits)) {
		return bad("counts other visits (%v) than its history (%v)", run.Visits, visits)
	}
	return sameState(run, history, bad)
}

// begins is the node at which a run starts.
func begins(run *checkpoints.Run, f *flows.Flow) string {
	if run.Forked != "" {
		return run.ForkedAt
	}
	return f.Entry()
}

// visitsOf counts the entries a node; an event that was passed over is none.
func visitsOf(history []checkpoints.NodeRecord) map[string]int {
	visits := map[string]int{}
	for i := range history {
		if !passedOver(&history[i]) {
			visits[history[i].Node]++
		}
	}
	return visits
}

// passedOver records consume an event without completing their node.
func passedOver(rec *checkpoints.NodeRecord) bool {
	return rec.Outcome == string(flows.Skipped) && rec.Next == rec.Node && rec.EventKey != ""
}

func positive(visits map[string]int) map[string]int {
	out := map[string]int{}
	for node, n := range visits {
		if n != 0 {
			out[node] = n
		}
	}
	return out
}

// sameState compares the state with what the records make of the first one;
// of runs whose first state was not recorded, only what the records changed.
func sameState(run *checkpoints.Run, history []checkpoints.NodeRecord, bad func(string, ...any) error) error {
	want, err := fold(run, history)
	if err != nil {
		return err
	}
	have, err := flows.DecodeState(run.State)
	if err != nil {
		return bad("has no readable state: %v", err)
	}
	if run.Next == "" {
		delete(want, flows.StopKey) // the sink takes it out
	}
	for key, v := range want {
		if !same(v, have.Raw(key)) {
			return bad("has another value of %s than its history", key)
		}
	}
	if len(run.Initial) == 0 {
		return nil
	}
	for _, key := range have.Keys() {
		if _, known := want[key]; !known && have.Has(key) {
			return bad("has a value of %s, its history has none", key)
		}
	}
	return nil
}

// fold is the state that the records lead to; a nil value is one taken away.
func fold(run *checkpoints.Run, history []checkpoints.NodeRecord) (map[string]json.RawMessage, error) {
	first, err := flows.DecodeState(run.Initial)
	if err != nil {
		return nil, fmt.Errorf("%w: the first state of run %s: %w", flows.ErrCorrupt, run.ID, err)
	}
	state := first.Values()
	for i := range history {
		if len(history[i].Delta) == 0 {
			continue
		}
		var changes map[string]json.RawMessage
		if err := json.Unmarshal(history[i].Delta, &changes); err != nil {
			return nil, fmt.Errorf("%w: run %s, record %d: %w", flows.ErrCorrupt, run.ID, history[i].Seq, err)
		}
		for key, v := range changes {
			if string(v) == "null" {
				v = nil
			}
			state[key] = v
		}
	}
	return state, nil
}

// same compares JSON by meaning; null is the same as nothing.
func same(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	x, errX := meaning(a)
	y, errY := meaning(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func meaning(raw json.RawMessage) (v any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
