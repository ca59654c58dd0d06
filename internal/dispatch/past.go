package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/issue"
)

// lookedAt is how many runs, newest first, the last one is looked for in.
const lookedAt = 20

// last is the issue's newest run that is over, for what asks about it. A look
// at an outsider's issue counts for whether there was one only.
func (d *Dispatcher) last(ctx context.Context, ev forge.Event) (*labels.Last, error) {
	_, command := labels.ParseCommand(commentOf(ev))
	if ev.Kind != forge.IssueOpened && (ev.Kind != forge.Commented || !command) {
		return nil, nil
	}
	runs, err := d.Store.List(ctx, checkpoints.Filter{Repo: ev.Issue.Repo.String(), Issue: ev.Issue.Number, Roots: true, Limit: lookedAt})
	if err != nil {
		return nil, fmt.Errorf("looking for earlier runs of %s: %w", ev.Issue, err)
	}
	for _, r := range runs {
		if r.Status.Final() && (r.Mode != checkpoints.ModeShadow || ev.Kind == forge.IssueOpened) {
			return &labels.Last{Phase: labels.Phase(r.Phase), Result: r.Result}, nil
		}
	}
	return nil, nil
}

// changed reports that an edited issue's text is not the one that the run has
// read which waits for an answer. A run that keeps no text has read nothing.
func (d *Dispatcher) changed(ctx context.Context, in labels.Input) (bool, error) {
	id := in.Asks
	if in.Run != nil && in.Run.Awaits == "answer" {
		id = in.Run.ID
	}
	if in.Event.Kind != forge.IssueEdited || id == "" {
		return false, nil
	}
	run, err := d.Store.Get(ctx, id)
	if err != nil {
		return false, fmt.Errorf("reading run %s: %w", id, err)
	}
	state, err := flows.DecodeState(run.State)
	if err != nil {
		return false, fmt.Errorf("run %s: %w", id, err)
	}
	read := state.Str("text_hash")
	return read == "" || read != issue.TextHash(in.Issue.Title, in.Issue.Body), nil
}

// ahead is a stop that was latched before the issue's log had its entry; Log is
// the entry's id since.
type ahead struct {
	At  time.Time `json:"at"`
	Log int64     `json:"log,omitempty"`
}

// latchedAhead reports that a stop label that has its entry in the log now was
// obeyed before it had one: somebody may have lifted that stop meanwhile. One
// without an entry is remembered. The next label of the same person is another
// stop.
func (d *Dispatcher) latchedAhead(ctx context.Context, ev forge.Event) (bool, error) {
	if ev.Kind != forge.Labeled {
		return false, nil // a command has an id from the beginning
	}
	key := "/issue/" + strings.ToLower(ev.Issue.String()) + "/ahead/" + strconv.FormatInt(ev.Actor.ID, 10) + "/" + strings.ToLower(ev.Label)
	keep := func(a ahead) error {
		value, err := json.Marshal(a)
		if err == nil {
			err = d.Store.RecordEffect(ctx, key, value)
		}
		if err != nil {
			return fmt.Errorf("recording a stop that the issue's log does not have yet: %w", err)
		}
		return nil
	}
	if ev.LogID == 0 {
		return false, keep(ahead{At: ev.At})
	}
	var a ahead
	value, err := d.Store.Effect(ctx, key)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(value, &a)
	}
	if err != nil {
		return false, fmt.Errorf("looking for a stop that was latched before: %w", err)
	}
	if a.Log == ev.LogID {
		return true, nil
	}
	if a.Log != 0 || ev.At.Sub(a.At).Abs() > 2*logTime {
		return false, nil
	}
	a.Log = ev.LogID
	return true, keep(a)
}
