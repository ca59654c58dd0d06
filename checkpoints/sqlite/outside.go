package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Effect implements checkpoints.Effects.
func (s *Store) Effect(ctx context.Context, key string) (json.RawMessage, error) {
	var value string
	if err := s.reads.QueryRowContext(ctx, `SELECT value FROM effects WHERE key = ?`, key).Scan(&value); err != nil {
		return nil, notFound(err, "effect %s", key)
	}
	return json.RawMessage(value), nil
}

// RecordEffect implements checkpoints.Effects.
func (s *Store) RecordEffect(ctx context.Context, key string, value json.RawMessage) error {
	if key == "" {
		return errors.New("checkpoints: an effect needs a key")
	}
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	return s.write(ctx, func(t *tx) error {
		err := t.exec1(`INSERT INTO effects (key, value, at) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at`, key, string(value), t.now)
		if err != nil {
			return fmt.Errorf("recording effect %s: %w", key, err)
		}
		return nil
	})
}

// SetStop implements checkpoints.Stops.
func (s *Store) SetStop(ctx context.Context, st checkpoints.Stop) error {
	folded := checkpoints.FoldScope(st.Scope)
	if folded == "" {
		return errors.New("checkpoints: a stop needs a scope")
	}
	return s.write(ctx, func(t *tx) error {
		if st.At.IsZero() {
			st.At = t.at
		}
		_, err := t.exec(`INSERT INTO stops (folded, scope, set_by, reason, at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (folded) DO NOTHING`, folded, st.Scope, st.By, st.Reason, micros(st.At))
		if err != nil {
			return fmt.Errorf("stopping %s: %w", st.Scope, err)
		}
		return nil
	})
}

// LiftStop implements checkpoints.Stops.
func (s *Store) LiftStop(ctx context.Context, scope string) (lifted bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM stops WHERE folded = ?`, checkpoints.FoldScope(scope))
		if err != nil {
			return fmt.Errorf("lifting the stop of %s: %w", scope, err)
		}
		lifted = n > 0
		return nil
	})
	return lifted && err == nil, err
}

const selectStop = `SELECT scope, set_by, reason, at FROM stops `

func scanStop(row scanner) (st checkpoints.Stop, err error) {
	var at int64
	err = row.Scan(&st.Scope, &st.By, &st.Reason, &at)
	st.At = fromMicros(at)
	return st, err
}

// StopFor implements checkpoints.Stops. The repository's stop comes first.
func (s *Store) StopFor(ctx context.Context, repo string, issue int) (checkpoints.Stop, bool, error) {
	stops, err := collect(ctx, s.reads, scanStop, selectStop+`WHERE folded IN (?, ?) ORDER BY length(folded) LIMIT 1`,
		checkpoints.RepoScope(repo), checkpoints.IssueScope(repo, issue))
	if err != nil {
		return checkpoints.Stop{}, false, fmt.Errorf("looking for stops of %s#%d: %w", repo, issue, err)
	}
	if len(stops) == 0 {
		return checkpoints.Stop{}, false, nil
	}
	return stops[0], true, nil
}

// ListStops implements checkpoints.Stops; oldest first.
func (s *Store) ListStops(ctx context.Context) ([]checkpoints.Stop, error) {
	stops, err := collect(ctx, s.reads, scanStop, selectStop+`ORDER BY at, scope`)
	if err != nil {
		return nil, fmt.Errorf("listing stops: %w", err)
	}
	return stops, nil
}
