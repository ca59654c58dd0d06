package intake

import (
	"context"
	"time"
)

const (
	// smallBody is what nearly every delivery stays below.
	smallBody = 1 << 20
	// smallAtOnce and largeAtOnce bound the bodies in memory: whoever sends
	// them has shown no signature yet.
	smallAtOnce = 256
	largeAtOnce = 4
	// slotWait is less than the 10 seconds after which GitHub gives up.
	slotWait = 5 * time.Second
)

// slots bound how many bodies are read at the same time.
type slots struct{ small, large chan struct{} }

func newSlots() slots {
	return slots{make(chan struct{}, smallAtOnce), make(chan struct{}, largeAtOnce)}
}

// take waits for a slot for a body of that many bytes, -1 when unknown. The
// release is nil when there was none in time.
func (s slots) take(ctx context.Context, bytes int64) (release func()) {
	slot := s.large
	if bytes >= 0 && bytes <= smallBody {
		slot = s.small
	}
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }
	case <-ctx.Done():
		return nil
	}
}
