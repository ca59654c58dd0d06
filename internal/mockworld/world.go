package mockworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Options says how a World is made. The zero value works.
type Options struct {
	// Clock is the world's time; clock.Real when nil.
	Clock clock.Clock
	// JWTClock judges the times in app JWTs; Clock when nil. Client
	// libraries stamp them by the machine's clock, so a world with a fake
	// Clock may want clock.Real here.
	JWTClock clock.Clock
	// Dir holds the bare repositories, and must not hold any yet; a temporary
	// folder, removed by Close, when empty.
	Dir string
	// Prefix is the path that everything lies below, "/gh" when empty.
	Prefix string
	// BaseURL is how clients reach the prefix, e.g.
	// "http://127.0.0.1:8080/gh". Serve sets it; a world that is only mounted
	// as a Handler takes it from the first request.
	BaseURL string
	// Git is the git program, "git" when empty.
	Git string
	// Log receives what the world does; discarded when nil.
	Log *slog.Logger
	// Limits are the rate limits; DefaultLimits when nil.
	Limits *Limits
	// LabelBumpsUpdated makes a label change move updated_at. Sources
	// disagree on whether GitHub does, so clients must hold either way.
	LabelBumpsUpdated bool
	// OnRequest watches requests, as SetHook does.
	OnRequest Hook
	// KeepBodies keeps the answer of each API call in its Request, for a check
	// against GitHub's description of them. It costs memory.
	KeepBodies bool
}

// Limits are GitHub's rate limits, an actor each. Zero means none left, and
// a negative number means no limit.
type Limits struct {
	// PrimaryPerHour counts requests; AnonymousPerHour those without token.
	PrimaryPerHour   int
	AnonymousPerHour int
	// PrimaryStatus is answered on exhaustion: 403 or 429.
	PrimaryStatus int
	// ContentPerMinute and ContentPerHour count writes that make content.
	ContentPerMinute int
	ContentPerHour   int
	// PointsPerMinute counts 1 for a read and 5 for a write.
	PointsPerMinute int
	// Concurrent counts requests in flight.
	Concurrent int
	// RetryAfter is told on a secondary limit; when 0 the header is missing,
	// as it sometimes is.
	RetryAfter time.Duration
}

// DefaultLimits are those that GitHub documents.
func DefaultLimits() Limits {
	return Limits{
		PrimaryPerHour: 5000, AnonymousPerHour: 60, PrimaryStatus: http.StatusForbidden,
		ContentPerMinute: 80, ContentPerHour: 500, PointsPerMinute: 900, Concurrent: 100,
		RetryAfter: time.Minute,
	}
}

// World is a fake GitHub. It is safe for concurrent use; make it with New and
// end it with Close.
type World struct {
	opts   Options
	clock  clock.Clock
	log    *slog.Logger
	prefix string
	dir    string
	ownDir bool
	routes []*route
	client *http.Client

	ctx    context.Context //nolint:containedctx // the lifetime of the world's own goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup

	hookMu sync.Mutex
	hook   Hook

	mu         sync.Mutex
	base       string
	limits     Limits
	ids        ids
	accounts   map[string]*account    // by lower-case login
	repos      map[string]*repository // by lower-case owner/name
	moved      map[string]*repository // old lower-case owner/name of a renamed one
	apps       []*app
	tokens     map[string]*token
	hooks      []*hookEntry
	deliveries []*delivery
	faults     []*faultState
	requests   []Request
	violations []string
	usage      map[string]*usage
	tokenSeq   int
	inflight   map[string]int
	changed    chan struct{}
	closed     bool
	diffs      map[string]*diff
	counts     map[string]int
}

// New makes an empty world.
func New(o Options) (*World, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.JWTClock == nil {
		o.JWTClock = o.Clock
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Git == "" {
		o.Git = "git"
	}
	if o.Prefix == "" {
		o.Prefix = "/gh"
	}
	if !strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") {
		return nil, fmt.Errorf("making the world: prefix %q: want a path such as /gh", o.Prefix)
	}
	limits := DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	dir, own := o.Dir, false
	if dir == "" {
		d, err := os.MkdirTemp("", "mockworld-")
		if err != nil {
			return nil, fmt.Errorf("making the world's folder: %w", err)
		}
		dir, own = d, true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("making the world's folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o755); err != nil {
		return nil, fmt.Errorf("making the world's folder: %w", err)
	}
	w := &World{
		opts: o, clock: o.Clock, log: o.Log, prefix: o.Prefix, dir: dir, ownDir: own,
		base: strings.TrimSuffix(o.BaseURL, "/"), limits: limits, ids: newIDs(), hook: o.OnRequest,
		accounts: map[string]*account{}, repos: map[string]*repository{}, moved: map[string]*repository{},
		tokens: map[string]*token{}, usage: map[string]*usage{}, inflight: map[string]int{},
		changed: make(chan struct{}), diffs: map[string]*diff{}, counts: map[string]int{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.client = newHookClient()
	w.routes = compileRoutes()
	return w, nil
}

// Close ends the goroutines of the world, cuts held requests and removes the
// folder that it made itself. It waits for all of them.
func (w *World) Close() error {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return nil
	}
	w.cancel()
	w.wg.Wait()
	w.client.CloseIdleConnections()
	if !w.ownDir {
		return nil
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return fmt.Errorf("removing the world's folder: %w", err)
	}
	return nil
}

// BaseURL is how clients reach the prefix, e.g. "http://127.0.0.1:8080/gh":
// the API is at BaseURL + "/api/v3/", a repository at BaseURL +
// "/git/owner/name.git". Empty until it is known.
func (w *World) BaseURL() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

// SetLimits changes the rate limits from now on.
func (w *World) SetLimits(l Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = l
}

// SetHook replaces the watcher of requests; nil takes it away.
func (w *World) SetHook(h Hook) {
	w.hookMu.Lock()
	defer w.hookMu.Unlock()
	w.hook = h
}

// errClosed is returned by what needs a living world.
var errClosed = errors.New("the world is closed")

// now is the world's time in whole seconds, as GitHub tells it.
func (w *World) now() time.Time { return w.clock.Now().UTC().Truncate(time.Second) }

// touch wakes those that Wait; the lock is held.
func (w *World) touch() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Wait blocks until cond holds of the world, looking again at every change,
// or until ctx ends, whose cause it then returns.
func (w *World) Wait(ctx context.Context, cond func(Snapshot) bool) error {
	for {
		w.mu.Lock()
		changed := w.changed
		snap, err := w.snapshot()
		w.mu.Unlock()
		if err != nil {
			return err
		}
		if cond(snap) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.ctx.Done():
			return errClosed
		}
	}
}

// ids hands out identifiers. Comments and events start beyond 32 bits, as
// GitHub's have long done.
type ids struct{ user, repo, issue, comment, event, label, other int64 }

func newIDs() ids {
	return ids{user: 1000, repo: 500_000, issue: 2_000_000_000, comment: 2_500_000_000,
		event: 15_000_000_000, label: 7_000_000_000, other: 30_000_000_000}
}

func next(p *int64) int64 { *p++; return *p }
