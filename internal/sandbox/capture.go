package sandbox

import (
	"fmt"
	"sync"
	"time"
)

// markRoom is kept free for the line that tells how much was dropped.
const markRoom = 64

// headTail keeps the first and the last bytes of a stream, at most limit in
// all, whatever its length.
type headTail struct {
	head, tail       []byte
	headCap, tailCap int
	next             int // where the ring in tail is written next, once full
	total            int64
}

func newHeadTail(limit int64) *headTail {
	room := int(max(limit-markRoom, 0))
	return &headTail{headCap: room / 2, tailCap: room - room/2}
}

func (h *headTail) write(p []byte) {
	h.total += int64(len(p))
	if free := h.headCap - len(h.head); free > 0 {
		n := min(free, len(p))
		h.head = append(h.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > h.tailCap {
		p = p[len(p)-h.tailCap:]
	}
	if free := h.tailCap - len(h.tail); free > 0 {
		n := min(free, len(p))
		h.tail = append(h.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(h.tail[h.next:], p)
		h.next = (h.next + n) % h.tailCap
		p = p[n:]
	}
}

func (h *headTail) dropped() int64 { return h.total - int64(len(h.head)+len(h.tail)) }

// bytes is head, mark, tail.
func (h *headTail) bytes() []byte {
	out := append([]byte(nil), h.head...)
	if n := h.dropped(); n > 0 {
		out = fmt.Appendf(out, "\n[… %d bytes dropped …]\n", n)
	}
	out = append(out, h.tail[h.next:]...)
	return append(out, h.tail[:h.next]...)
}

// capture collects both streams of a run and knows when something came last.
type capture struct {
	mu            sync.Mutex
	all, standard *headTail
	last          time.Time
}

func newCapture(limit int64) *capture {
	return &capture{all: newHeadTail(limit), standard: newHeadTail(limit), last: time.Now()}
}

func (c *capture) write(p []byte, standard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	c.all.write(p)
	if standard {
		c.standard.write(p)
	}
}

// idle is how long nothing was written.
func (c *capture) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last)
}

func (c *capture) result() (all, standard []byte, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.bytes(), c.standard.bytes(), c.all.dropped() > 0
}
