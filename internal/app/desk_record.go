package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/dispatch"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// note records what the operator did to a run.
func (d *Desk) note(ctx context.Context, runID, what, why string) error {
	err := d.store.AddAudit(ctx, checkpoints.AuditLine{RunID: runID, By: d.by, What: what, Why: why, At: clock.Real{}.Now()})
	if err != nil {
		return fmt.Errorf("recording what was done to run %s: %w", runID, err)
	}
	return nil
}

// Refused records that the operator asked for something that cannot be done
// with a run, and why not.
func (d *Desk) Refused(ctx context.Context, run checkpoints.Run, what string, why error) error {
	return d.note(ctx, run.ID, what, dispatch.Refused(why.Error()))
}

// Adopted records that a flow was made of a run, or why it was not.
func (d *Desk) Adopted(ctx context.Context, run checkpoints.Run, name string, refused error) error {
	why := "as " + name
	if refused != nil {
		why = dispatch.Refused(why + ": " + refused.Error())
	}
	return d.note(ctx, run.ID, "adopt", why)
}

// Order sends an operator's command about a run, and records it first: what
// was asked for is on record even if nothing comes of it.
func (d *Desk) Order(ctx context.Context, run checkpoints.Run, kind forge.EventKind, order forge.Order, what, why string) (rowID string, err error) {
	if err := d.note(ctx, run.ID, what, why); err != nil {
		return "", err
	}
	return d.send(ctx, run, kind, order)
}

func (d *Desk) send(ctx context.Context, run checkpoints.Run, kind forge.EventKind, order forge.Order) (rowID string, err error) {
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return "", fmt.Errorf("run %s: %w", run.ID, err)
	}
	order.Run = run.ID
	return d.Send(ctx, forge.Event{Kind: kind, Issue: ref, Order: &order})
}

// Act is what an operator did to the store as a whole, or asked the daemon
// for.
type Act struct {
	ID string `json:"id"`
	// By is who, What a stable word such as "prune" or "cancel", Run the run
	// that it is about, if any.
	By   string `json:"by"`
	What string `json:"what"`
	Run  string `json:"run,omitempty"`
	// Issue is "" for what concerns the whole store.
	Issue string `json:"issue,omitempty"`
	// Decision is "" while nobody has decided yet.
	Decision string    `json:"decision"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"`
}

// operatorKey begins the key of an inbox row of an operator's.
const operatorKey = "operator/"

// Acts are what operators did, newest first, as far as the newest rows of the
// inbox tell.
func Acts(ctx context.Context, r Reader, rows int) ([]Act, error) {
	inbox, err := r.Inbox(ctx, rows)
	if err != nil {
		return nil, fmt.Errorf("reading what operators did: %w", err)
	}
	acts := []Act{}
	for _, row := range inbox {
		if !strings.HasPrefix(row.Key, operatorKey) {
			continue
		}
		a := Act{ID: row.ID, What: strings.TrimPrefix(row.Kind, "manual_"), Decision: row.Decision, Why: row.Explanation, At: row.At}
		var ev forge.Event
		if json.Unmarshal(row.Body, &ev) == nil {
			if ev.Order != nil {
				a.By, a.Run = ev.Order.By, ev.Order.Run
			}
			if ev.Issue.Number != 0 {
				a.Issue = ev.Issue.String()
			}
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// Prune deletes final runs that are older than age, but for the newest ones.
// It is recorded, since what it deletes can tell of it no more.
func (d *Desk) Prune(ctx context.Context, age time.Duration, keep int) (int, error) {
	what := fmt.Sprintf("runs that are over for more than %s, but for the newest %d", age, keep)
	row, err := d.Send(ctx, forge.Event{Kind: dispatch.Prune})
	if err != nil {
		return 0, err
	}
	n, err := d.store.Prune(ctx, checkpoints.Retention{Before: clock.Real{}.Now().Add(-age), Keep: keep})
	decision, why := dispatch.Done, fmt.Sprintf("deleted %d %s", n, what)
	if err != nil {
		err = fmt.Errorf("pruning runs: %w", err)
		decision, why = "failed", why+"; "+err.Error()
	}
	noted := d.store.Decided(context.WithoutCancel(ctx), row, decision, why)
	if noted != nil && !errors.Is(noted, checkpoints.ErrNotFound) {
		err = errors.Join(err, fmt.Errorf("recording what was pruned: %w", noted))
	}
	return n, err
}
