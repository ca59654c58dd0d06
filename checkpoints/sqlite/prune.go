package sqlite

import (
	"context"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Prune implements checkpoints.Runs. What the runs cost and their triggers
// stay: the limits of an issue and of a day must not be refilled, and a
// trigger is used for ever.
func (s *Store) Prune(ctx context.Context, ret checkpoints.Retention) (n int, err error) {
	before := ret.Before.UnixMicro()
	err = s.write(ctx, func(t *tx) error {
		n = 0
		for gone := int64(1); gone > 0; n += int(gone) { // children go when their parents have gone
			gone, err = t.exec(`DELETE FROM runs WHERE final_at > 0 AND final_at < ?1
				AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.id = runs.parent)
				AND (parent <> '' OR n NOT IN (SELECT n FROM runs
					WHERE final_at > 0 AND parent = '' ORDER BY final_at DESC, n DESC LIMIT ?2))`,
				before, max(ret.Keep, 0))
			if err != nil {
				return fmt.Errorf("deleting final runs: %w", err)
			}
		}
		_, err = t.exec(`DELETE FROM definitions WHERE NOT EXISTS (SELECT 1 FROM runs WHERE definition_id = definitions.id)
			AND NOT EXISTS (SELECT 1 FROM flow_versions WHERE definition_id = definitions.id)`)
		if err != nil {
			return fmt.Errorf("deleting unused definitions: %w", err)
		}
		if _, err := t.exec(`DELETE FROM inbox WHERE decision <> '' AND decided_at < ?`, before); err != nil {
			return fmt.Errorf("deleting decided inbox rows: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
