package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// intend is an effect of a shadow run: it looks, and never does. What it finds,
// or null, is recorded as what it intended, and returned.
func (e effects) intend(ctx context.Context, key string, find checkpoints.Find) (json.RawMessage, error) {
	value := json.RawMessage("null")
	if find != nil {
		found, ok, err := find(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("looking for effect %s in the world: %w", key, err)
		case ok && len(found) > 0:
			value = found
		}
	}
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("effect %s: %w", key, err)
	}
	if err := (watched{e.c.w, e.c.w.e.Store}).RecordEffect(ctx, checkpoints.ShadowKey(key), value); err != nil {
		return nil, fmt.Errorf("recording the intended effect %s: %w", key, err)
	}
	return value, nil
}
