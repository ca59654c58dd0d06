package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Effect implements checkpoints.Effects.
func (s *Store) Effect(ctx context.Context, key string) (out json.RawMessage, err error) {
	err = s.do(ctx, func(c *call) error {
		v, ok := c.effects[key]
		if !ok {
			return fmt.Errorf("effect %s: %w", key, checkpoints.ErrNotFound)
		}
		out = bytes.Clone(v)
		return nil
	})
	return out, err
}

// RecordEffect implements checkpoints.Effects.
func (s *Store) RecordEffect(ctx context.Context, key string, value json.RawMessage) error {
	return s.do(ctx, func(c *call) error {
		if key == "" {
			return errors.New("checkpoints: an effect needs a key")
		}
		if len(value) == 0 {
			value = json.RawMessage("null")
		}
		c.effects[key] = bytes.Clone(value)
		return nil
	})
}
