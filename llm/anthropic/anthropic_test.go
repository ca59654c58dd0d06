package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/anthropic"
	"github.com/pipelinebot/pipelinebot/llm/driver"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
)

func backend(t *testing.T, o anthropic.Options) *anthropic.Backend {
	t.Helper()
	o.Key = secret.New(llmtest.Key)
	b, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]anthropic.Options{
		"streaming": {},
		"whole":     {NoStream: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			llmtest.Run(t, func(t *testing.T, script *llmtest.Wire) llm.Backend {
				_, url := startFake(t, script)
				o := o
				o.BaseURL = url
				return backend(t, o)
			})
		})
	}
}

// TestForcedTool is the older way to structured output. Its answers are
// objects by the wire's nature, so only the fitting half of the suite holds.
func TestForcedTool(t *testing.T) {
	t.Parallel()
	w := llmtest.NewWire(llmtest.Reply{Text: `{"n":1}`}, llmtest.Reply{Text: `{"n":"one"}`})
	_, url := startFake(t, w)
	b := backend(t, anthropic.Options{BaseURL: url, Structured: anthropic.Tool})
	r := llmtest.Ask("Count.")
	r.Schema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	got, err := b.Complete(t.Context(), r)
	if err != nil || string(got.JSON) != `{"n":1}` || len(got.Calls) != 0 || got.Stop != llm.EndTurn {
		t.Errorf("response = %+v, %v", got, err)
	}
	got, err = b.Complete(t.Context(), r)
	if e, ok := llm.AsError(err); !ok || e.Kind != llm.KindInvalidOutput || got.Text != `{"n":"one"}` {
		t.Errorf("response = %+v, %v; want invalid output with its text", got, err)
	}
	if s := w.Seen()[0].Structured; s != "tool answer" {
		t.Errorf("structured by %q", s)
	}
}

// TestWire pins what the suite does not say: caching marks, effort and the
// schema without the bounds that the vendor refuses.
func TestWire(t *testing.T) {
	t.Parallel()
	f, url := startFake(t, llmtest.NewWire(llmtest.Reply{Text: `{"n":1}`}))
	b := backend(t, anthropic.Options{BaseURL: url, Effort: "low"})
	r := llmtest.Ask("Count.")
	r.Tools = []llm.Tool{
		{Name: "a", Input: json.RawMessage(`{"type":"object","properties":{"minimum":{"type":"string","minLength":1}},"required":["minimum"]}`)},
		{Name: "b", Input: json.RawMessage(`{"type":"object"}`)},
	}
	r.Schema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":0}},"required":["n"],"additionalProperties":{"not":{}}}`)
	if _, err := b.Complete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var q wireRequest
	if err := json.Unmarshal(<-f.bodies, &q); err != nil {
		t.Fatal(err)
	}
	if q.System[0].Cache == nil || q.Tools[0].Cache != nil || q.Tools[1].Cache == nil || q.Messages[0].Content[0].Cache == nil {
		t.Errorf("cache marks: system %v, tools %s %s, last message %v", q.System[0].Cache, q.Tools[0].Cache, q.Tools[1].Cache, q.Messages[0].Content[0].Cache)
	}
	if q.Output.Effort != "low" {
		t.Errorf("effort = %q", q.Output.Effort)
	}
	got, err := json.Marshal(q.Output.Format.Schema)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"additionalProperties":false,"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
	if !strings.Contains(string(q.Tools[0].Schema), `"minLength":1`) {
		t.Errorf("a tool's schema must stay whole: %s", q.Tools[0].Schema)
	}
}

// TestFreeKeys: an object with free keys can't be demanded, so it is asked
// for in words.
func TestFreeKeys(t *testing.T) {
	t.Parallel()
	w := llmtest.NewWire(llmtest.Reply{Text: "```json\n{\"a\":1}\n```"})
	_, url := startFake(t, w)
	r := llmtest.Ask("Map.")
	r.Schema = json.RawMessage(`{"type":"object","additionalProperties":{"type":"integer"}}`)
	got, err := backend(t, anthropic.Options{BaseURL: url}).Complete(t.Context(), r)
	if err != nil || string(got.JSON) != `{"a":1}` {
		t.Errorf("response = %+v, %v", got, err)
	}
	if s := w.Seen()[0]; s.Structured != "" || !strings.Contains(s.System, string(r.Schema)) {
		t.Errorf("on the wire: %+v", s)
	}
}

// TestThinking: signed blocks come back unchanged with the same turn, and are
// left out when the turn says something else now.
func TestThinking(t *testing.T) {
	t.Parallel()
	for _, noStream := range []bool{false, true} {
		call := llm.ToolCall{ID: "call_1", Name: "look", Input: json.RawMessage(`{}`)}
		w := llmtest.NewWire(llmtest.Reply{Text: "Hm.", Calls: []llm.ToolCall{call}}, llmtest.Reply{Text: "x"}, llmtest.Reply{Text: "y"})
		f, url := startFake(t, w)
		f.think = true
		b := backend(t, anthropic.Options{BaseURL: url, NoStream: noStream})
		r := llmtest.Ask("Look.")
		r.Tools = []llm.Tool{{Name: "look", Input: json.RawMessage(`{"type":"object"}`)}}
		got, err := b.Complete(t.Context(), r)
		if err != nil || got.Text != "Hm." || got.Opaque == nil {
			t.Fatalf("response = %+v, %v", got, err)
		}
		turn := llm.Message{Role: llm.Assistant, Text: got.Text, Calls: got.Calls, Opaque: got.Opaque}
		result := llm.Message{Role: llm.User, Results: []llm.ToolResult{{ID: "call_1", Text: "seen"}}}
		first := r.Messages
		r.Messages = append(first, turn, result)
		if _, err := b.Complete(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		<-f.bodies
		if body := string(<-f.bodies); !strings.Contains(body, `"signature":"sig=="`) || !strings.Contains(body, `"thinking":"hm"`) {
			t.Errorf("the thinking block is not in %s", body)
		}
		turn.Calls = []llm.ToolCall{{ID: "call_1", Name: "look", Input: json.RawMessage(`{}`)}, {ID: "call_2", Name: "look", Input: json.RawMessage(`{}`)}}
		result.Results = append(result.Results, llm.ToolResult{ID: "call_2", Text: "seen"})
		r.Messages = append(first, turn, result)
		if _, err := b.Complete(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if body := string(<-f.bodies); strings.Contains(body, "sig==") || !strings.Contains(body, "call_2") {
			t.Errorf("a changed turn was echoed: %s", body)
		}
	}
}

// TestErrorCodes are the vendor's typed errors beyond the suite.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		kind, code string
		want       llm.Kind
	}{
		{429, "rate_limit_error", "ramp_limit_exceeded", llm.KindRateLimited},
		{429, "rate_limit_error", "enforced_spend_limit_reached", llm.KindAuth},
		{402, "billing_error", "", llm.KindAuth},
		{403, "permission_error", "", llm.KindAuth},
		{404, "not_found_error", "", llm.KindInvalid},
		{503, "api_error", "", llm.KindTransient},
		{504, "timeout_error", "", llm.KindTransient},
		{529, "overloaded_error", "", llm.KindOverloaded},
		{502, "", "", llm.KindTransient},
		// Words decide nothing.
		{400, "invalid_request_error", "", llm.KindInvalid},
	} {
		t.Run(fmt.Sprint(c.status, c.kind, c.code), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				if c.kind != "" {
					fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"prompt is too long, rate limit, overloaded","details":{"error_code":%q}}}`, c.kind, c.code)
				}
			}))
			t.Cleanup(s.Close)
			_, err := backend(t, anthropic.Options{BaseURL: s.URL}).Complete(t.Context(), llmtest.Ask("Hello?"))
			if e, ok := llm.AsError(err); !ok || e.Kind != c.want || e.Status != c.status {
				t.Errorf("error = %v, want kind %s and status %d", err, c.want, c.status)
			}
		})
	}
}

// TestErrorInStream: a typed error may come after the status.
func TestErrorInStream(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"x\",\"content\":[],\"usage\":{\"input_tokens\":40,\"output_tokens\":1}}}\n\n")
		fmt.Fprint(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")
	}))
	t.Cleanup(s.Close)
	_, err := backend(t, anthropic.Options{BaseURL: s.URL}).Complete(t.Context(), llmtest.Ask("Hello?"))
	e, ok := llm.AsError(err)
	if !ok || e.Kind != llm.KindOverloaded || e.Usage != (llm.Usage{Input: 40, Output: 1}) {
		t.Errorf("error = %#v, want overloaded with what was used", err)
	}
}

// TestSilence: a stream without a byte for Idle is given up. How slow the
// machine is changes only where the silence is noticed; driver's own test has
// the instants.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"before the answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"inside the answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: ping\ndata: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A server notices that its client is gone once it has read the body.
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				handler(w, r)
			}))
			t.Cleanup(s.Close)
			b := backend(t, anthropic.Options{BaseURL: s.URL, Idle: 50 * time.Millisecond})
			_, err := b.Complete(t.Context(), llmtest.Ask("Hello?"))
			if e, ok := llm.AsError(err); !ok || e.Kind != llm.KindTransient || !errors.Is(err, driver.ErrSilent) {
				t.Errorf("error = %v, want a transient one of silence", err)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []anthropic.Options{
		{}, {Key: secret.New("k"), BaseURL: "localhost:1"}, {Key: secret.New("k"), Structured: "magic"},
	} {
		if _, err := anthropic.New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
