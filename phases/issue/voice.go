package issue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

const markerStart = "<!-- pipelinebot:"

// Marker is the hidden first line of a comment or review, by which it is found
// again after a crash. Pairs are keys and values; neither may hold spaces.
func Marker(kind string, pairs ...string) string {
	var b strings.Builder
	b.WriteString(markerStart + kind)
	for i := 0; i+1 < len(pairs); i += 2 {
		// "--" would end the HTML comment.
		b.WriteString(" " + pairs[i] + "=" + strings.ReplaceAll(pairs[i+1], "--", "-"))
	}
	b.WriteString(" -->")
	return b.String()
}

// Marked reports that body begins with marker. Only the beginning counts:
// everything further down may quote other people's text.
func Marked(body, marker string) bool {
	return strings.HasPrefix(body, marker)
}

// BodyHash is the sha256 in hex of a comment as the forge gives it back; line
// ends and trailing space don't count.
func BodyHash(body string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:])
}

// Speaker is what writing a comment once needs.
type Speaker interface {
	Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error)
	AddComment(ctx context.Context, ref forge.Ref, body string) (forge.Comment, error)
	Self(ctx context.Context) (forge.Actor, error)
}

// Posted is a comment that was written.
type Posted struct {
	ID   int64  `json:"id"`
	URL  string `json:"url"`
	Hash string `json:"hash"` // BodyHash
}

// Body is marker and text as they are sent: scrubbed and capped.
func Body(s *secret.Scrubber, marker, text string) string {
	return markdown.Cap(s.Scrub(marker+"\n"+text), markdown.MaxBody)
}

// Say writes one comment exactly once. name is the effect's name within the
// node. A comment of the bot's own that begins with marker and still has the
// wanted text is adopted.
func Say(ctx context.Context, c flows.Call, sp Speaker, scrub *secret.Scrubber, name, marker, text string) (Posted, error) {
	ref, err := Ref(c)
	if err != nil {
		return Posted{}, err
	}
	body := Body(scrub, marker, text)
	raw, err := c.Effects.Once(ctx, name,
		func(ctx context.Context) (json.RawMessage, bool, error) {
			found, ok, err := FindComment(ctx, sp, ref, marker, BodyHash(body))
			if err != nil || !ok {
				return nil, false, err
			}
			return posted(found)
		},
		func(ctx context.Context) (json.RawMessage, error) {
			made, err := sp.AddComment(ctx, ref, body)
			if err != nil {
				return nil, err
			}
			v, _, err := posted(made)
			return v, err
		})
	if err != nil {
		return Posted{}, err
	}
	var p Posted
	if err := json.Unmarshal(raw, &p); err != nil {
		return Posted{}, fmt.Errorf("reading the recorded comment: %w", err)
	}
	return p, nil
}

// FindComment finds the bot's own comment that begins with marker; hash, when
// not empty, must be its BodyHash.
func FindComment(ctx context.Context, sp Speaker, ref forge.Ref, marker, hash string) (forge.Comment, bool, error) {
	self, err := sp.Self(ctx)
	if err != nil {
		return forge.Comment{}, false, fmt.Errorf("asking who the bot is: %w", err)
	}
	all, err := sp.Comments(ctx, ref)
	if err != nil {
		return forge.Comment{}, false, fmt.Errorf("reading the comments of %s: %w", ref, err)
	}
	for _, c := range all {
		if SameActor(c.Author, self) && Marked(c.Body, marker) && (hash == "" || BodyHash(c.Body) == hash) {
			return c, true, nil
		}
	}
	return forge.Comment{}, false, nil
}

func posted(c forge.Comment) (json.RawMessage, bool, error) {
	v, err := json.Marshal(Posted{ID: c.ID, URL: c.HTMLURL, Hash: BodyHash(c.Body)})
	return v, true, err
}
