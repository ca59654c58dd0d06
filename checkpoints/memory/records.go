package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// Branches implements checkpoints.Runs.
func (s *Store) Branches(ctx context.Context, runID string) (out []checkpoints.BranchRecord, err error) {
	err = s.do(ctx, func(c *call) error {
		r, err := c.find(runID)
		if err != nil {
			return err
		}
		for _, b := range r.branches {
			out = append(out, cloneBranch(b))
		}
		return nil
	})
	return out, err
}

// cloneBranch copies a branch; times have the grain that databases keep.
func cloneBranch(b checkpoints.BranchRecord) checkpoints.BranchRecord {
	b.Began, b.Took = b.Began.UTC().Truncate(time.Microsecond), b.Took.Truncate(time.Microsecond)
	b.Delta = bytes.Clone(b.Delta)
	return b
}

// Accept implements checkpoints.Runs.
func (s *Store) Accept(ctx context.Context, runID string, actions map[string]string, by string) error {
	return s.do(ctx, func(c *call) error {
		r, err := c.find(runID)
		switch {
		case err != nil:
			return err
		case r.Status.Final() || r.ended:
			return fmt.Errorf("run %s is over already (%s): %w", runID, r.Status, checkpoints.ErrConflict)
		case r.Owner != "":
			return fmt.Errorf("run %s is held by %s: %w", runID, r.Owner, checkpoints.ErrBusy)
		}
		c.audits[runID] = append(c.audits[runID], checkpoints.AuditLine{
			RunID: runID, By: by, What: checkpoints.AcceptDrift, Why: checkpoints.Drift(r.Actions, actions), At: c.now,
		})
		r.Actions, r.Updated = maps.Clone(actions), c.now
		if r.Actions == nil {
			r.Actions = map[string]string{}
		}
		return nil
	})
}

// version records the definition of a run that starts, if it is new.
func (c *call) version(r *run) {
	known := c.versions[r.Flow]
	if r.DefinitionHash == "" || slices.ContainsFunc(known, func(v checkpoints.FlowVersion) bool { return v.Hash == r.DefinitionHash }) {
		return
	}
	c.versions[r.Flow] = append(known, checkpoints.FlowVersion{
		Flow: r.Flow, N: len(known) + 1, Hash: r.DefinitionHash, Definition: bytes.Clone(r.Definition), First: c.now,
	})
}

// Versions implements checkpoints.Records.
func (s *Store) Versions(ctx context.Context, flow string) (out []checkpoints.FlowVersion, err error) {
	err = s.do(ctx, func(c *call) error {
		for _, v := range c.versions[flow] {
			v.Definition = bytes.Clone(v.Definition)
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

// AddAudit implements checkpoints.Records.
func (s *Store) AddAudit(ctx context.Context, a checkpoints.AuditLine) error {
	return s.do(ctx, func(c *call) error {
		if _, err := c.find(a.RunID); err != nil {
			return err
		}
		if a.At.IsZero() {
			a.At = c.now
		}
		a.At = a.At.UTC().Truncate(time.Microsecond)
		c.audits[a.RunID] = append(c.audits[a.RunID], a)
		return nil
	})
}

// Audits implements checkpoints.Records.
func (s *Store) Audits(ctx context.Context, runID string) (out []checkpoints.AuditLine, err error) {
	err = s.do(ctx, func(c *call) error {
		if _, err := c.find(runID); err != nil {
			return err
		}
		out = slices.Clone(c.audits[runID])
		return nil
	})
	return out, err
}
