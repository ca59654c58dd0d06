// Package memory keeps runs in the memory of the process: for tests of
// everything above the store, and for replays that leave nothing behind.
//
// It fulfils the whole contract of package checkpoints but durability. It
// must not know any database, and imports only the standard library,
// checkpoints, internal/clock and internal/queue.
package memory

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/internal/clock"
	"github.com/pipelinebot/pipelinebot/internal/queue"
)

// Options are what a store needs; the zero value works.
type Options struct {
	// Clock tells the time; nil means the machine's.
	Clock clock.Clock
	// Enqueue takes the tokens of a call when the call has succeeded, in
	// order, on the caller's goroutine and with no lock held; nil drops them.
	Enqueue func(queue.Token)
}

// Store is a checkpoints.Store in memory. All methods may be called
// concurrently; values are copied on the way in and out.
type Store struct {
	clock   clock.Clock
	enqueue func(queue.Token)

	mu       sync.Mutex
	runs     map[string]*run
	order    []*run            // in order of creation
	children map[string][]*run // by parent
	triggers map[string]string // trigger → run id, kept for ever
	ledger   map[string]*entry // by reservation id
	effects  map[string]json.RawMessage
	stops    map[string]checkpoints.Stop // by folded scope
	inbox    []*inboxRow                 // in order of arrival
	cursors  map[string]string
	versions map[string][]checkpoints.FlowVersion // by flow, oldest first
	audits   map[string][]checkpoints.AuditLine   // by run id
}

var _ checkpoints.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Enqueue == nil {
		o.Enqueue = func(queue.Token) {}
	}
	return &Store{
		clock:    o.Clock,
		enqueue:  o.Enqueue,
		runs:     map[string]*run{},
		children: map[string][]*run{},
		triggers: map[string]string{},
		ledger:   map[string]*entry{},
		effects:  map[string]json.RawMessage{},
		stops:    map[string]checkpoints.Stop{},
		cursors:  map[string]string{},
		versions: map[string][]checkpoints.FlowVersion{},
		audits:   map[string][]checkpoints.AuditLine{},
	}
}

// Close implements checkpoints.Store; the content stays readable.
func (s *Store) Close() error { return nil }

// call is one transaction: the instant at which it happens and the tokens it
// gives out when it succeeds.
type call struct {
	*Store
	now    time.Time
	tokens []queue.Token
}

// do runs fn under the lock. fn must check everything before it changes
// anything, since nothing is rolled back.
func (s *Store) do(ctx context.Context, fn func(*call) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &call{Store: s, now: s.clock.Now().UTC().Truncate(time.Microsecond)}
	if err := c.locked(fn); err != nil {
		return err
	}
	for _, t := range c.tokens {
		s.enqueue(t)
	}
	return nil
}

func (c *call) locked(fn func(*call) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fn(c)
}
