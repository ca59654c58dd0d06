package checkpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Find looks for an effect in the world; found is false when it is not there.
type Find func(ctx context.Context) (value json.RawMessage, found bool, err error)

// Do performs an effect and returns what identifies it.
type Do func(ctx context.Context) (json.RawMessage, error)

// Once performs an outside write exactly once, whatever crashes: recorded as
// done → the recorded value; else found in the world → adopted; else done;
// then recorded. A nil find means that doing it twice does no harm.
func Once(ctx context.Context, e Effects, key string, find Find, do Do) (json.RawMessage, error) {
	value, err := e.Effect(ctx, key)
	if err == nil {
		return value, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("looking up effect %s: %w", key, err)
	}
	found := false
	if find != nil {
		if value, found, err = find(ctx); err != nil {
			return nil, fmt.Errorf("looking for effect %s in the world: %w", key, err)
		}
	}
	if !found {
		if value, err = do(ctx); err != nil {
			return nil, fmt.Errorf("performing effect %s: %w", key, err)
		}
	}
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if err := e.RecordEffect(ctx, key, value); err != nil {
		return nil, fmt.Errorf("recording effect %s: %w", key, err)
	}
	return value, nil
}
