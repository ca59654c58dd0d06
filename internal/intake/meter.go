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

// meter is the Source with its calls counted, so that a short interval slows
// down instead of running into the limit.
type meter struct {
	source Source
	clock  clock.Clock
	most   int // a minute

	mu    sync.Mutex
	calls []time.Time // within the last minute, oldest first
}

func (m *meter) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, m.clock.Now())
}

// delay is how long until the last minute holds fewer calls than allowed.
func (m *meter) delay() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for len(m.calls) > 0 && now.Sub(m.calls[0]) >= time.Minute {
		m.calls = m.calls[1:]
	}
	if len(m.calls) < m.most {
		return 0
	}
	return m.calls[len(m.calls)-m.most].Add(time.Minute).Sub(now)
}

// IssuesByLabel implements Source.
func (m *meter) IssuesByLabel(ctx context.Context, r forge.Repo, label string) ([]forge.Issue, error) {
	m.count()
	return m.source.IssuesByLabel(ctx, r, label)
}

// Issue implements Source.
func (m *meter) Issue(ctx context.Context, ref forge.Ref) (forge.Issue, error) {
	m.count()
	return m.source.Issue(ctx, ref)
}

// Events implements Source.
func (m *meter) Events(ctx context.Context, ref forge.Ref) ([]forge.IssueEvent, error) {
	m.count()
	return m.source.Events(ctx, ref)
}

// Comments implements Source.
func (m *meter) Comments(ctx context.Context, ref forge.Ref) ([]forge.Comment, error) {
	m.count()
	return m.source.Comments(ctx, ref)
}

// Repository implements Source.
func (m *meter) Repository(ctx context.Context, r forge.Repo) (forge.Repository, error) {
	m.count()
	return m.source.Repository(ctx, r)
}
