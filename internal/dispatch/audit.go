package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Prune is the kind of an inbox row that only records what an operator did to
// the store; Done is its decision. Nothing follows from it.
const (
	Prune forge.EventKind = "manual_prune"
	Done  string          = "done"
)

// Refused is how an audit line says that what was asked for was not done.
func Refused(why string) string { return "refused: " + why }

// orderWord is the word for what an operator asks for, "" for nothing that
// is about a run.
func orderWord(k forge.EventKind) string {
	switch k {
	case forge.ManualRun:
		return "run"
	case forge.ManualFork:
		return "fork"
	case forge.ManualCancel:
		return "cancel"
	case forge.ManualResume:
		return "resume"
	default:
		return ""
	}
}

// noteStart records on a run that an operator started it, and how.
func (d *Dispatcher) noteStart(ctx context.Context, run checkpoints.Run, ev forge.Event) error {
	what, o := orderWord(ev.Kind), ev.Order
	if o == nil || what == "" {
		return nil
	}
	why := "the " + run.Phase + " phase"
	if o.Flow != "" {
		why = "the flow " + o.Flow
	}
	if o.Shadow {
		why += ", as a shadow"
	}
	if ev.Kind == forge.ManualFork {
		why = "from " + o.Node + " of run " + o.Run
	}
	return d.line(ctx, checkpoints.AuditLine{RunID: run.ID, By: o.By, What: what, Why: why, At: ev.At})
}

// noteRefusal records on a run that what an operator asked for was not done.
func (d *Dispatcher) noteRefusal(ctx context.Context, ev forge.Event, decision, why string) error {
	what, o := orderWord(ev.Kind), ev.Order
	refused := decision == string(labels.Refuse) || decision == string(labels.Ignore) || decision == failed
	if !refused || o == nil || o.Run == "" || what == "" {
		return nil
	}
	return d.line(ctx, checkpoints.AuditLine{RunID: o.Run, By: o.By, What: what, Why: Refused(why), At: ev.At})
}

// line adds an audit line, once although its row comes twice; of a run that is
// not there any more nothing is recorded.
func (d *Dispatcher) line(ctx context.Context, a checkpoints.AuditLine) error {
	a.At = a.At.UTC().Truncate(time.Microsecond) // as stores keep it
	there, err := d.Store.Audits(ctx, a.RunID)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the audit of run %s: %w", a.RunID, err)
	}
	same := func(b checkpoints.AuditLine) bool {
		return a.By == b.By && a.What == b.What && a.Why == b.Why && a.At.Equal(b.At)
	}
	if slices.ContainsFunc(there, same) {
		return nil
	}
	if err := d.Store.AddAudit(ctx, a); err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return fmt.Errorf("recording what was done to run %s: %w", a.RunID, err)
	}
	return nil
}
