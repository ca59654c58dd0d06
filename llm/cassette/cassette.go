// Package cassette records the calls of a model backend into a YAML file and
// replays them without the backend. Requests are matched by a hash of all
// that they say; a request that was not recorded is an error that shows the
// nearest one that was.
//
// It must not know vendors, prompts or phases; it may import llm and the YAML
// library.
package cassette

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pipelinebot/pipelinebot/llm"
)

// ErrMiss is in the error of a request that has no recording (left).
var ErrMiss = errors.New("no such request is recorded")

// Cassette implements llm.Backend. It is safe for concurrent use.
type Cassette struct {
	path    string
	backend llm.Backend // nil when replaying
	scrub   func(string) string

	mu   sync.Mutex
	all  []entry
	next map[string][]int // key → indices not yet replayed, in order
}

// entry is one recorded call.
type entry struct {
	key      string
	request  request
	response *response
	failure  *failure
	used     bool
}

// Record asks b and keeps what was said, in memory until Save. scrub is
// applied to every text before it is kept or hashed; nil changes nothing.
func Record(path string, b llm.Backend, scrub func(string) string) *Cassette {
	return &Cassette{path: path, backend: b, scrub: orSame(scrub)}
}

// Replay reads a recording and answers from it. scrub must do what it did
// when recording, so that a secret or a path that differs from run to run
// does not make a request another one.
func Replay(path string, scrub func(string) string) (*Cassette, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading cassette: %w", err)
	}
	all, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("reading cassette %s: %w", path, err)
	}
	c := &Cassette{path: path, scrub: orSame(scrub), all: all, next: map[string][]int{}}
	for i, e := range all {
		c.next[e.key] = append(c.next[e.key], i)
	}
	return c, nil
}

func orSame(scrub func(string) string) func(string) string {
	return func(s string) string {
		s = strings.ToValidUTF8(s, "\uFFFD") // YAML has no other text
		if scrub == nil {
			return s
		}
		return scrub(s)
	}
}

// Complete implements llm.Backend. A miss is an llm.Error of KindInvalid with
// ErrMiss in it: nobody should try it again.
func (c *Cassette) Complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	if ctx.Err() != nil {
		return llm.Response{}, context.Cause(ctx)
	}
	q := newRequest(r, c.scrub)
	key, err := q.key()
	if err != nil {
		return llm.Response{}, &llm.Error{Kind: llm.KindInvalid, Err: fmt.Errorf("hashing the request of %s: %w", r.Prompt, err)}
	}
	if c.backend == nil {
		return c.replay(q, key)
	}
	resp, err := c.backend.Complete(ctx, r)
	e := entry{key: key, request: q}
	var typed *llm.Error
	switch {
	case err == nil:
		e.response = newResponse(resp, c.scrub)
	case errors.As(err, &typed):
		e.failure = newFailure(typed, resp, c.scrub)
	default:
		return resp, err // a cancelled call says nothing about the model
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, e)
	return resp, err
}

func (c *Cassette) replay(q request, key string) (llm.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.next[key]
	if len(left) == 0 {
		return llm.Response{}, &llm.Error{Kind: llm.KindInvalid, Err: c.miss(q, key)}
	}
	c.next[key] = left[1:]
	e := &c.all[left[0]]
	e.used = true
	if e.failure != nil {
		return e.failure.back()
	}
	return e.response.back()
}

// miss explains a request without a recording. The caller holds the lock.
func (c *Cassette) miss(q request, key string) error {
	times := 0
	for _, e := range c.all {
		if e.key == key {
			times++
		}
	}
	if times > 0 {
		return fmt.Errorf("%w in %s: %s was recorded %d times with this very request, and asked for once more", ErrMiss, c.path, q.Prompt, times)
	}
	best, score := -1, -1.0
	mine := q.lines()
	for i, e := range c.all {
		s := similar(mine, e.request.lines())
		if e.request.Prompt == q.Prompt {
			s += 1 // the same question in other words is nearest
		}
		if s > score {
			best, score = i, s
		}
	}
	if best < 0 {
		return fmt.Errorf("%w in %s: it is empty, and %s was asked", ErrMiss, c.path, q.Prompt)
	}
	return fmt.Errorf("%w in %s for %s. The nearest is number %d (-recorded +asked):\n%s", ErrMiss, c.path, q.Prompt, best+1,
		diff(c.all[best].request.lines(), mine))
}

// Unused describes the recordings that were not replayed.
func (c *Cassette) Unused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for i, e := range c.all {
		if c.backend == nil && !e.used {
			out = append(out, fmt.Sprintf("number %d, %s, %s", i+1, e.request.Prompt, e.key[:12]))
		}
	}
	return out
}

// Save writes what was recorded; the file appears whole or not at all. It is
// an error for a replay.
func (c *Cassette) Save() error {
	if c.backend == nil {
		return fmt.Errorf("saving cassette %s: it is being replayed", c.path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := encode(c.all)
	if err != nil {
		return fmt.Errorf("saving cassette %s: %w", c.path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), filepath.Base(c.path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("saving cassette: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("saving cassette %s: %w", c.path, err), os.Remove(f.Name()))
	}
	return nil
}
