// Package report writes the one status comment of an issue: it gathers what
// the store knows and keeps the comment up to date, found again by a stored id
// or by its marker, made anew when somebody deleted it.
//
// It must not know how runs are worked on; phases/status says how the comment
// looks. It may import checkpoints, flows, labels,
// internal/{clock,forge,handoff,secret,turns}, phases/{markdown,status}.
package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	live   live
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
	ref, err := forge.IssueRef(run.Repo, run.Issue)
	if err != nil {
		return fmt.Errorf("writing the status of run %s: %w", run.ID, err)
	}
	defer r.issues.Take(ref.String())()
	_, _, err = r.post(ctx, ref, run, s, false)
	return err
}

// post is Post within the issue's turn. anew writes the comment although it
// says the same already: somebody may have deleted or changed it.
func (r *Reporter) post(ctx context.Context, ref forge.Ref, run checkpoints.Run, s State, anew bool) (v status.View, p placed, err error) {
	if p, err = r.find(ctx, ref); err != nil {
		return v, p, fmt.Errorf("finding the status of %s: %w", ref, err)
	}
	if v, err = r.view(ctx, ref, run, s, p); err != nil {
		return v, p, fmt.Errorf("gathering the status of %s: %w", ref, err)
	}
	// Asked last: gathering may have taken a while.
	now, err := r.store.Get(ctx, run.ID)
	if err != nil {
		return v, p, fmt.Errorf("reading run %s: %w", run.ID, err)
	}
	if now.Epoch > run.Epoch {
		return v, p, nil
	}
	if p, err = r.write(ctx, ref, p, r.scrub.Scrub(status.Render(v)), anew); err != nil {
		return v, p, fmt.Errorf("writing the status of %s: %w", ref, err)
	}
	return v, p, nil
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
	// URL is its address, Hash that of the text it was last given; "" in what
	// an earlier version recorded.
	URL  string `json:"url,omitempty"`
	Hash string `json:"hash,omitempty"`
}

func effectKey(ref forge.Ref) string { return "issue/" + strings.ToLower(ref.String()) + "/status" }

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:12])
}

// write edits the known comment or adds it. One that says the same already is
// left alone: every edit costs a write and shows in the comment's history.
func (r *Reporter) write(ctx context.Context, ref forge.Ref, p placed, body string, anew bool) (placed, error) {
	hash := hashOf(body)
	if p.ID != 0 && p.Hash == hash && !anew {
		return p, nil
	}
	if p.ID != 0 {
		c, err := r.forge.EditComment(ctx, ref.Repo, p.ID, body)
		if err == nil {
			return r.remember(ctx, ref, placed{p.ID, or(c.HTMLURL, p.URL), hash})
		}
		if !forge.IsKind(err, forge.KindNotFound) {
			return p, err
		}
		// Somebody deleted it: the issue gets a new one.
	}
	c, err := r.forge.AddComment(ctx, ref, body)
	if err != nil {
		return p, err
	}
	return r.remember(ctx, ref, placed{c.ID, c.HTMLURL, hash})
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (r *Reporter) remember(ctx context.Context, ref forge.Ref, p placed) (placed, error) {
	value, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	return p, r.store.RecordEffect(ctx, effectKey(ref), value)
}

// find returns the comment, the zero value when there is none.
func (r *Reporter) find(ctx context.Context, ref forge.Ref) (p placed, err error) {
	value, err := r.store.Effect(ctx, effectKey(ref))
	if err == nil {
		if err := json.Unmarshal(value, &p); err != nil {
			return p, fmt.Errorf("reading where the comment is: %w", err)
		}
		return p, nil
	}
	if !errors.Is(err, checkpoints.ErrNotFound) {
		return p, err
	}
	self, err := r.forge.Self(ctx)
	if err != nil {
		return p, err
	}
	comments, err := r.forge.Comments(ctx, ref)
	if err != nil {
		return p, err
	}
	for _, c := range comments {
		// Only the bot's own: anybody can write the marker.
		if c.Author.ID == self.ID && strings.HasPrefix(c.Body, status.Marker) {
			return r.remember(ctx, ref, placed{ID: c.ID, URL: c.HTMLURL})
		}
	}
	return p, nil
}
