// Package issue is what every phase needs of an issue: a snapshot of its text
// as it was when the phase looked, sorted by who wrote it; comments written
// once and found again by a hidden marker; and the shared ways in which a
// phase ends early or asks to be tried again.
//
// It must not know models, git or any one phase. It may import flows,
// labels, internal/{forge,secret,workspace} and phases/{blob,markdown}.
package issue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// Reader is what a snapshot reads; forge.Reader and forge.Comments together
// have it.
type Reader interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	Permission(ctx context.Context, r forge.Repo, login string) (forge.Permission, error)
	Self(ctx context.Context) (forge.Actor, error)
}

// Tier says how far a writer's word goes. It is told to the model, and it
// decides nothing by itself.
type Tier string

// The tiers.
const (
	Maintainer Tier = "maintainer" // write permission or more
	Reporter   Tier = "reporter"   // wrote the issue
	Member     Tier = "member"     // read or triage permission
	Stranger   Tier = "stranger"
	Pipeline   Tier = "pipeline" // this bot's own question
)

// The bounds of a snapshot; what is left out is counted.
const (
	MaxComments = 60
	MaxText     = 30_000 // characters of the issue's body
	MaxComment  = 8_000  // characters of one comment
)

// Said is one comment.
type Said struct {
	ID    int64     `json:"id"`
	Login string    `json:"login"`
	Tier  Tier      `json:"tier"`
	Text  string    `json:"text"`
	At    time.Time `json:"at"`
}

// Snapshot is the issue as it was, visible text only.
type Snapshot struct {
	Ref    forge.Ref `json:"ref"`
	URL    string    `json:"url"`
	Title  string    `json:"title"`
	Body   string    `json:"body"`
	Login  string    `json:"login"`
	Tier   Tier      `json:"tier"`
	Labels []string  `json:"labels"`
	// Comments are people's, oldest first; bots' are left out.
	Comments []Said `json:"comments"`
	// LeftOut counts older comments beyond MaxComments.
	LeftOut int `json:"left_out,omitempty"`
	// TextHash binds a plan to title and body.
	TextHash string `json:"text_hash"`
}

// TextHash is the sha256 in hex of an issue's title and body; line ends and
// trailing space don't count, since forges change them.
func TextHash(title, body string) string {
	norm := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	sum := sha256.Sum256([]byte(norm(title) + "\x00" + norm(body)))
	return hex.EncodeToString(sum[:])
}

// Take reads the issue and its comments.
func Take(ctx context.Context, r Reader, i forge.Issue) (Snapshot, error) {
	comments, err := r.Comments(ctx, i.Ref)
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading the comments of %s: %w", i.Ref, err)
	}
	self, err := r.Self(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("asking who the bot is: %w", err)
	}
	t := tiers{r: r, repo: i.Ref.Repo, known: map[string]Tier{}}
	s := Snapshot{
		Ref: i.Ref, URL: i.HTMLURL, Login: i.Author.Login, Labels: i.Labels,
		Title:    short(markdown.Visible(i.Title), 500),
		Body:     short(markdown.Visible(i.Body), MaxText),
		TextHash: TextHash(i.Title, i.Body),
	}
	if s.Tier, err = t.of(ctx, i.Author); err != nil {
		return Snapshot{}, err
	}
	if s.Tier == Stranger {
		s.Tier = Reporter
	}
	kept := relevant(comments, self)
	if len(kept) > MaxComments {
		s.LeftOut, kept = len(kept)-MaxComments, kept[len(kept)-MaxComments:]
	}
	for _, c := range kept {
		said := Said{ID: c.ID, Login: c.Author.Login, Text: short(strings.TrimSpace(markdown.Visible(c.Body)), MaxComment), At: c.Created}
		switch {
		case SameActor(c.Author, self):
			said.Tier = Pipeline
		case SameActor(c.Author, i.Author):
			said.Tier = s.Tier
		default:
			if said.Tier, err = t.of(ctx, c.Author); err != nil {
				return Snapshot{}, err
			}
		}
		s.Comments = append(s.Comments, said)
	}
	return s, nil
}

// Text is the snapshot for a prompt. All of it is data written by others.
func (s Snapshot) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Issue %s by %s (%s)\n", s.Ref, s.Login, s.Tier)
	if len(s.Labels) > 0 {
		fmt.Fprintf(&b, "Labels: %s\n", strings.Join(s.Labels, ", "))
	}
	fmt.Fprintf(&b, "Title: %s\n\n%s\n", s.Title, s.Body)
	if s.LeftOut > 0 {
		fmt.Fprintf(&b, "\n(%d older comments are left out)\n", s.LeftOut)
	}
	for _, c := range s.Comments {
		fmt.Fprintf(&b, "\n--- comment by %s (%s)\n%s\n", c.Login, c.Tier, c.Text)
	}
	return b.String()
}

// SameActor compares accounts by id, since REST and GraphQL spell the logins
// of bots differently; by login only when an id is missing.
func SameActor(a, b forge.Actor) bool {
	if a.ID != 0 && b.ID != 0 {
		return a.ID == b.ID
	}
	return a.Login != "" && strings.EqualFold(strings.TrimSuffix(a.Login, "[bot]"), strings.TrimSuffix(b.Login, "[bot]"))
}

// relevant drops bots' comments, except this bot's own questions, without
// which the answers cannot be understood.
func relevant(all []forge.Comment, self forge.Actor) []forge.Comment {
	var kept []forge.Comment
	for _, c := range all {
		if SameActor(c.Author, self) {
			if strings.HasPrefix(c.Body, markerStart+"question ") {
				kept = append(kept, c)
			}
			continue
		}
		if !c.Author.Bot && strings.TrimSpace(markdown.Visible(c.Body)) != "" {
			kept = append(kept, c)
		}
	}
	return kept
}

// tiers asks for each writer's permission once.
type tiers struct {
	r     Reader
	repo  forge.Repo
	known map[string]Tier
}

func (t tiers) of(ctx context.Context, a forge.Actor) (Tier, error) {
	if a.ID == 0 || a.Login == "" {
		return Stranger, nil // a deleted account
	}
	if tier, ok := t.known[a.Login]; ok {
		return tier, nil
	}
	p, err := t.r.Permission(ctx, t.repo, a.Login)
	if err != nil {
		return "", fmt.Errorf("asking what %s may do in %s: %w", a.Login, t.repo, err)
	}
	tier := Stranger
	switch {
	case p >= forge.Write:
		tier = Maintainer
	case p >= forge.Read:
		tier = Member
	}
	t.known[a.Login] = tier
	return tier, nil
}

func short(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit]) + "\n[… cut]"
}
