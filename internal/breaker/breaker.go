// Package breaker stops cycles that do not advance: a phase of an issue that
// is started again and again and ends alike each time, with no new commit,
// plan or text and no word of a person in between. Who starts it does not
// matter: another bot, a flow of the project's own, or a person with a script.
//
// It must not know how runs are started or worked on. It may import
// checkpoints, flows, labels and internal/{clock,forge}.
package breaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Forge is what the breaker does on the forge.
type Forge interface {
	Self(ctx context.Context) (forge.Actor, error)
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error)
	AddLabel(ctx context.Context, ref forge.Ref, name string) error
}

// Store is the part of the store that it uses.
type Store interface {
	List(ctx context.Context, f checkpoints.Filter) ([]checkpoints.Run, error)
	SetStop(ctx context.Context, s checkpoints.Stop) error
	checkpoints.Effects
}

// Options are the parts of a Breaker; all are required.
type Options struct {
	Forge Forge
	Store Store
	// Label is the stop label.
	Label string
	Clock clock.Clock
	// Window is how far back runs count, Starts how many may end alike.
	Window time.Duration
	Starts int
}

// By is who latches the stop.
const By = "breaker"

// Breaker counts what the store keeps, so that a restart forgets nothing.
type Breaker struct{ Options }

// New returns a breaker.
func New(o Options) *Breaker { return &Breaker{o} }

// Check says in words why a phase of an issue must not be started once more,
// "" when it may.
func (b *Breaker) Check(ctx context.Context, ref forge.Ref, phase labels.Phase) (why string, err error) {
	since, err := b.since(ctx, ref)
	if err != nil {
		return "", err
	}
	alike, err := b.alike(ctx, ref, phase, since)
	if err != nil || len(alike) < b.Starts {
		return "", err
	}
	spoke, err := b.spoke(ctx, ref)
	if err != nil {
		return "", err
	}
	n := 0
	for _, r := range alike {
		if r.Created.After(spoke) {
			n++
		}
	}
	if n < b.Starts {
		return "", nil
	}
	how := alike[0].Result
	if c := alike[0].Code; c != "" && c != how {
		how += ", " + c
	}
	return fmt.Sprintf("the %s phase was started %d times within %s and ended alike each time (%s), with no new commit, plan or text and no word of a person in between",
		phase, n, b.Window, how), nil
}

// since is the instant before which nothing counts: the window's begin, or
// when a person last lifted a stop.
func (b *Breaker) since(ctx context.Context, ref forge.Ref) (time.Time, error) {
	begin := b.Clock.Now().Add(-b.Window)
	value, err := b.Store.Effect(ctx, liftedKey(ref))
	if errors.Is(err, checkpoints.ErrNotFound) {
		return begin, nil
	}
	var lifted time.Time
	if err == nil {
		err = json.Unmarshal(value, &lifted)
	}
	if err != nil {
		return begin, fmt.Errorf("looking for when the stop of %s was lifted: %w", ref, err)
	}
	if lifted.After(begin) {
		return lifted, nil
	}
	return begin, nil
}

// alike are the newest runs of the phase that are over and ended as the last
// one did, newest first.
func (b *Breaker) alike(ctx context.Context, ref forge.Ref, phase labels.Phase, since time.Time) ([]checkpoints.Run, error) {
	runs, err := b.Store.List(ctx, checkpoints.Filter{
		Repo: ref.Repo.String(), Issue: ref.Number, Phase: string(phase), Roots: true, Limit: 4 * b.Starts,
		Statuses: []checkpoints.Status{checkpoints.Done, checkpoints.Failed, checkpoints.Cancelled},
	})
	if err != nil {
		return nil, fmt.Errorf("counting the %s runs of %s: %w", phase, ref, err)
	}
	var out []checkpoints.Run
	first := ""
	for _, r := range runs {
		if r.Mode == checkpoints.ModeShadow {
			continue
		}
		m := mark(r)
		if len(out) == 0 {
			first = m
		}
		if m != first || r.Created.Before(since) {
			break
		}
		out = append(out, r)
	}
	return out, nil
}

// mark is what a run came to: equal marks mean that nothing has moved. A state
// that cannot be read moves nothing.
func mark(r checkpoints.Run) string {
	parts := []string{r.Result, r.Code}
	if state, err := flows.DecodeState(r.State); err == nil {
		for _, key := range []string{"head_sha", "plan_hash", "text_hash"} {
			parts = append(parts, state.Str(key))
		}
	}
	return strings.Join(parts, "\x00")
}

// spoke is when a person last said something on the issue that is no command;
// a revision is one that says something.
func (b *Breaker) spoke(ctx context.Context, ref forge.Ref) (at time.Time, err error) {
	comments, err := b.Forge.Comments(ctx, ref)
	if err != nil {
		return at, fmt.Errorf("reading the comments of %s: %w", ref, err)
	}
	self, err := b.Forge.Self(ctx)
	if err != nil {
		return at, fmt.Errorf("asking who the bot is: %w", err)
	}
	for _, c := range comments {
		cmd, command := labels.ParseCommand(c.Body)
		if c.Author.Bot || c.Author.ID == self.ID || c.Author.ID == 0 || command && cmd.Verb != "revise" {
			continue
		}
		if c.Created.After(at) {
			at = c.Created
		}
	}
	return at, nil
}

// Trip stops the issue: a latch, its label, and one comment that says why.
// source names what was not done; twice the same is once.
func (b *Breaker) Trip(ctx context.Context, ref forge.Ref, source, why string) error {
	if err := b.Store.SetStop(ctx, checkpoints.Stop{Scope: ref.String(), By: By, Reason: why, At: b.Clock.Now()}); err != nil {
		return fmt.Errorf("latching the stop: %w", err)
	}
	// The latch holds without its label, and the label says it without words.
	if err := b.Forge.AddLabel(ctx, ref, b.Label); err != nil && !no(err) {
		return fmt.Errorf("adding label %s: %w", b.Label, err)
	}
	marker := "<!-- pipelinebot:breaker/" + source + " -->"
	find := func(ctx context.Context) (json.RawMessage, bool, error) { return b.said(ctx, ref, marker) }
	do := func(ctx context.Context) (json.RawMessage, error) {
		_, err := b.Forge.AddComment(ctx, ref, marker+"\n"+words(why, b.Label))
		if no(err) {
			err = nil // the latch holds whether it can be said or not
		}
		return json.RawMessage("true"), err
	}
	if _, err := checkpoints.Once(ctx, b.Store, issueKey(ref)+"breaker/"+source, find, do); err != nil {
		return fmt.Errorf("telling that the issue was stopped: %w", err)
	}
	return nil
}

// said looks for the bot's own comment with a marker: anybody can write one.
func (b *Breaker) said(ctx context.Context, ref forge.Ref, marker string) (json.RawMessage, bool, error) {
	self, err := b.Forge.Self(ctx)
	if err != nil {
		return nil, false, err
	}
	comments, err := b.Forge.Comments(ctx, ref)
	for _, c := range comments {
		if c.Author.ID == self.ID && strings.HasPrefix(c.Body, marker) {
			return json.RawMessage("true"), true, nil
		}
	}
	return nil, false, err
}

// words is the comment. why holds no text of others but a flow's result, which
// is a word of the flow's own.
func words(why, label string) string {
	return "Stopped, since this leads nowhere: " + why + ".\n\n" +
		"Nothing starts on this issue until a person lifts the stop: change what keeps it from getting on, " +
		"then comment `/pipeline resume` or remove the label `" + label + "`.\n"
}

// Lifted makes a new start: what was before it does not count any more.
func (b *Breaker) Lifted(ctx context.Context, ref forge.Ref) error {
	value, err := json.Marshal(b.Clock.Now())
	if err == nil {
		err = b.Store.RecordEffect(ctx, liftedKey(ref), value)
	}
	if err != nil {
		return fmt.Errorf("recording that the stop of %s was lifted: %w", ref, err)
	}
	return nil
}

func liftedKey(ref forge.Ref) string { return issueKey(ref) + "lifted" }

func issueKey(ref forge.Ref) string { return "issue/" + strings.ToLower(ref.String()) + "/" }

// no reports that the forge said no for good.
func no(err error) bool {
	return forge.IsKind(err, forge.KindDenied) || forge.IsKind(err, forge.KindInvalid) || forge.IsKind(err, forge.KindNotFound)
}
