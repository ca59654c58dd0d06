package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

// Turn answers one request of a Script.
type Turn func(ctx context.Context, r llm.Request) (llm.Response, error)

// Script is a Backend that answers from lists, one a prompt id, and records
// what it was asked. A request without a turn fails the test and the call; a
// turn that was never asked for fails the test at its end. Answers are
// checked against Request.Schema as a driver does it.
type Script struct {
	t     testing.TB
	mu    sync.Mutex
	turns map[string][]Turn
	asked []llm.Request
}

// NewScript returns a Script. The keys are prompt ids, with or without the
// version ("triage/classify@1" or "triage/classify").
func NewScript(t testing.TB, turns map[string][]Turn) *Script {
	s := &Script{t: t, turns: map[string][]Turn{}}
	for id, list := range turns {
		s.turns[id] = slices.Clone(list)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, left := range s.turns {
			if len(left) > 0 {
				t.Errorf("the script has %d turns left for %s", len(left), id)
			}
		}
	})
	return s
}

// Complete implements llm.Backend.
func (s *Script) Complete(ctx context.Context, r llm.Request) (llm.Response, error) {
	if ctx.Err() != nil {
		return llm.Response{}, context.Cause(ctx)
	}
	turn := s.take(r)
	if turn == nil {
		err := fmt.Errorf("the script has no turn for request %d of %s", s.count(r.Prompt), r.Prompt)
		s.t.Error(err)
		return llm.Response{}, &llm.Error{Kind: llm.KindInvalid, Err: err}
	}
	resp, err := turn(ctx, r)
	if err == nil && resp.Model == "" {
		resp.Model = r.Model
	}
	if err != nil || len(r.Schema) == 0 || len(resp.Calls) > 0 {
		return resp, err
	}
	if resp.JSON == nil {
		resp.JSON = driver.Object(resp.Text)
	}
	if err := driver.Check(r.Schema, resp.JSON); err != nil {
		wrote := resp
		wrote.Text, wrote.JSON = string(resp.JSON), nil
		return wrote, &llm.Error{Kind: llm.KindInvalidOutput, Usage: resp.Usage, Err: err}
	}
	return resp, nil
}

func (s *Script) take(r llm.Request) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	bare, _, _ := strings.Cut(r.Prompt, "@")
	for _, id := range []string{r.Prompt, bare} {
		if left := s.turns[id]; len(left) > 0 {
			s.turns[id] = left[1:]
			return left[0]
		}
	}
	return nil
}

func (s *Script) count(prompt string) int {
	n := 0
	for _, r := range s.Asked() {
		if r.Prompt == prompt {
			n++
		}
	}
	return n
}

// Asked returns the requests so far.
func (s *Script) Asked() []llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// usual is the usage of a turn that sets none.
func usual() llm.Usage { return llm.Usage{Input: 100, Output: 10} }

// JSON answers with a value as structured output.
func JSON(v any) Turn {
	return func(context.Context, llm.Request) (llm.Response, error) {
		b, err := json.Marshal(v)
		if err != nil {
			return llm.Response{}, fmt.Errorf("encoding a scripted answer: %w", err)
		}
		return llm.Response{JSON: b, Text: string(b), Stop: llm.EndTurn, Usage: usual()}, nil
	}
}

// Say answers with text.
func Say(text string) Turn {
	return Respond(llm.Response{Text: text, Stop: llm.EndTurn, Usage: usual()})
}

// Respond answers with a response as it is.
func Respond(r llm.Response) Turn {
	return func(context.Context, llm.Request) (llm.Response, error) { return r, nil }
}

// Call answers with one tool call; args is encoded as JSON, a
// json.RawMessage is sent as it is, valid or not.
func Call(name string, args any) Turn { return CallAll(Wish{name, args}) }

// Wish is one tool call of CallAll.
type Wish struct {
	Name string
	Args any
}

// CallAll answers with several tool calls.
func CallAll(wishes ...Wish) Turn {
	return func(_ context.Context, r llm.Request) (llm.Response, error) {
		resp := llm.Response{Stop: llm.ToolUse, Usage: usual()}
		for i, w := range wishes {
			in, raw := w.Args.(json.RawMessage)
			if !raw {
				b, err := json.Marshal(w.Args)
				if err != nil {
					return llm.Response{}, fmt.Errorf("encoding the arguments of %s: %w", w.Name, err)
				}
				in = b
			}
			resp.Calls = append(resp.Calls, llm.ToolCall{ID: fmt.Sprintf("call_%d_%d", len(r.Messages), i+1), Name: w.Name, Input: in})
		}
		return resp, nil
	}
}

// Finish answers with a call of the tool finish.
func Finish(answer any) Turn { return Call("finish", answer) }

// Fail answers with an error.
func Fail(err error) Turn {
	return func(context.Context, llm.Request) (llm.Response, error) { return llm.Response{}, err }
}

// Block waits until the context ends, after it has closed started (which may
// be nil).
func Block(started chan<- struct{}) Turn {
	return func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		if started != nil {
			close(started)
		}
		<-ctx.Done()
		return llm.Response{}, context.Cause(ctx)
	}
}

// Check looks at the request first.
func Check(look func(r llm.Request), then Turn) Turn {
	return func(ctx context.Context, r llm.Request) (llm.Response, error) {
		look(r)
		return then(ctx, r)
	}
}
