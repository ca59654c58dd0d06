package intake

import (
	"context"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/forge"
)

// defaultPerMinute leaves a third of GitHub's 900 points a minute to the
// pipeline's own reads and writes: unchanged answers cost no quota, but they
// do cost a point each.
const defaultPerMinute = 600

// meter spaces the reads of each rate limit (an App's installation, or the
// one token): no more than `most` in any minute, however many repositories a
// round has. Sweeps may use three quarters of that, so that they never keep
// the feeds waiting.
type meter struct {
	clock clock.Clock
	most  int // a minute
	pool  func(forge.Repo) string

	mu    sync.Mutex
	calls map[string][]time.Time // within the last minute, oldest first
	total int64
}

func newMeter(c clock.Clock, most int, pool func(forge.Repo) string) *meter {
	return &meter{clock: c, most: most, pool: pool, calls: map[string][]time.Time{}}
}

// take waits for the turn of a read of r.
func (m *meter) take(ctx context.Context, r forge.Repo, sweep bool) error {
	for {
		d := m.delay(m.pool(r), sweep)
		if d <= 0 {
			return nil
		}
		if err := clock.Sleep(ctx, m.clock, d); err != nil {
			return err
		}
	}
}

// delay is how long until the last minute holds fewer reads than allowed; 0
// counts one as begun.
func (m *meter) delay(pool string, sweep bool) time.Duration {
	most := m.most
	if sweep {
		most = max(most*3/4, 1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, calls := m.clock.Now(), m.calls[pool]
	for len(calls) > 0 && now.Sub(calls[0]) >= time.Minute {
		calls = calls[1:]
	}
	if len(calls) >= most {
		m.calls[pool] = calls
		return calls[len(calls)-most].Add(time.Minute).Sub(now)
	}
	m.calls[pool] = append(calls, now)
	m.total++
	return 0
}

func (m *meter) count() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// paced is the Source at the meter's pace.
type paced struct {
	source Source
	meter  *meter
	sweep  bool
}

// IssuesByLabel implements Source.
func (p paced) IssuesByLabel(ctx context.Context, r forge.Repo, label string) ([]forge.Issue, error) {
	if err := p.meter.take(ctx, r, p.sweep); err != nil {
		return nil, err
	}
	return p.source.IssuesByLabel(ctx, r, label)
}

// RecentEvents implements Source.
func (p paced) RecentEvents(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoEvent], error) {
	if err := p.meter.take(ctx, r, p.sweep); err != nil {
		return forge.Recent[forge.RepoEvent]{}, err
	}
	return p.source.RecentEvents(ctx, r)
}

// RecentComments implements Source.
func (p paced) RecentComments(ctx context.Context, r forge.Repo) (forge.Recent[forge.RepoComment], error) {
	if err := p.meter.take(ctx, r, p.sweep); err != nil {
		return forge.Recent[forge.RepoComment]{}, err
	}
	return p.source.RecentComments(ctx, r)
}

// Issue implements Source.
func (p paced) Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error) {
	if err := p.meter.take(ctx, ref.Repo, p.sweep); err != nil {
		return forge.Issue{}, err
	}
	return p.source.Issue(ctx, ref)
}

// Events implements Source.
func (p paced) Events(ctx context.Context, ref forge.Ref) ([]forge.IssueEvent, error) {
	if err := p.meter.take(ctx, ref.Repo, p.sweep); err != nil {
		return nil, err
	}
	return p.source.Events(ctx, ref)
}

// Comments implements Source.
func (p paced) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	if err := p.meter.take(ctx, ref.Repo, p.sweep); err != nil {
		return nil, err
	}
	return p.source.Comments(ctx, ref)
}

// Repository implements Source.
func (p paced) Repository(ctx context.Context, r forge.Repo) (forge.Repository, error) {
	if err := p.meter.take(ctx, r, p.sweep); err != nil {
		return forge.Repository{}, err
	}
	return p.source.Repository(ctx, r)
}
