package intake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever has shown no signature can't fill the memory with bodies, and large
// ones don't keep out the small ones that the forge sends.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots()
		var held []func()
		for range largeAtOnce {
			held = append(held, s.take(t.Context(), -1))
		}
		began := time.Now()
		if s.take(t.Context(), smallBody+1) != nil {
			t.Error("one large body too many was let in")
		}
		if waited := time.Since(began); waited != slotWait {
			t.Errorf("waited %s, want %s", waited, slotWait)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if s.take(gone, -1) != nil {
			t.Error("a sender that is gone was let in")
		}
		small := s.take(t.Context(), 0)
		if small == nil {
			t.Fatal("large bodies keep out a small one")
		}
		small()
		held[0]()
		if s.take(t.Context(), -1) == nil {
			t.Error("a slot that was given back is not to be had")
		}
	})
}
