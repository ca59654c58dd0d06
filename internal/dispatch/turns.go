package dispatch

import (
	"strings"
	"sync"
)

// turns lets one caller a key at a time through.
type turns struct {
	mu   sync.Mutex
	open map[string]*turn
}

type turn struct {
	mu      sync.Mutex
	waiting int
}

// take waits for the key's turn; done gives it on. Keys don't regard case.
func (t *turns) take(key string) (done func()) {
	key = strings.ToLower(key)
	t.mu.Lock()
	if t.open == nil {
		t.open = map[string]*turn{}
	}
	mine := t.open[key]
	if mine == nil {
		mine = &turn{}
		t.open[key] = mine
	}
	mine.waiting++
	t.mu.Unlock()
	mine.mu.Lock()
	return func() {
		mine.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.waiting--; mine.waiting == 0 {
			delete(t.open, key)
		}
	}
}
