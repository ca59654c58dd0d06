package dispatch

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// maxTold is the most characters of an explanation.
const maxTold = 2000

// tell writes one comment, once for each event. The text is harmless Markdown.
func (d *Dispatcher) tell(ctx context.Context, ref forge.Ref, source, text string) error {
	marker := "<!-- pipelinebot:" + source + " -->"
	find := func(ctx context.Context) (json.RawMessage, bool, error) {
		self, err := d.Forge.Self(ctx)
		if err != nil {
			return nil, false, err
		}
		comments, err := d.Forge.Comments(ctx, ref)
		if err != nil {
			return nil, false, err
		}
		for _, c := range comments {
			// Only the bot's own: anybody can write the marker.
			if c.Author.ID == self.ID && strings.HasPrefix(c.Body, marker) {
				return json.RawMessage("true"), true, nil
			}
		}
		return nil, false, nil
	}
	do := func(ctx context.Context) (json.RawMessage, error) {
		_, err := d.Forge.AddComment(ctx, ref, marker+"\n"+text)
		return json.RawMessage("true"), err
	}
	key := "/issue/" + strings.ToLower(ref.String()) + "/tell/" + source
	_, err := checkpoints.Once(ctx, d.Store, key, find, do)
	return err
}

// told is an explanation as one harmless sentence. It may quote what people and
// the forge wrote, which mentions nobody but the actor.
func told(actor, why string) string {
	s := markdown.Inline(why, maxTold)
	if actor != "" {
		s = strings.ReplaceAll(s, markdown.Inline("@"+actor, maxTold), "@"+actor)
	}
	return upperFirst(s) + "."
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
