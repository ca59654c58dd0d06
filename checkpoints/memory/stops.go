package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// SetStop implements checkpoints.Stops.
func (s *Store) SetStop(ctx context.Context, st checkpoints.Stop) error {
	return s.do(ctx, func(c *call) error {
		key := checkpoints.FoldScope(st.Scope)
		if key == "" {
			return errors.New("checkpoints: a stop needs a scope")
		}
		if _, latched := c.stops[key]; latched {
			return nil
		}
		if st.At.IsZero() {
			st.At = c.now
		}
		st.At = st.At.UTC().Truncate(time.Microsecond)
		c.stops[key] = st
		return nil
	})
}

// LiftStop implements checkpoints.Stops.
func (s *Store) LiftStop(ctx context.Context, scope string) (lifted bool, err error) {
	err = s.do(ctx, func(c *call) error {
		key := checkpoints.FoldScope(scope)
		_, lifted = c.stops[key]
		delete(c.stops, key)
		return nil
	})
	return lifted, err
}

// StopFor implements checkpoints.Stops. The repository's stop comes first.
func (s *Store) StopFor(ctx context.Context, repo string, issue int) (out checkpoints.Stop, ok bool, err error) {
	err = s.do(ctx, func(c *call) error {
		if out, ok = c.stops[checkpoints.RepoScope(repo)]; !ok {
			out, ok = c.stops[checkpoints.IssueScope(repo, issue)]
		}
		return nil
	})
	return out, ok, err
}

// ListStops implements checkpoints.Stops; oldest first.
func (s *Store) ListStops(ctx context.Context) (out []checkpoints.Stop, err error) {
	err = s.do(ctx, func(c *call) error {
		for _, st := range c.stops {
			out = append(out, st)
		}
		slices.SortFunc(out, func(a, b checkpoints.Stop) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Scope, b.Scope))
		})
		return nil
	})
	return out, err
}
