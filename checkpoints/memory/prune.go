package memory

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Prune implements checkpoints.Runs. What the runs cost, their triggers and
// the effects of their issues stay: the limits of an issue and of a day must
// not be refilled, and a trigger is used for ever.
func (s *Store) Prune(ctx context.Context, ret checkpoints.Retention) (n int, err error) {
	err = s.do(ctx, func(c *call) error {
		kept := c.newest(ret.Keep)
		for deleted := true; deleted; { // children go when their parents have gone
			deleted = false
			c.order = slices.DeleteFunc(c.order, func(r *run) bool {
				_, child := c.runs[r.Parent]
				if !r.Status.Final() || !r.Updated.Before(ret.Before) || child || kept[r] {
					return false
				}
				delete(c.runs, r.ID)
				delete(c.audits, r.ID)
				c.forget(r.ID)
				c.children[r.Parent] = slices.DeleteFunc(c.children[r.Parent], func(child *run) bool { return child == r })
				if len(c.children[r.Parent]) == 0 {
					delete(c.children, r.Parent)
				}
				n, deleted = n+1, true
				return true
			})
		}
		c.inbox = slices.DeleteFunc(c.inbox, func(row *inboxRow) bool {
			return row.Decision != "" && row.decidedAt.Before(ret.Before)
		})
		return nil
	})
	return n, err
}

// forget deletes the effects of a run.
func (c *call) forget(id string) {
	for _, prefix := range checkpoints.EffectsOf(id) {
		maps.DeleteFunc(c.effects, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, prefix) })
	}
}

// newest are the n newest final runs without a parent.
func (c *call) newest(n int) map[*run]bool {
	var final []*run
	for _, r := range c.order {
		if r.Status.Final() && r.Parent == "" {
			final = append(final, r)
		}
	}
	slices.SortStableFunc(final, func(a, b *run) int { return a.Updated.Compare(b.Updated) })
	kept := map[*run]bool{}
	for _, r := range final[max(len(final)-max(n, 0), 0):] {
		kept[r] = true
	}
	return kept
}
