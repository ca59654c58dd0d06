package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// visitRecord is what is kept of a visit that is not completed, so that a
// resume refills nothing.
type visitRecord struct {
	Attempts int           `json:"attempts,omitempty"`
	Parks    int           `json:"parks,omitempty"`
	Worked   time.Duration `json:"worked,omitempty"`
	// Until is the deadline of a wait.
	Until time.Time `json:"until,omitzero"`
	// Again is when a branch that rests may be tried again, Used what it has
	// used of its budget.
	Again time.Time          `json:"again,omitzero"`
	Used  *checkpoints.Usage `json:"used,omitempty"`
}

// Names of what is kept beside the effects of a visit, whose names never
// begin with a dot.
const (
	keptVisit   = "/.visit"
	keptEffects = "/.effects"
	keptResult  = "/.cache/"
)

func (w *walk) loadVisit(node string, visit int) (visitRecord, error) {
	if !w.resumed {
		return visitRecord{}, nil
	}
	var v visitRecord
	_, err := w.kept(w.visitKey(node, visit)+keptVisit, &v)
	return v, err
}

func (w *walk) keepVisit(ctx context.Context, node string, visit int, v visitRecord) error {
	return w.keep(ctx, w.visitKey(node, visit)+keptVisit, v)
}

// kept reads what keep has stored under a key; false when there is nothing.
func (w *walk) kept(key string, into any) (bool, error) {
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	raw, err := w.e.Store.Effect(sctx, key)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return false, fmt.Errorf("reading what was kept as %s: %w", key, err)
	}
	return true, nil
}

// keep stores v under a key, unless the run is somebody else's by now.
func (w *walk) keep(ctx context.Context, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keeping %s: %w", key, err)
	}
	if lost(ctx) {
		return context.Cause(ctx)
	}
	sctx := w.storeCtx()
	defer sctx.cancel(nil)
	if err := w.e.Store.RecordEffect(sctx, key, raw); err != nil {
		return fmt.Errorf("keeping %s: %w", key, err)
	}
	return nil
}
