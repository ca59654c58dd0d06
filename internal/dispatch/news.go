package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// noted closes a row from which nothing follows. A label of ours that somebody
// changed in the repository is worth a line to the operator.
func (d *Dispatcher) noted(ctx context.Context, rowID string, ev forge.Event) error {
	if ev.Kind == forge.LabelChanged && ev.Action != "created" && (d.ours(ev.Label) || ev.Was != "" && d.ours(ev.Was)) {
		d.Log.WarnContext(ctx, "a label of the pipeline was changed in the repository", "repo", ev.Issue.Repo.String(), "label", ev.Label, "was", ev.Was,
			"action", ev.Action, "do", "pipelinebot labels plan")
	}
	dec := d.Machine.Decide(labels.Input{Event: ev})
	return d.close(ctx, rowID, string(dec.Action), dec.Why)
}

// news lets runs look again that wait to look at what the event is about.
func (d *Dispatcher) news(ctx context.Context, row checkpoints.InboxEvent, ev forge.Event) error {
	since, err := d.looks(ctx, ev)
	if err != nil {
		return d.postpone(ctx, row, err)
	}
	dec := d.Machine.Decide(labels.Input{Event: ev, Looks: slices.Sorted(maps.Keys(since))})
	for _, id := range dec.Runs {
		err := d.Store.Nudge(ctx, id, since[id])
		if err != nil && !errors.Is(err, checkpoints.ErrNotFound) && !errors.Is(err, checkpoints.ErrConflict) {
			return d.postpone(ctx, row, fmt.Errorf("waking run %s: %w", id, err))
		}
	}
	d.Log.InfoContext(ctx, "event decided", "event", string(ev.Kind), "repo", ev.Issue.Repo.String(), "pull", pullOf(ev), "rule", dec.Rule, "action", string(dec.Action), "runs", dec.Runs)
	return d.close(ctx, row.ID, string(dec.Action), dec.Why)
}

// checksEvery is how often a run looks at checks because they change: it
// counts its looks, and a commit may have hundreds of checks.
const checksEvery = 30 * time.Second

// looks are the runs that wait to look again at what the event is about, and
// since when.
func (d *Dispatcher) looks(ctx context.Context, ev forge.Event) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for r, err := range d.runs(ctx, checkpoints.Filter{Repo: ev.Issue.Repo.String(), Statuses: []checkpoints.Status{checkpoints.Waiting}}) {
		if err != nil {
			return nil, fmt.Errorf("looking for runs that wait in %s: %w", ev.Issue.Repo, err)
		}
		if r.Wait == nil || !r.Wait.Looks || !concerns(ev, r) {
			continue
		}
		if ev.Kind == forge.ChecksChanged && d.Clock.Now().Sub(r.Wait.Since) < checksEvery {
			continue // it looks by itself soon
		}
		out[r.ID] = r.Wait.Since
	}
	return out, nil
}

func pullOf(ev forge.Event) int {
	if ev.Pull != 0 {
		return ev.Pull
	}
	return ev.Issue.Number
}

// concerns reports that an event is about the pull request, the branch or the
// commit in a run's state. A state that cannot be read is about nothing.
func concerns(ev forge.Event, r checkpoints.Run) bool {
	state, err := flows.DecodeState(r.State)
	if err != nil {
		return false
	}
	same := func(key, value string) bool { return value != "" && state.Str(key) == value }
	n := pullOf(ev)
	return n != 0 && state.Int("pr") == n || same("head_sha", ev.SHA) || same("branch", strings.TrimPrefix(ev.Head, "refs/heads/"))
}

// idle reports that an event can concern nothing, by what the store knows:
// most comments and closings are of issues that the pipeline has nothing to do
// with, and reading each of them would cost a request.
func (d *Dispatcher) idle(ctx context.Context, ev forge.Event) (bool, error) {
	switch ev.Kind {
	case forge.Labeled, forge.Unlabeled:
		return !d.ours(ev.Label), nil
	case forge.IssueOpened:
		return !d.Machine.Policy.Outsiders, nil
	case forge.Commented:
		if _, command := labels.ParseCommand(commentOf(ev)); command {
			return false, nil
		}
	case forge.IssueEdited, forge.IssueClosed, forge.IssueGone, forge.IssueLocked:
	default:
		return false, nil
	}
	open, err := d.Store.IDs(ctx, checkpoints.Filter{Repo: ev.Issue.Repo.String(), Issue: ev.Issue.Number, Statuses: []checkpoints.Status{
		checkpoints.Queued, checkpoints.Ready, checkpoints.Running, checkpoints.Waiting, checkpoints.Halted, checkpoints.Ending,
	}})
	if err != nil {
		return false, fmt.Errorf("looking for the open runs of %s: %w", ev.Issue, err)
	}
	return len(open) == 0, nil
}
