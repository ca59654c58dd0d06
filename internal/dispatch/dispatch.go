// Package dispatch turns an inbox row into what it means: it reads the issue
// as it is now, authorises the actor, asks the label machine, and applies the
// answer.
//
// It must not know HTTP, go-github or how runs are worked on. It may import
// checkpoints, flows, flows/engine (what its errors mean), labels,
// internal/{clock,forge,handoff,turns} and phases/markdown.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/handoff"
	"github.com/pipelinebot/pipelinebot/internal/turns"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Forge is what a dispatcher does on the forge.
type Forge interface {
	forge.Reader
	forge.Labels
	AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error)
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
}

// Store is the part of the store that it uses.
type Store interface {
	checkpoints.Runs
	checkpoints.Effects
	checkpoints.Stops
	checkpoints.Inbox
	checkpoints.Records
}

// Starts builds the start of a run; handoff.Builder is one.
type Starts interface {
	First(ctx context.Context, a handoff.Ask) (checkpoints.StartReq, error)
}

// Flows is what must be known of the flows of runs; the engine of package app
// is one.
type Flows interface {
	// Approvers are who may answer the approval node at which a run waits; ok
	// is false when it waits at none.
	Approvers(run checkpoints.Run) (approvers []string, ok bool)
	// Fork builds the start of a run that begins at a node of an earlier one,
	// with its state as it was then, edited.
	Fork(ctx context.Context, source checkpoints.Run, node string, edits map[string]json.RawMessage) (checkpoints.StartReq, error)
}

// Breaker stops what leads nowhere; *breaker.Breaker is one.
type Breaker interface {
	// Check says why a phase must not start once more, "" when it may.
	Check(ctx context.Context, ref forge.Ref, phase labels.Phase) (why string, err error)
	// Trip stops the issue and says so once for each source.
	Trip(ctx context.Context, ref forge.Ref, source, why string) error
	// Lifted makes a new start.
	Lifted(ctx context.Context, ref forge.Ref) error
}

// Status says where an issue stands; *report.Reporter is one.
type Status interface {
	// Say brings the issue's status comment up to date and returns Markdown
	// that says where it is and what it says, "" when nothing was started.
	Say(ctx context.Context, ref forge.Ref) (markdown string, err error)
}

// Interrupter reaches work in flight in this process.
type Interrupter interface {
	// End sees to it that a run ends, at rest or claimed, whoever has it now
	// or claims it next.
	End(ctx context.Context, runID string, e checkpoints.Ended) error
	// Halt ends all work in flight of a stop's scope.
	Halt(scope, reason string)
}

// Options are the parts of a Dispatcher; all are required.
type Options struct {
	Forge       Forge
	Store       Store
	Starts      Starts
	Flows       Flows
	Interrupter Interrupter
	Machine     labels.Machine
	// AllowedBots are account ids.
	AllowedBots []int64
	Breaker     Breaker
	Status      Status
	// Comments is the most refusals that an issue is told of in an hour;
	// LooksADay the most looks at issues of outsiders in a repository.
	Comments, LooksADay int
	Clock               clock.Clock
	Log                 *slog.Logger
}

// Dispatcher handles inbox rows.
type Dispatcher struct {
	Options
	issues turns.Turns
}

// New returns a dispatcher.
func New(o Options) *Dispatcher { return &Dispatcher{Options: o} }

// errLater leaves the row pending; the store's sweep brings it back.
var errLater = errors.New("dispatch: not yet")

// Handle works on one inbox row. An error leaves it pending.
func (d *Dispatcher) Handle(ctx context.Context, rowID string) error {
	row, err := d.Store.Received(ctx, rowID)
	if err != nil {
		return fmt.Errorf("reading inbox row %s: %w", rowID, err)
	}
	if row.Decision != "" {
		return nil
	}
	if row.Kind == string(Prune) {
		return d.close(ctx, rowID, Done, "recorded") // whoever did it says what came of it
	}
	var ev forge.Event
	if err := json.Unmarshal(row.Body, &ev); err != nil {
		return d.close(ctx, rowID, "unreadable", "the row cannot be decoded: "+err.Error())
	}
	if labels.IsNoted(ev.Kind) {
		return d.noted(ctx, rowID, ev)
	}
	if labels.IsNews(ev.Kind) {
		return d.news(ctx, row, ev)
	}
	if _, err := forge.ParseRef(ev.Issue.String()); err != nil || ev.Kind == "" {
		return d.close(ctx, rowID, "unreadable", "the row names no event of an issue")
	}
	if idle, err := d.idle(ctx, ev); err != nil || idle {
		if err != nil {
			return d.postpone(ctx, row, err)
		}
		return d.close(ctx, rowID, string(labels.Ignore), "nothing in this event concerns the pipeline")
	}
	// One event of an issue at a time: a webhook and a poll of the same thing
	// must not both find it undone.
	defer d.issues.Take(ev.Issue.String())()
	// A token may come twice: the other one may have decided while this waited.
	if row, err = d.Store.Received(ctx, rowID); err != nil {
		return fmt.Errorf("reading inbox row %s: %w", rowID, err)
	}
	if row.Decision != "" {
		return nil
	}
	log := d.Log.With("issue", ev.Issue.String(), "repo", ev.Issue.Repo.String(), "delivery", rowID)
	decision, in, err := d.decide(ctx, row, ev)
	if errors.Is(err, errLater) {
		log.InfoContext(ctx, "event waits", "event", string(ev.Kind), "label", ev.Label, "why", "the issue's log does not have it yet")
		return nil
	}
	if err != nil {
		return d.postpone(ctx, row, fmt.Errorf("deciding on %s of %s: %w", ev.Kind, ev.Issue, err))
	}
	decision, err = d.apply(ctx, rowID, in, decision)
	if errors.Is(err, errLater) {
		log.InfoContext(ctx, "event waits", "rule", decision.Rule, "why", decision.Why)
		return nil
	}
	if err != nil {
		return d.postpone(ctx, row, fmt.Errorf("applying %s to %s: %w", decision.Action, ev.Issue, err))
	}
	if err := d.noteRefusal(ctx, ev, string(decision.Action), decision.Why); err != nil {
		return d.postpone(ctx, row, err)
	}
	log.InfoContext(ctx, "event decided", "event", string(ev.Kind), "label", ev.Label, "rule", decision.Rule,
		"action", string(decision.Action), "why", decision.Why)
	return d.close(ctx, rowID, string(decision.Action), decision.Why)
}

func (d *Dispatcher) close(ctx context.Context, rowID, decision, why string) error {
	if err := d.Store.Decided(ctx, rowID, decision, why); err != nil {
		return fmt.Errorf("recording the decision on %s: %w", rowID, err)
	}
	return nil
}

// giveUp is how long a row is tried again; failed is its decision then.
const (
	giveUp = 24 * time.Hour
	failed = "failed"
)

// postpone leaves a row pending for the next sweep, or closes it when it was
// tried for a day.
func (d *Dispatcher) postpone(ctx context.Context, row checkpoints.InboxEvent, cause error) error {
	if d.Clock.Now().Sub(row.At) < giveUp {
		return cause
	}
	var ev forge.Event
	if json.Unmarshal(row.Body, &ev) == nil {
		cause = errors.Join(cause, d.noteRefusal(ctx, ev, failed, cause.Error()))
	}
	return errors.Join(cause, d.close(ctx, row.ID, failed, cause.Error()))
}

// decide gathers what the machine needs. The actor's permission is asked only
// when it matters, since most events concern nobody.
func (d *Dispatcher) decide(ctx context.Context, row checkpoints.InboxEvent, ev forge.Event) (labels.Decision, labels.Input, error) {
	in, err := d.input(ctx, row, ev)
	if err != nil {
		return labels.Decision{}, in, err
	}
	if ev.Kind == forge.ManualRun && in.Event.Kind == forge.IssueGone && in.Run == nil {
		why := ev.Issue.String() + " does not exist, or the bot cannot see it"
		return labels.Decision{Action: labels.Refuse, Rule: "no-issue", Why: why}, in, nil
	}
	if order := ev.Order; order != nil && in.Actor.Operator && (order.Shadow || ev.Kind == forge.ManualFork) {
		return d.ordered(ctx, in)
	}
	first := d.Machine.Decide(in)
	if in.Actor.Operator || first.Rule == "none" || first.Rule == "self" || first.Rule == "bot" || first.Action == labels.Ignore && ev.Kind == forge.IssueOpened {
		return first, in, nil
	}
	if ev.Kind != forge.IssueClosed && ev.Kind != forge.IssueGone && ev.Kind != forge.IssueLocked {
		if in.Actor.Permission, err = d.permission(ctx, in); err != nil {
			return labels.Decision{}, in, err
		}
	}
	return d.Machine.Decide(in), in, nil
}

func (d *Dispatcher) permission(ctx context.Context, in labels.Input) (forge.Permission, error) {
	if in.Actor.ID == 0 {
		return forge.None, nil // a deleted account, or nobody that is known
	}
	p, err := d.Forge.Permission(ctx, in.Event.Issue.Repo, in.Actor.Login)
	if err != nil && !forge.IsKind(err, forge.KindNotFound) {
		return forge.None, fmt.Errorf("asking what @%s may do: %w", in.Actor.Login, err)
	}
	return p, nil
}

// sourceCLI marks an operator's event.
const sourceCLI = "cli"

func (d *Dispatcher) input(ctx context.Context, row checkpoints.InboxEvent, ev forge.Event) (labels.Input, error) {
	in := labels.Input{Event: ev}
	self, err := d.Forge.Self(ctx)
	if err != nil {
		return in, fmt.Errorf("asking who the bot is: %w", err)
	}
	issue, err := d.Forge.Issue(ctx, ev.Issue)
	switch {
	case err != nil && ev.Kind == forge.ManualCancel && ev.Source == sourceCLI:
		// An operator can end work on what cannot be read any more.
	case forge.IsKind(err, forge.KindNotFound):
		// GitHub says 404 as well when the bot lost a private repository.
		if _, err := d.Forge.Repository(ctx, ev.Issue.Repo); err != nil {
			return in, fmt.Errorf("reading the repository: %w", err)
		}
		in.Event.Kind = forge.IssueGone
	case err != nil:
		return in, fmt.Errorf("reading the issue: %w", err)
	}
	in.Issue = issue
	if in.Event, err = d.resolve(ctx, in.Event, self, d.Clock.Now().Sub(row.At)); err != nil {
		return in, err
	}
	a := in.Event.Actor
	in.Actor = labels.Actor{
		Actor: a, Self: a.ID != 0 && a.ID == self.ID, Listed: slices.Contains(d.AllowedBots, a.ID),
		Operator: ev.Source == sourceCLI,
	}
	if in.Run, err = d.openRun(ctx, ev); err != nil {
		return in, err
	}
	if in.Approval, in.Asks, err = d.waiting(ctx, in.Event); err != nil {
		return in, err
	}
	if in.Last, err = d.last(ctx, ev); err != nil {
		return in, err
	}
	if in.Changed, err = d.changed(ctx, in); err != nil {
		return in, err
	}
	_, in.Stopped, err = d.Store.StopFor(ctx, ev.Issue.Repo.String(), ev.Issue.Number)
	if err != nil {
		return in, fmt.Errorf("reading the stops: %w", err)
	}
	return in, nil
}

// logTime is how long the issue's log may be behind a webhook.
const logTime = time.Minute

// resolve finds a label event of a webhook in the issue's own log, whose id
// makes it one with what the poller sees. The log may be behind, so that its
// newest entry of the kind is an older one: another actor's entry is another
// event, and its rights must not be lent to this one's. A row that is too
// young for the log comes again later; a stop does not wait.
func (d *Dispatcher) resolve(ctx context.Context, ev forge.Event, self forge.Actor, age time.Duration) (forge.Event, error) {
	if (ev.Kind != forge.Labeled && ev.Kind != forge.Unlabeled) || ev.LogID != 0 || !d.ours(ev.Label) {
		return ev, nil
	}
	log, err := d.Forge.Events(ctx, ev.Issue)
	if err != nil {
		return ev, fmt.Errorf("reading the issue's events: %w", err)
	}
	for _, e := range slices.Backward(log) {
		if e.Kind == string(ev.Kind) && labels.Same(e.Label, ev.Label) && e.Actor.ID == ev.Actor.ID {
			ev.LogID, ev.Actor = e.ID, e.Actor
			return ev, nil
		}
	}
	stops := ev.Kind == forge.Labeled && (labels.Same(ev.Label, d.Machine.Names.Stop) || labels.Same(ev.Label, d.Machine.Names.StopAll))
	if age < logTime && !stops && ev.Actor.ID != self.ID {
		return ev, errLater
	}
	return ev, nil
}

func (d *Dispatcher) ours(label string) bool { return labels.Has(d.Machine.Names.All(), label) }
