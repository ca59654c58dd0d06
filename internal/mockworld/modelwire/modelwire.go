// Package modelwire is a scripted model behind the wires of two vendors: the
// Anthropic Messages API and the OpenAI Chat Completions API, both with and
// without streaming. Which prompt is asked is read from the opening of the
// system text ("[prompt triage/classify@1]"); the answer is the next reply
// that the script holds for that prompt.
//
// It is as strict as the vendors are: a request they would refuse is refused
// with their status and error body, and is kept as a violation, as is a
// request that the script has no reply left for.
//
// It must not know our clients (llm and its drivers) nor package testing: a
// bug shared by fake and client is the one bug that a fake cannot find. It
// may import internal/clock and a JSON Schema library.
package modelwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pipelinebot/pipelinebot/internal/clock"
)

// Paths that are served. A base URL given to a client is the server's address
// for Anthropic and the address plus "/v1" for OpenAI.
const (
	PathMessages    = "/v1/messages"
	PathCompletions = "/v1/chat/completions"
)

// maxBody bounds a request, as the vendors do (Anthropic: 32 MB).
const maxBody = 32 << 20

// Options of a Server.
type Options struct {
	// Script is what the model says, by prompt. See Script.Check.
	Script Script
	// Key is the API key that requests must carry; required.
	Key string
	// Clock measures delays; nil means the real one.
	Clock clock.Clock
	// Log gets one line a request; nil means none.
	Log *slog.Logger
}

// Server is the http.Handler. It is safe for concurrent use.
type Server struct {
	key   string
	clock clock.Clock
	log   *slog.Logger

	mu         sync.Mutex
	script     Script
	taken      map[string]int // script key → replies used up, counting Times
	calls      map[string]int // prompt without version → requests so far
	records    []Record
	given      []given // in order, those that Rewind has not touched
	again      []given // to be given once more
	violations []string
	changed    chan struct{}
	serial     int
}

// New returns a server for a script that passed Script.Check.
func New(o Options) (*Server, error) {
	if o.Key == "" {
		return nil, errors.New("starting the scripted model: an API key is required")
	}
	if err := o.Script.Check(); err != nil {
		return nil, fmt.Errorf("starting the scripted model: %w", err)
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		key: o.Key, clock: o.Clock, log: o.Log, script: o.Script,
		taken: map[string]int{}, calls: map[string]int{}, changed: make(chan struct{}),
	}, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, ok := vendorOf(r.URL.Path)
	if !ok {
		s.violate("%s %s: the scripted model has no such route", r.Method, r.URL.Path)
		http.Error(w, "not found: the scripted model serves "+PathMessages+" and "+PathCompletions, http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		s.violate("%s %s: the method must be POST", r.Method, r.URL.Path)
		v.fail(w, s.nextID("req"), http.StatusMethodNotAllowed, 0, "method not allowed")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the client went away
	}
	s.answer(w, r, v, body)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, v vendor, body []byte) {
	reqID := s.nextID("req")
	refuse := func(status int, message string) {
		s.violate("%s: %s", r.URL.Path, message)
		v.fail(w, reqID, status, 0, message)
	}
	if len(body) > maxBody {
		refuse(http.StatusRequestEntityTooLarge, "request exceeds the maximum size")
		return
	}
	if msg := v.authorise(r, s.key); msg != "" {
		// A wrong key may be the very thing a scenario is about.
		s.note(Record{Vendor: v.name(), Status: http.StatusUnauthorized, Done: true})
		v.fail(w, reqID, http.StatusUnauthorized, 0, msg)
		return
	}
	if msg := v.headers(r); msg != "" {
		refuse(http.StatusBadRequest, msg)
		return
	}
	asked, err := v.parse(body)
	if err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	for _, field := range asked.unknown {
		s.violate("%s: unknown field %s", r.URL.Path, field)
	}
	if len(asked.unknown) > 0 {
		v.fail(w, reqID, http.StatusBadRequest, 0, asked.unknown[0]+": Extra inputs are not permitted")
		return
	}
	if asked.prompt == "" {
		refuse(http.StatusBadRequest, "the system text does not open with [prompt ID@VERSION], so the script cannot tell what is asked")
		return
	}
	s.reply(w, r, v, reqID, asked)
}

// reply takes the next scripted reply and plays it.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, v vendor, reqID string, asked asked) {
	reply, index, err := s.take(asked)
	if err != nil {
		s.violate("%v", err)
		v.fail(w, reqID, http.StatusBadRequest, 0, err.Error())
		return
	}
	done := s.finisher(index)
	if reply.Delay > 0 {
		t := s.clock.NewTimer(reply.Delay.D())
		select {
		case <-r.Context().Done():
			t.Stop()
			done(func(rec *Record) { rec.Cancelled = true })
			return
		case <-t.C():
		}
	}
	if reply.Status != 0 {
		done(func(rec *Record) { rec.Status = reply.Status })
		v.fail(w, reqID, reply.Status, reply.RetryAfter.D(), reply.Text)
		return
	}
	a, err := s.compose(asked, reply)
	if err != nil {
		s.violate("script of %s: %v", asked.prompt, err)
		done(func(rec *Record) { rec.Status = http.StatusBadRequest })
		v.fail(w, reqID, http.StatusBadRequest, 0, err.Error())
		return
	}
	// Counted before the bytes leave, so that whoever has the answer also
	// finds it recorded.
	done(func(rec *Record) { rec.Status, rec.Usage, rec.Cut = http.StatusOK, a.usage, reply.Cut })
	w.Header().Set("Request-Id", reqID)
	if asked.stream {
		v.stream(w, asked, a)
		return
	}
	b, err := json.Marshal(v.body(asked, a))
	if err != nil {
		v.fail(w, reqID, http.StatusInternalServerError, 0, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	if a.cut {
		cut(w, b[:len(b)/2])
	}
	_, _ = w.Write(b)
}

// cut sends what there is and breaks the connection.
func cut(w http.ResponseWriter, b []byte) {
	_, _ = w.Write(b)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (s *Server) nextID(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return fmt.Sprintf("%s_%06d", prefix, s.serial)
}

// vendor is one wire.
type vendor interface {
	name() string
	// authorise and headers return what is wrong, "" when nothing is.
	authorise(r *http.Request, key string) string
	headers(r *http.Request) string
	// parse reads and checks a request as the vendor does; the error's text
	// is the vendor's message.
	parse(body []byte) (asked, error)
	body(q asked, a answer) any
	stream(w http.ResponseWriter, q asked, a answer)
	fail(w http.ResponseWriter, reqID string, status int, retryAfter time.Duration, message string)
}

func vendorOf(path string) (vendor, bool) {
	switch {
	case strings.HasSuffix(path, PathMessages):
		return anthropic{}, true
	case strings.HasSuffix(path, PathCompletions):
		return openai{}, true
	}
	return nil, false
}
