package scenario

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Shuffle is an order of deliveries other than that in which things happened.
// GitHub promises none.
type Shuffle struct {
	// Swap, from 1, lets the delivery of that place come after the next one.
	Swap int `json:"swap,omitempty"`
	// Reverse turns those around that come together.
	Reverse bool `json:"reverse,omitempty"`
	// Seed otherwise draws the order of those that come together.
	Seed uint64 `json:"seed,omitempty"`
}

// String is for people.
func (s Shuffle) String() string {
	switch {
	case s.Swap > 0:
		return fmt.Sprintf("delivery %d after the next one", s.Swap)
	case s.Reverse:
		return "deliveries that come together reversed"
	}
	return fmt.Sprintf("seed %d", s.Seed)
}

const (
	// together is how long deliveries are gathered before they are shuffled.
	together = 150 * time.Millisecond
	// swapWait is how long one waits for the next.
	swapWait = 500 * time.Millisecond
)

// receiver is the fixed address that webhooks go to. It hands them to the
// process that runs at the moment; while none does, the connection breaks, as
// it would at a closed port.
func (r *running) receiver(ctx context.Context) http.Handler {
	if r.o.Shuffle == nil {
		return receiver{r.bots}
	}
	r.shuffled = &shuffler{how: *r.o.Shuffle, bots: r.bots, note: r.note, ctx: ctx, random: rand.New(rand.NewPCG(r.o.Shuffle.Seed, 1))}
	return r.shuffled
}

type receiver struct{ bots *keeper }

// ServeHTTP implements http.Handler.
func (r receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	target, err := url.Parse(r.bots.webhookURL())
	if err != nil || target.Host == "" {
		panic(http.ErrAbortHandler)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = target
			p.Out.Host = target.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discardLog(),
	}
	proxy.ServeHTTP(w, req)
	_, _ = io.Copy(io.Discard, req.Body)
}

// shuffler takes deliveries at once, as a network may, and hands them on in
// another order.
type shuffler struct {
	how    Shuffle
	bots   *keeper
	note   func(kind, format string, args ...any)
	ctx    context.Context //nolint:containedctx // the story's, for what is handed on after the answer
	random *rand.Rand

	mu      sync.Mutex
	seen    int
	held    []parcel
	timer   *time.Timer
	sending int
	posting sync.Mutex // one at a time, in order
}

type parcel struct {
	header http.Header
	body   []byte
}

// ServeHTTP implements http.Handler.
func (s *shuffler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender is gone
	}
	s.take(parcel{req.Header.Clone(), body})
	w.WriteHeader(http.StatusAccepted)
}

func (s *shuffler) take(p parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	s.held = append(s.held, p)
	switch {
	case s.how.Swap == 0:
		if len(s.held) == 1 {
			s.timer = time.AfterFunc(together, s.flush)
		}
	case s.seen == s.how.Swap:
		s.timer = time.AfterFunc(swapWait, s.flush)
	default:
		if s.timer != nil {
			s.timer.Stop()
		}
		s.sending++
		go func() { defer s.sent(); s.flush() }()
	}
}

func (s *shuffler) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending--
}

// flush hands on what is held.
func (s *shuffler) flush() {
	s.posting.Lock()
	defer s.posting.Unlock()
	s.mu.Lock()
	list := s.held
	s.held = nil
	s.sending++
	switch {
	case s.how.Swap > 0 || s.how.Reverse:
		slices.Reverse(list)
	default:
		s.random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	}
	s.mu.Unlock()
	defer s.sent()
	if len(list) > 1 {
		s.note("delivery", "%d deliveries in another order", len(list))
	}
	for _, p := range list {
		s.post(p)
	}
}

// post hands one on; what cannot be delivered is lost, as GitHub's is.
func (s *shuffler) post(p parcel) {
	target := s.bots.webhookURL()
	if target == "" {
		return
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, target, bytes.NewReader(p.body))
	if err != nil {
		return
	}
	req.Header = p.header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.note("delivery", "lost: %v", err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

func (s *shuffler) idle() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) == 0 && s.sending == 0
}
