package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
)

// consistent refuses a run whose row and history disagree: it was changed by
// something else than a walk, and where it really stands is unknown.
func consistent(run checkpoints.Run, state flows.State, history []checkpoints.NodeRecord) error {
	if int64(len(history)) != run.Seq {
		return fmt.Errorf("%w: run %s has completed %d nodes, its history has %d", flows.ErrCorrupt, run.ID, run.Seq, len(history))
	}
	if len(history) == 0 {
		return nil
	}
	if last := history[len(history)-1]; last.Next != run.Next {
		return fmt.Errorf("%w: run %s stands at %s, its history leads to %s", flows.ErrCorrupt, run.ID, run.Next, last.Next)
	}
	want := map[string]json.RawMessage{}
	for _, rec := range history {
		changes, err := flows.DecodeState(rec.Delta)
		if err != nil {
			return fmt.Errorf("%w: run %s, record %d: %w", flows.ErrCorrupt, run.ID, rec.Seq, err)
		}
		for key, v := range changes.Values() {
			want[key] = v
		}
	}
	for key, v := range want {
		if !same(v, state.Raw(key)) {
			return fmt.Errorf("%w: run %s has another value of %s than its history", flows.ErrCorrupt, run.ID, key)
		}
	}
	return nil
}

// same compares JSON by meaning; null is the same as nothing.
func same(a, b json.RawMessage) bool {
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
