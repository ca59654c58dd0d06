package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/llm"
)

// patience bounds what should be immediate.
const patience = 20 * time.Second

// answerSchema is what the suite demands of structured answers.
const answerSchema = `{"type":"object","properties":{"verdict":{"type":"string","enum":["ready","declined"]},` +
	`"score":{"type":"integer","minimum":0}},"required":["verdict","score"],"additionalProperties":false}`

// Run drives a Backend through everything that llm promises. start makes a
// fake vendor that follows the script, and a Backend that talks to it with
// Key; the suite calls it once for each case.
func Run(t *testing.T, start func(t *testing.T, script *Wire) llm.Backend) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, func(*testing.T, *Wire) llm.Backend){
		"plain":      plain,
		"tools":      tools,
		"brokenTool": brokenTool,
		"structured": structured,
		"unfit":      unfit,
		"truncated":  truncated,
		"failures":   failures,
		"cancel":     cancelled,
		"deadline":   deadline,
		"redirect":   redirect,
		"concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start)
		})
	}
}

// Ask is a request of the suite with one message.
func Ask(text string) llm.Request {
	return llm.Request{
		Model: Model, Prompt: "suite/ask@1", System: "You are asked by a test suite.", MaxTokens: 100,
		Messages: []llm.Message{{Role: llm.User, Text: text}},
	}
}

func tool() llm.Tool {
	return llm.Tool{
		Name: "read_file", Description: "Read a file.",
		Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`),
	}
}

func plain(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	used := llm.Usage{Input: 120, Output: 7, Cached: 100}
	w := NewWire(Reply{Text: "Good mörning.", Usage: used})
	got, err := start(t, w).Complete(t.Context(), Ask("Hello?"))
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{Text: "Good mörning.", Stop: llm.EndTurn, Usage: used, Model: Model}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
	seen := Seen{
		Key: Key, Model: Model, MaxTokens: 100, System: "[prompt suite/ask@1]\nYou are asked by a test suite.",
		Messages: []llm.Message{{Role: llm.User, Text: "Hello?"}},
	}
	if d := cmp.Diff([]Seen{seen}, w.Seen()); d != "" {
		t.Errorf("on the wire (-want +got):\n%s", d)
	}
}

func tools(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	calls := []llm.ToolCall{
		{ID: "call_1", Name: "read_file", Input: json.RawMessage(`{"path":"a.go"}`)},
		{ID: "call_2", Name: "read_file", Input: json.RawMessage(`{"path":"b.go"}`)},
	}
	w := NewWire(Reply{Text: "Let me see.", Calls: calls, Usage: llm.Usage{Input: 50, Output: 20}}, Reply{Text: "Done.", Usage: llm.Usage{Input: 90, Output: 3}})
	b := start(t, w)
	r := Ask("Look.")
	r.Tools = []llm.Tool{tool()}
	got, err := b.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{Text: "Let me see.", Calls: calls, Stop: llm.ToolUse, Usage: llm.Usage{Input: 50, Output: 20}, Model: Model}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
	r.Messages = append(r.Messages,
		llm.Message{Role: llm.Assistant, Text: got.Text, Calls: got.Calls, Opaque: got.Opaque},
		llm.Message{Role: llm.User, Results: []llm.ToolResult{{ID: "call_1", Text: "package a"}, {ID: "call_2", Text: "not there", Error: true}}},
	)
	if got, err = b.Complete(t.Context(), r); err != nil || got.Text != "Done." {
		t.Fatalf("second turn: %+v, %v", got, err)
	}
	second := w.Seen()[1]
	if d := cmp.Diff([]string{"read_file"}, second.Tools); d != "" {
		t.Errorf("tools on the wire (-want +got):\n%s", d)
	}
	if d := cmp.Diff(r.Messages, second.Messages); d != "" {
		t.Errorf("messages on the wire (-want +got):\n%s", d)
	}
}

// brokenTool: arguments that are no JSON are delivered as they were written,
// and can be sent back in the history.
func brokenTool(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	broken := `{"path": "a.go`
	w := NewWire(Reply{Calls: []llm.ToolCall{{ID: "call_1", Name: "read_file", Input: json.RawMessage(broken)}}}, Reply{Text: "Sorry."})
	b := start(t, w)
	r := Ask("Look.")
	r.Tools = []llm.Tool{tool()}
	got, err := b.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Calls) != 1 || string(got.Calls[0].Input) != broken {
		t.Fatalf("calls = %+v, want the broken arguments as written", got.Calls)
	}
	stored, err := json.Marshal(broken)
	if err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages,
		llm.Message{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "call_1", Name: "read_file", Input: stored}}, Opaque: got.Opaque},
		llm.Message{Role: llm.User, Results: []llm.ToolResult{{ID: "call_1", Text: "not JSON", Error: true}}},
	)
	if _, err := b.Complete(t.Context(), r); err != nil {
		t.Fatalf("sending broken arguments back: %v", err)
	}
}

func structured(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	w := NewWire(Reply{Text: `{"verdict":"ready","score":3}`, Usage: llm.Usage{Input: 10, Output: 5}})
	r := Ask("Judge.")
	r.Schema = json.RawMessage(answerSchema)
	got, err := start(t, w).Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.JSON) != `{"verdict":"ready","score":3}` || got.Stop != llm.EndTurn || len(got.Calls) != 0 {
		t.Errorf("response = %+v", got)
	}
	if w.Seen()[0].Structured == "" {
		t.Error("the schema was not demanded on the wire")
	}
}

// unfit answers are errors with the text that the model wrote.
func unfit(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	for name, text := range map[string]string{
		"not JSON": "I think it is ready.", "wrong word": `{"verdict":"maybe","score":3}`,
		"out of bounds": `{"verdict":"ready","score":-1}`, "missing": `{"verdict":"ready"}`, "extra": `{"verdict":"ready","score":1,"x":2}`,
		"two": `{"verdict":"ready","score":1} {"verdict":"ready","score":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Ask("Judge.")
			r.Schema = json.RawMessage(answerSchema)
			got, err := start(t, NewWire(Reply{Text: text, Usage: llm.Usage{Input: 10, Output: 5}})).Complete(t.Context(), r)
			e := wantKind(t, err, llm.KindInvalidOutput)
			if got.JSON != nil || got.Text != text {
				t.Errorf("response = %+v, want only the text %q", got, text)
			}
			if e.Usage != (llm.Usage{Input: 10, Output: 5}) {
				t.Errorf("usage = %+v: an unfit answer costs money too", e.Usage)
			}
		})
	}
}

func truncated(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	w := NewWire(Reply{Text: "It was a dark and", MaxTokens: true}, Reply{Text: `{"verdict":"rea`, MaxTokens: true})
	b := start(t, w)
	got, err := b.Complete(t.Context(), Ask("Tell."))
	if err != nil || got.Stop != llm.MaxTokens || got.Text != "It was a dark and" {
		t.Errorf("truncated text: %+v, %v", got, err)
	}
	r := Ask("Judge.")
	r.Schema = json.RawMessage(answerSchema)
	got, err = b.Complete(t.Context(), r)
	_ = wantKind(t, err, llm.KindInvalidOutput)
	if got.Stop != llm.MaxTokens {
		t.Errorf("stop = %q, want %q", got.Stop, llm.MaxTokens)
	}
}

func failures(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	for _, c := range []struct {
		fault  Fault
		after  time.Duration
		kind   llm.Kind
		status int // -1: whatever the vendor uses
	}{
		{RateLimited, 17 * time.Second, llm.KindRateLimited, http.StatusTooManyRequests},
		{RateLimited, 0, llm.KindRateLimited, http.StatusTooManyRequests},
		{Overloaded, 0, llm.KindOverloaded, -1},
		{Broken, 0, llm.KindTransient, http.StatusInternalServerError},
		{Cut, 0, llm.KindTransient, 0},
		{Denied, 0, llm.KindAuth, http.StatusUnauthorized},
		{TooLong, 0, llm.KindTooLong, -1},
		{Refused, 0, llm.KindRefused, -1},
		{BadRequest, 0, llm.KindInvalid, http.StatusBadRequest},
		{NotAPI, 0, llm.KindInvalid, http.StatusOK},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			w := NewWire(Reply{Fault: c.fault, RetryAfter: c.after, Text: "Some text that is cut in two."})
			_, err := start(t, w).Complete(t.Context(), Ask("Hello?"))
			e := wantKind(t, err, c.kind)
			if e.RetryAfter != c.after {
				t.Errorf("retry after %s, want %s", e.RetryAfter, c.after)
			}
			if c.status >= 0 && e.Status != c.status {
				t.Errorf("status %d, want %d", e.Status, c.status)
			}
			if n := len(w.Seen()); n != 1 {
				t.Errorf("%d requests on the wire, want 1: retrying is the caller's", n)
			}
			if strings.Contains(err.Error(), Key) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func cancelled(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	w := NewWire(Reply{Fault: Hang})
	b := start(t, w)
	why := errors.New("the label is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		_, err := b.Complete(ctx, Ask("Hello?"))
		done <- err
	}()
	within(t, w.Arrived())
	cancel(why)
	if err := within(t, done); !errors.Is(err, why) {
		t.Errorf("error = %v, want the cause of the context", err)
	}
}

// deadline: a slow machine may meet it before the request is sent, which must
// look the same.
func deadline(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	b := start(t, NewWire(Reply{Fault: Hang}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := b.Complete(ctx, Ask("Hello?")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the deadline", err)
	}
}

// redirect: a key must not follow to another host.
func redirect(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed with headers %v", r.Header)
	}))
	t.Cleanup(other.Close)
	_, err := start(t, NewWire(Reply{Fault: Redirect, Text: other.URL})).Complete(t.Context(), Ask("Hello?"))
	_ = wantKind(t, err, llm.KindInvalid)
}

func concurrent(t *testing.T, start func(*testing.T, *Wire) llm.Backend) {
	const n = 8
	replies := make([]Reply, n)
	for i := range replies {
		replies[i] = Reply{Text: "Yes."}
	}
	b := start(t, NewWire(replies...))
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := b.Complete(t.Context(), Ask("Hello?"))
			errs <- err
		}()
	}
	for range n {
		if err := within(t, errs); err != nil {
			t.Error(err)
		}
	}
}

func wantKind(t *testing.T, err error, kind llm.Kind) *llm.Error {
	t.Helper()
	e, ok := llm.AsError(err)
	if !ok {
		t.Fatalf("error = %v (%T), want an llm.Error of kind %s", err, err, kind)
	}
	if e.Kind != kind {
		t.Fatalf("error = %v, want kind %s", err, kind)
	}
	return e
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited too long")
		panic("unreachable")
	}
}
