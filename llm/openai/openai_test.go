package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipelinebot/pipelinebot/internal/secret"
	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
	"github.com/pipelinebot/pipelinebot/llm/openai"
)

type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wireRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	MaxNew    int    `json:"max_completion_tokens"`
	Effort    string `json:"reasoning_effort"`
	Tools     []struct {
		Function struct{ Name string }
	}
	ToolChoice *struct {
		Function struct{ Name string }
	} `json:"tool_choice"`
	Format *struct {
		Type   string
		Schema struct {
			Strict bool
			Schema json.RawMessage
		} `json:"json_schema"`
	} `json:"response_format"`
	Messages []struct {
		Role       string
		Content    string
		ToolCalls  []wireCall `json:"tool_calls"`
		ToolCallID string     `json:"tool_call_id"`
	}
}

// fake is a Chat Completions server that follows a script.
type fake struct {
	script *llmtest.Wire
	bodies chan []byte
}

func startFake(t *testing.T, script *llmtest.Wire) (*fake, string) {
	t.Helper()
	f := &fake{script: script, bodies: make(chan []byte, 100)}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL + "/gateway/v1"
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/gateway/v1/chat/completions" {
		fail(w, http.StatusNotFound, "invalid_request_error", "unknown_url", r.Method+" "+r.URL.Path)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.bodies <- body
	var q wireRequest
	if err := json.Unmarshal(body, &q); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	reply, err := f.script.Next(seen(q, key))
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	if llmtest.Misbehave(w, r, reply) {
		return
	}
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(reply.RetryAfter.Seconds())))
	}
	switch reply.Fault {
	case llmtest.RateLimited:
		fail(w, http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "slow down")
	case llmtest.Overloaded:
		fail(w, http.StatusServiceUnavailable, "server_error", "", "overloaded")
	case llmtest.Broken:
		fail(w, http.StatusInternalServerError, "server_error", "", "oops")
	case llmtest.Denied:
		fail(w, http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "incorrect key")
	case llmtest.TooLong:
		fail(w, http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", "too long")
	case llmtest.BadRequest:
		fail(w, http.StatusBadRequest, "invalid_request_error", "", "max_tokens: too large")
	default:
		answer(w, q, reply)
	}
}

func fail(w http.ResponseWriter, status int, kind, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	var c any
	if code != "" {
		c = code
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"type": kind, "code": c, "message": message, "param": nil}})
}

func seen(q wireRequest, key string) llmtest.Seen {
	s := llmtest.Seen{Key: key, Model: q.Model, MaxTokens: q.MaxTokens + q.MaxNew}
	for _, t := range q.Tools {
		s.Tools = append(s.Tools, t.Function.Name)
	}
	switch {
	case q.Format != nil:
		s.Structured = q.Format.Type
	case q.ToolChoice != nil:
		s.Structured = "tool " + q.ToolChoice.Function.Name
	}
	for _, m := range q.Messages {
		switch m.Role {
		case "system":
			s.System += m.Content
		case "tool":
			text, bad := strings.CutPrefix(m.Content, "Error: ")
			r := llm.ToolResult{ID: m.ToolCallID, Text: text, Error: bad}
			if n := len(s.Messages); n > 0 && s.Messages[n-1].Results != nil {
				s.Messages[n-1].Results = append(s.Messages[n-1].Results, r)
			} else {
				s.Messages = append(s.Messages, llm.Message{Role: llm.User, Results: []llm.ToolResult{r}})
			}
		default:
			out := llm.Message{Role: llm.Role(m.Role), Text: m.Content}
			for _, c := range m.ToolCalls {
				out.Calls = append(out.Calls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)})
			}
			s.Messages = append(s.Messages, out)
		}
	}
	return s
}

func answer(w http.ResponseWriter, q wireRequest, r llmtest.Reply) {
	message := map[string]any{"role": "assistant", "content": r.Text}
	finish := "stop"
	calls := r.Calls
	if q.ToolChoice != nil {
		message["content"] = nil
		calls = []llm.ToolCall{{ID: "call_answer", Name: q.ToolChoice.Function.Name, Input: json.RawMessage(r.Text)}}
	}
	if len(calls) > 0 {
		finish = "tool_calls"
		var list []wireCall
		for _, c := range calls {
			var wc wireCall
			wc.ID, wc.Type, wc.Function.Name, wc.Function.Arguments = c.ID, "function", c.Name, string(c.Input)
			list = append(list, wc)
		}
		message["tool_calls"] = list
	}
	switch {
	case r.Fault == llmtest.Refused:
		message = map[string]any{"role": "assistant", "content": nil, "refusal": "I can't help with that."}
	case r.MaxTokens:
		finish = "length"
	}
	out, _ := json.Marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		"usage": map[string]any{
			"prompt_tokens": r.Usage.Input, "completion_tokens": r.Usage.Output, "total_tokens": r.Usage.Input + r.Usage.Output,
			"prompt_tokens_details": map[string]any{"cached_tokens": r.Usage.Cached},
		},
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	if r.Fault == llmtest.Cut {
		_, _ = w.Write(out[:len(out)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(out)
}

func backend(t *testing.T, o openai.Options) *openai.Backend {
	t.Helper()
	o.Key = secret.New(llmtest.Key)
	b, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, mode := range []openai.JSONMode{openai.Schema, openai.Tool, openai.Object} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			llmtest.Run(t, func(t *testing.T, script *llmtest.Wire) llm.Backend {
				_, url := startFake(t, script)
				return backend(t, openai.Options{BaseURL: url, JSONMode: mode})
			})
		})
	}
}

// TestStrict: the strict form is asked for only where the schema allows it.
func TestStrict(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:      true,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                       false,
		`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":{"not":{}}}`: false,
	} {
		f, url := startFake(t, llmtest.NewWire(llmtest.Reply{Text: `{"a":1}`}))
		r := llmtest.Ask("Count.")
		r.Schema = json.RawMessage(schema)
		_, _ = backend(t, openai.Options{BaseURL: url}).Complete(t.Context(), r)
		var q wireRequest
		if err := json.Unmarshal(<-f.bodies, &q); err != nil {
			t.Fatal(err)
		}
		if q.Format.Schema.Strict != want {
			t.Errorf("strict = %t for %s", q.Format.Schema.Strict, schema)
		}
	}
}

// TestBound: the output bound has two names on this wire.
func TestBound(t *testing.T) {
	t.Parallel()
	for model, newName := range map[string]bool{"llama-3": false, "gpt-5-mini": true, "gpt-6-sol": true} {
		f, url := startFake(t, llmtest.NewWire(llmtest.Reply{Text: "x"}))
		r := llmtest.Ask("Hello?")
		r.Model = model
		if _, err := backend(t, openai.Options{BaseURL: url, Effort: "low"}).Complete(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var q wireRequest
		if err := json.Unmarshal(<-f.bodies, &q); err != nil {
			t.Fatal(err)
		}
		want := [2]int{100, 0}
		if newName {
			want = [2]int{0, 100}
		}
		if d := cmp.Diff(want, [2]int{q.MaxTokens, q.MaxNew}); d != "" || q.Effort != "low" {
			t.Errorf("%s: bounds (-want +got):\n%s effort %q", model, d, q.Effort)
		}
	}
}

// TestToolsNeedNoReasoning: go-openai refuses what the vendor would refuse,
// and the error says what to do.
func TestToolsNeedNoReasoning(t *testing.T) {
	t.Parallel()
	w := llmtest.NewWire(llmtest.Reply{Text: "x"})
	_, url := startFake(t, w)
	r := llmtest.Ask("Hello?")
	r.Model, r.Tools = "gpt-6-sol", []llm.Tool{{Name: "a", Input: json.RawMessage(`{"type":"object"}`)}}
	_, err := backend(t, openai.Options{BaseURL: url}).Complete(t.Context(), r)
	if e, ok := llm.AsError(err); !ok || e.Kind != llm.KindInvalid || !strings.Contains(err.Error(), `effort "none"`) {
		t.Errorf("error = %v", err)
	}
	if _, err := backend(t, openai.Options{BaseURL: url, Effort: "none"}).Complete(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		header string
		want   llm.Kind
		after  time.Duration
	}{
		{429, `{"error":{"message":"rate limit","type":"insufficient_quota","code":"insufficient_quota"}}`, "", llm.KindAuth, 0},
		{429, `slow down`, "2.5", llm.KindRateLimited, 2500 * time.Millisecond},
		{400, `{"error":{"message":"m","type":"x","code":"content_filter"}}`, "", llm.KindRefused, 0},
		{400, `{"error":{"message":"m","type":"exceed_context_size_error","code":400}}`, "", llm.KindTooLong, 0},
		// Words decide nothing.
		{400, `{"error":{"message":"context length exceeded, overloaded","type":"invalid_request_error","code":null}}`, "", llm.KindInvalid, 0},
		{403, `{"error":{"message":"m","type":"x","code":null}}`, "", llm.KindAuth, 0},
		{404, `{"error":{"message":"no such model","type":"x","code":"model_not_found"}}`, "", llm.KindInvalid, 0},
		{502, `<html>`, "", llm.KindTransient, 0},
		{529, `{}`, "", llm.KindOverloaded, 0},
		{200, `{"hello":"world"}`, "", llm.KindInvalid, 0},
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			t.Cleanup(s.Close)
			_, err := backend(t, openai.Options{BaseURL: s.URL}).Complete(t.Context(), llmtest.Ask("Hello?"))
			e, ok := llm.AsError(err)
			if !ok || e.Kind != c.want || e.Status != c.status || e.RetryAfter != c.after {
				t.Errorf("error = %v (%+v), want kind %s, status %d, after %s", err, e, c.want, c.status, c.after)
			}
		})
	}
}

// TestUnknownUsage: what a server does not count is not guessed.
func TestUnknownUsage(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a key was sent, though there is none")
		}
		fmt.Fprint(w, `{"model":"m","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(s.Close)
	b, err := openai.New(openai.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Complete(t.Context(), llmtest.Ask("Hello?"))
	if err != nil || !got.Usage.Unknown {
		t.Errorf("response = %+v, %v", got, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []openai.Options{
		{}, {BaseURL: "localhost:1"}, {BaseURL: "http://h/v1", JSONMode: "magic"},
	} {
		if _, err := openai.New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
