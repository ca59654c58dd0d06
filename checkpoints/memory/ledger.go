package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// entry is one reservation, replaced by what was used when it is settled.
type entry struct {
	runID string
	repo  string // folded
	issue int
	at    time.Time
	usage checkpoints.Usage
}

func (c *call) sum(which func(*entry) bool) (total checkpoints.Usage) {
	for _, e := range c.ledger {
		if which(e) {
			total = total.Add(e.usage)
		}
	}
	return total
}

func (c *call) spent(runID, repo string, issue int, since time.Time) (run, total, day checkpoints.Usage) {
	repo = checkpoints.FoldScope(repo)
	return c.family(runID),
		c.sum(func(e *entry) bool { return e.repo == repo && e.issue == issue }),
		c.sum(func(e *entry) bool { return !e.at.Before(since) })
}

// family sums the use of a run and of the children counted for it.
func (c *call) family(id string) checkpoints.Usage {
	total := c.sum(func(e *entry) bool { return e.runID == id })
	for _, r := range c.children[id] {
		if r.Counted {
			total = total.Add(c.family(r.ID))
		}
	}
	return total
}

// ancestors are the runs that a run is counted for, its parent first.
func (c *call) ancestors(r *run) (ids []string) {
	for r.Counted {
		ids = append(ids, r.Parent)
		parent, ok := c.runs[r.Parent]
		if !ok {
			break
		}
		r = parent
	}
	return ids
}

// Reserve implements checkpoints.Ledger.
func (s *Store) Reserve(ctx context.Context, l checkpoints.Lease, node string, est checkpoints.Usage, lim checkpoints.Limits) (out checkpoints.Reservation, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.held(l)
		if err != nil {
			return err
		}
		run, issue, day := c.spent(r.ID, r.Repo, r.Issue, checkpoints.Midnight(c.now))
		if err := lim.Check(est, run, issue, day); err != nil {
			return err
		}
		if len(lim.Ancestors) > 0 {
			for _, id := range c.ancestors(r) {
				if err := lim.CheckAncestor(id, est, c.family(id)); err != nil {
					return err
				}
			}
		}
		out = checkpoints.Reservation{ID: checkpoints.NewID(c.now), RunID: r.ID, Node: node}
		c.ledger[out.ID] = &entry{
			runID: r.ID, repo: checkpoints.FoldScope(r.Repo), issue: r.Issue, at: c.now, usage: est,
		}
		return nil
	})
	return out, err
}

// Settle implements checkpoints.Ledger. Settling again replaces again.
func (s *Store) Settle(ctx context.Context, r checkpoints.Reservation, used checkpoints.Usage) error {
	return s.do(ctx, func(c *call) error {
		e, ok := c.ledger[r.ID]
		if !ok {
			return fmt.Errorf("reservation %s of run %s: %w", r.ID, r.RunID, checkpoints.ErrNotFound)
		}
		e.usage = used
		return nil
	})
}

// Spent implements checkpoints.Ledger.
func (s *Store) Spent(ctx context.Context, runID, repo string, issue int, since time.Time) (run, issueTotal, day checkpoints.Usage, err error) {
	err = s.do(ctx, func(c *call) error {
		run, issueTotal, day = c.spent(runID, repo, issue, since)
		return nil
	})
	return run, issueTotal, day, err
}
