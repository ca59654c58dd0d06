package issue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/forge"
	"github.com/pipelinebot/pipelinebot/labels"
)

// Labeler changes the labels of an issue.
type Labeler interface {
	Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error)
	AddLabel(ctx context.Context, ref forge.Ref, name string) error
	RemoveLabel(ctx context.Context, ref forge.Ref, name string) error
}

// SetLabel makes one label be there (or not) exactly once, under the effect
// name "label/+name" or "label/-name".
func SetLabel(ctx context.Context, c flows.Call, l Labeler, name string, there bool) error {
	ref, err := Ref(c)
	if err != nil {
		return err
	}
	sign, change := "+", l.AddLabel
	if !there {
		sign, change = "-", l.RemoveLabel
	}
	_, err = c.Effects.Once(ctx, "label/"+sign+name,
		func(ctx context.Context) (json.RawMessage, bool, error) {
			i, err := l.Issue(ctx, ref)
			if err != nil {
				return nil, false, fmt.Errorf("reading the labels of %s: %w", ref, err)
			}
			return nil, labels.Has(i.Labels, name) == there, nil
		},
		func(ctx context.Context) (json.RawMessage, error) { return nil, change(ctx, ref, name) })
	return err
}
