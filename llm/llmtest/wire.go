// Package llmtest is the suite that every llm.Backend passes (Run), the
// vendor-neutral script of a fake vendor (Wire) that drives it, and a Backend
// that answers from a list (Script) for the tests of those who use models.
//
// It must not know any vendor: the driver's test translates between Wire and
// its vendor's wire. It may import llm, llm/driver and the standard library,
// package testing included, and is imported by tests alone.
package llmtest

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/llm"
)

// Key is the API key that a driver under test uses.
const Key = "key-for-tests-0123456789"

// Model is the model that the suite asks for.
const Model = "test-model"

// Fault is how a fake vendor misbehaves instead of answering.
type Fault string

// The faults.
const (
	// None answers as the Reply says.
	None Fault = ""
	// RateLimited is status 429, with RetryAfter if it is set.
	RateLimited Fault = "rate-limited"
	// Overloaded is the vendor's way to say so.
	Overloaded Fault = "overloaded"
	// Broken is status 500.
	Broken Fault = "broken"
	// Cut closes the connection in the middle of the answer.
	Cut Fault = "cut"
	// Denied is status 401.
	Denied Fault = "denied"
	// TooLong is how the vendor says, typed, that the context is too small.
	TooLong Fault = "too-long"
	// Refused is the vendor's typed refusal.
	Refused Fault = "refused"
	// BadRequest is a plain status 400.
	BadRequest Fault = "bad-request"
	// Redirect is a redirect to the address in Reply.Text.
	Redirect Fault = "redirect"
	// NotAPI is status 200 with an HTML page.
	NotAPI Fault = "not-api"
	// Hang gives no byte until the client goes away.
	Hang Fault = "hang"
)

// Reply is what a fake vendor says to one call.
type Reply struct {
	Fault      Fault
	RetryAfter time.Duration

	Text  string
	Calls []llm.ToolCall
	// Cut off by the bound on the output.
	MaxTokens bool
	Usage     llm.Usage
}

// Seen is a request as the fake vendor understood it.
type Seen struct {
	Key, Model, System string
	MaxTokens          int
	Tools              []string
	Messages           []llm.Message
	// Structured says how a schema was demanded, "" for not at all.
	Structured string
}

// Wire is the script of a fake vendor, and what it has seen. It is safe for
// concurrent use.
type Wire struct {
	mu      sync.Mutex
	replies []Reply
	seen    []Seen
	arrived chan struct{}
}

// NewWire returns a script of replies, to be given in order.
func NewWire(replies ...Reply) *Wire {
	return &Wire{replies: replies, arrived: make(chan struct{}, 100)}
}

// Next records a request and returns what to say to it. A request too many is
// an error, which the fake should answer as its vendor answers a bad request.
func (w *Wire) Next(s Seen) (Reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	w.arrived <- struct{}{}
	if len(w.replies) == 0 {
		return Reply{}, fmt.Errorf("request %d has no reply in the script", len(w.seen))
	}
	r := w.replies[0]
	w.replies = w.replies[1:]
	return r, nil
}

// Seen returns the requests so far.
func (w *Wire) Seen() []Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Seen(nil), w.seen...)
}

// Arrived receives once for each request.
func (w *Wire) Arrived() <-chan struct{} { return w.arrived }

// Misbehave carries out the faults that are the same for every vendor; false
// when it is for the caller to do.
func Misbehave(rw http.ResponseWriter, r *http.Request, reply Reply) bool {
	switch reply.Fault {
	case Hang:
		<-r.Context().Done()
	case Redirect:
		http.Redirect(rw, r, reply.Text, http.StatusTemporaryRedirect)
	case NotAPI:
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(rw, "<html><body>Welcome</body></html>")
	default:
		return false
	}
	return true
}
