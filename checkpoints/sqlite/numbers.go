package sqlite

import "sync"

// mostNumbers is how many numbers are kept before they are forgotten.
const mostNumbers = 1 << 14

// numbers are the rows of the runs that were claimed lately, so that a commit
// need not look them up. A number may be stale when its run was pruned:
// whoever uses one compares the run's id as well.
type numbers struct {
	mu sync.Mutex
	of map[string]int64
}

func (s *numbers) get(id string) (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok = s.of[id]
	return n, ok
}

func (s *numbers) put(id string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= mostNumbers {
		s.of = map[string]int64{}
	}
	s.of[id] = n
}
