package modelwire

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Record is one request that the script was asked to answer, or that was
// refused for its key.
type Record struct {
	// Vendor is "anthropic" or "openai".
	Vendor string
	// Prompt is the id without the version; Nth counts its requests from 1.
	Prompt string
	Nth    int
	Model  string
	// Turn counts the model's turns in the conversation from 1; 1 means that
	// a conversation begins.
	Turn int
	// Hash is the SHA-256 of system text and messages, in hex: equal requests
	// have equal hashes.
	Hash string
	// Again says that it repeats a request from before Rewind and was given
	// the same answer; it has that one's Nth.
	Again bool
	At    time.Time
	// Done is false while the request is in flight.
	Done bool
	// Cancelled says that the client gave up before the answer, Cut that the
	// connection was broken on purpose.
	Cancelled bool
	Cut       bool
	// Status is the HTTP status of the answer, 0 for none.
	Status int
	// Usage is what the answer said it cost; zero for errors.
	Usage Usage
}

// Records returns all requests so far, in order of arrival.
func (s *Server) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Violations returns what no client should have sent, in order.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// given is a reply that was handed out.
type given struct {
	key, hash string
	nth, turn int
	reply     Reply
}

// Rewind is for whoever has killed the client: what it had in its memory alone
// is lost, so that it may ask once more what it has asked before. An equal
// request is then given the equal answer, the newest first, instead of the
// script's next one.
func (s *Server) Rewind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = slices.Concat(s.again, s.given)
	s.given = nil
}

// repeated finds what an equal request was given before Rewind. Within a
// conversation that is repeated the requests are no more equal to the letter,
// since each answer has ids of its own; there the turn tells. The caller holds
// the lock.
func (s *Server) repeated(key, bare string, q asked) (given, bool) {
	goesOn := false
	for _, r := range slices.Backward(s.records) {
		if r.Prompt == bare {
			goesOn = r.Again && q.turns > 0 && r.Turn == q.turns
			break
		}
	}
	for i, g := range slices.Backward(s.again) {
		if g.key == key && (g.hash == q.hash || goesOn && g.turn == q.turns+1) {
			s.again = slices.Delete(s.again, i, i+1)
			return g, true
		}
	}
	return given{}, false
}

// Calls is the number of requests of a prompt (its version is ignored).
func (s *Server) Calls(prompt string) int {
	prompt, _, _ = strings.Cut(prompt, "@")
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[prompt]
}

// InFlight is the number of requests that wait for their answer; prompt ""
// counts all.
func (s *Server) InFlight(prompt string) int {
	prompt, _, _ = strings.Cut(prompt, "@")
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.records {
		if !r.Done && (prompt == "" || r.Prompt == prompt) {
			n++
		}
	}
	return n
}

// Changed returns a channel that is closed at the next request, answer or
// violation. Take it before looking, then wait on it.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := "model: " + fmt.Sprintf(format, args...)
	s.violations = append(s.violations, text)
	s.log.Warn("model request refused", "why", text)
	s.bump()
}

func (s *Server) note(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.At = s.clock.Now()
	s.records = append(s.records, r)
	s.bump()
}

// finisher returns what completes a record.
func (s *Server) finisher(index int) func(func(*Record)) {
	return func(change func(*Record)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.close(index, change)
	}
}

func (s *Server) close(index int, change func(*Record)) {
	change(&s.records[index])
	s.records[index].Done = true
	r := s.records[index]
	s.log.Debug("model request answered", "prompt", r.Prompt, "nth", r.Nth, "turn", r.Turn, "status", r.Status)
	s.bump()
}

// bump wakes those who wait on Changed; the caller holds the lock.
func (s *Server) bump() {
	close(s.changed)
	s.changed = make(chan struct{})
}
