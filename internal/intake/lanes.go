package intake

import "sync"

// How many repositories of one rate limit are read at the same time: by their
// feeds (those in which work is open apart from the idle ones), by the feeds of
// those that were slow or failing last time, and in a sweep. Nobody waits for
// another kind's.
const (
	feedsAtOnce  = 4
	slowAtOnce   = 2
	sweepsAtOnce = 2
)

// lanes run work in the order in which it was given, some at a time.
type lanes struct {
	mu    sync.Mutex
	lanes map[string]*lane
	group sync.WaitGroup
}

type lane struct {
	running int
	waiting []func()
}

// run does f in the lane of that name, which does so many at once.
func (l *lanes) run(name string, atOnce int, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes == nil {
		l.lanes = map[string]*lane{}
	}
	one, ok := l.lanes[name]
	if !ok {
		one = &lane{}
		l.lanes[name] = one
	}
	one.waiting = append(one.waiting, f)
	if one.running < atOnce {
		one.running++
		l.group.Go(func() { l.work(one) })
	}
}

func (l *lanes) work(one *lane) {
	for {
		l.mu.Lock()
		if len(one.waiting) == 0 {
			one.running--
			l.mu.Unlock()
			return
		}
		next := one.waiting[0]
		one.waiting = one.waiting[1:]
		l.mu.Unlock()
		next()
	}
}
