// Package report writes the one status comment of an issue: it gathers what
// the store knows and keeps the comment up to date, found again by a stored id
// or by its marker, made anew when somebody deleted it.
//
// It must not know how runs are worked on; phases/status says how the comment
// looks. It may import checkpoints, flows, labels,
// internal/{forge,secret,turns}, phases/status.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/internal/turns"
	"github.com/pipelinebot/pipelinebot/labels"
	"github.com/pipelinebot/pipelinebot/phases/status"
)

// Forge is what the reporter does on the forge.
type Forge interface {
	forge.Comments
	Self(ctx context.Context) (forge.Actor, error)
	Pull(ctx context.Context, ref forge.Ref) (forge.Pull, error)
}

// Store is the part of the store that it reads.
type Store interface {
	Get(ctx context.Context, id string) (checkpoints.Run, error)
	List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error)
	History(ctx context.Context, id string) ([]checkpoints.NodeRecord, error)
	checkpoints.Effects
}

// State is where a run stands when a comment is due.
type State string

// The states.
const (
	Working State = "working"
	Waiting State = "waiting"
	Halted  State = "halted"
	Ended   State = "ended"
)

// Reporter writes status comments.
type Reporter struct {
	forge Forge
	store Store
	names labels.Names
	scrub *secret.Scrubber
	// issues keeps two posts on one issue apart: each would find no comment
	// yet, or write an older view over a newer one.
	issues turns.Turns
}

// New returns a reporter.
func New(f Forge, s Store, names labels.Names, scrub *secret.Scrubber) *Reporter {
	return &Reporter{forge: f, store: s, names: names, scrub: scrub}
}

// Post brings the comment of the run's issue up to date. The run is as the
// caller has it: its result may not be stored yet. When somebody else has
// claimed the run meanwhile, the comment is theirs to write and nothing is
// written.
func (r *Reporter) Post(ctx context.Context, run checkpoints.Run, s State) error {
	ref, err := forge.ParseRef(run.Key)
	if err != nil {
		return fmt.Errorf("writing the status of run %s: %w", run.ID, err)
	}
	defer r.issues.Take(ref.String())()
	view, err := r.view(ctx, ref, run, s)
	if err != nil {
		return fmt.Errorf("gathering the status of %s: %w", ref, err)
	}
	// Asked last: gathering may have taken a while.
	now, err := r.store.Get(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("reading run %s: %w", run.ID, err)
	}
	if now.Epoch > run.Epoch {
		return nil
	}
	if err := r.write(ctx, ref, r.scrub.Scrub(status.Render(view))); err != nil {
		return fmt.Errorf("writing the status of %s: %w", ref, err)
	}
	return nil
}

// Saved remembers the branch that holds a run's unfinished work.
func (r *Reporter) Saved(ctx context.Context, runID, branch string) error {
	value, err := json.Marshal(branch)
	if err != nil {
		return fmt.Errorf("encoding the branch %s: %w", branch, err)
	}
	return r.store.RecordEffect(ctx, savedKey(runID), value)
}

func savedKey(runID string) string { return "run/" + runID + "/saved" }

// placed is the recorded comment.
type placed struct {
	ID int64 `json:"id"`
}

func effectKey(ref forge.Ref) string { return "issue/" + strings.ToLower(ref.String()) + "/status" }

// write edits the known comment, or finds it by its marker, or adds it.
func (r *Reporter) write(ctx context.Context, ref forge.Ref, body string) error {
	id, err := r.find(ctx, ref)
	if err != nil {
		return err
	}
	if id != 0 {
		_, err := r.forge.EditComment(ctx, ref.Repo, id, body)
		if !forge.IsKind(err, forge.KindNotFound) {
			return err
		}
		// Somebody deleted it: the issue gets a new one.
	}
	c, err := r.forge.AddComment(ctx, ref, body)
	if err != nil {
		return err
	}
	return r.remember(ctx, ref, c.ID)
}

func (r *Reporter) remember(ctx context.Context, ref forge.Ref, id int64) error {
	value, err := json.Marshal(placed{id})
	if err != nil {
		return err
	}
	return r.store.RecordEffect(ctx, effectKey(ref), value)
}

// find returns the comment's id, 0 when there is none.
func (r *Reporter) find(ctx context.Context, ref forge.Ref) (int64, error) {
	value, err := r.store.Effect(ctx, effectKey(ref))
	if err == nil {
		var p placed
		if err := json.Unmarshal(value, &p); err != nil {
			return 0, fmt.Errorf("reading where the comment is: %w", err)
		}
		return p.ID, nil
	}
	if !errors.Is(err, checkpoints.ErrNotFound) {
		return 0, err
	}
	self, err := r.forge.Self(ctx)
	if err != nil {
		return 0, err
	}
	comments, err := r.forge.Comments(ctx, ref)
	if err != nil {
		return 0, err
	}
	for _, c := range comments {
		// Only the bot's own: anybody can write the marker.
		if c.Author.ID == self.ID && strings.HasPrefix(c.Body, status.Marker) {
			return c.ID, r.remember(ctx, ref, c.ID)
		}
	}
	return 0, nil
}
