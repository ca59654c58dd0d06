package intake

import (
	"hash/fnv"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/forge"
)

const (
	// restMost is how many times longer than the interval a repository with
	// webhooks and nothing new is left alone at most.
	restMost = 8
	// distrustFor is how long the webhooks of a repository count as broken
	// after the poll found what none of them had told, distrustAfter how late
	// a webhook may be.
	distrustFor   = time.Hour
	distrustAfter = 30 * time.Second
	// slowAfter is from how long a repository's reading counts as slow.
	slowAfter = 5 * time.Second
)

// watch is what the poller keeps of one repository.
type watch struct {
	key  string
	turn int // when its sweeps come, among fullEvery rounds

	// guarded by Poller.mu
	due      time.Time
	quiet    int  // rounds without anything new, in a row
	active   bool // something new was found since the round began
	busy     bool // a feed is under way or queued
	sweeping bool
	swept    bool // since the start, or since the last gap
	slow     bool
	cause    string    // of its failure, "" when it works
	paused   time.Time // until when
	told     time.Time // the last webhook
	distrust time.Time // until when webhooks count as broken

	// of the feed under way
	events, comments horizon

	pend    sync.Mutex
	pending map[int]bool // issues to look at; true: a label of ours changed

	reading sync.Mutex // held while an issue is looked at
}

// watch returns what is kept of a repository; p.mu is not held.
func (p *Poller) watch(r forge.Repo) *watch {
	key := strings.ToLower(r.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	st, ok := p.watches[key]
	if !ok {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		st = &watch{key: key, turn: int(h.Sum32() % fullEvery), pending: map[int]bool{}}
		p.watches[key] = st
	}
	return st
}

// touch marks an issue to be looked at; ours when one of the pipeline's labels
// was put on or taken off.
func (w *watch) touch(number int, ours bool) {
	w.pend.Lock()
	defer w.pend.Unlock()
	w.pending[number] = w.pending[number] || ours
}

// settle takes an issue off, unless it is to be looked at again.
func (w *watch) settle(number int, again bool) {
	w.pend.Lock()
	defer w.pend.Unlock()
	if again {
		w.pending[number] = true
	} else {
		delete(w.pending, number)
	}
}

func (w *watch) touched() map[int]bool {
	w.pend.Lock()
	defer w.pend.Unlock()
	return maps.Clone(w.pending)
}

// Told says that a webhook of the repository has arrived: it is active, and
// its webhooks work.
func (p *Poller) Told(r forge.Repo) {
	st := p.watch(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	st.told, st.quiet, st.active = p.Clock.Now(), 0, true
	st.due = time.Time{}
}

// found notes something new. When no webhook told of it in time, they are
// distrusted for a while; what happened before the start proves nothing.
func (p *Poller) found(st *watch, at, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st.active = true
	if p.Webhooks && at.After(p.started) && now.Sub(at) > distrustAfter && st.told.Before(at.Add(-distrustAfter)) {
		st.distrust = now.Add(distrustFor)
	}
}

// rest sets when a repository is read next. The interval is the fastest. A
// longer rest is only for a repository in which no work is open, whose
// webhooks would tell at once if there were any: polling alone, a label is
// found within one interval.
func (p *Poller) rest(w *chore, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := w.state
	if st.active || len(w.interest) > 0 {
		st.quiet = 0
	} else {
		st.quiet++
	}
	factor := 1
	if p.Webhooks && !st.distrust.After(began) {
		factor = min(1<<min(st.quiet, 10), restMost)
	}
	st.active = false
	st.due = began.Add(time.Duration(factor) * p.Interval)
}
