// Package turns lets the callers of one key through one after the other.
//
// It must know nothing of what they do, and imports only the standard library.
package turns

import (
	"strings"
	"sync"
)

// Turns lets one caller a key at a time through. The zero value is ready.
type Turns struct {
	mu   sync.Mutex
	open map[string]*turn
}

type turn struct {
	mu      sync.Mutex
	waiting int
}

// Take waits for the key's turn; done gives it on. Keys don't regard case.
func (t *Turns) Take(key string) (done func()) {
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
