package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/llmtest"
)

// block is a content block of the Messages API, either way.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Content   []block         `json:"content,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Cache     *struct {
		Type string `json:"type"`
	} `json:"cache_control,omitempty"`
}

type wireRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	System    []block
	Tools     []struct {
		Name   string
		Schema json.RawMessage `json:"input_schema"`
		Cache  json.RawMessage `json:"cache_control"`
	}
	ToolChoice struct{ Type, Name string } `json:"tool_choice"`
	Output     struct {
		Format *struct {
			Type   string
			Schema json.RawMessage
		}
		Effort string
	} `json:"output_config"`
	Messages []struct {
		Role    string
		Content []block
	}
}

// fake is the vendor's server, following a script.
type fake struct {
	script *llmtest.Wire
	// think puts a signed thinking block before each answer.
	think bool
	// bodies are the raw requests.
	bodies chan []byte
}

func startFake(t *testing.T, script *llmtest.Wire) (*fake, string) {
	t.Helper()
	f := &fake{script: script, bodies: make(chan []byte, 100)}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL + "/gateway"
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/gateway/v1/messages" {
		fail(w, http.StatusNotFound, "not_found_error", r.Method+" "+r.URL.Path)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.bodies <- body
	var q wireRequest
	if err := json.Unmarshal(body, &q); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	reply, err := f.script.Next(seen(q, key))
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
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
		fail(w, http.StatusTooManyRequests, "rate_limit_error", "slow down")
	case llmtest.Overloaded:
		fail(w, 529, "overloaded_error", "Overloaded")
	case llmtest.Broken:
		fail(w, http.StatusInternalServerError, "api_error", "oops")
	case llmtest.Denied:
		fail(w, http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
	case llmtest.TooLong:
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", "too large")
	case llmtest.BadRequest:
		fail(w, http.StatusBadRequest, "invalid_request_error", "max_tokens: too large")
	default:
		f.answer(w, q, reply)
	}
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
}

func seen(q wireRequest, key string) llmtest.Seen {
	s := llmtest.Seen{Key: key, Model: q.Model, MaxTokens: q.MaxTokens}
	for _, b := range q.System {
		s.System += b.Text
	}
	for _, t := range q.Tools {
		s.Tools = append(s.Tools, t.Name)
	}
	if q.Output.Format != nil {
		s.Structured = q.Output.Format.Type
	} else if q.ToolChoice.Type != "" {
		s.Structured = q.ToolChoice.Type + " " + q.ToolChoice.Name
	}
	for _, m := range q.Messages {
		out := llm.Message{Role: llm.Role(m.Role)}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				out.Text += b.Text
			case "tool_use":
				out.Calls = append(out.Calls, llm.ToolCall{ID: b.ID, Name: b.Name, Input: b.Input})
			case "tool_result":
				r := llm.ToolResult{ID: b.ToolUseID, Error: b.IsError}
				for _, c := range b.Content {
					r.Text += c.Text
				}
				out.Results = append(out.Results, r)
			}
		}
		s.Messages = append(s.Messages, out)
	}
	return s
}

func (f *fake) answer(w http.ResponseWriter, q wireRequest, r llmtest.Reply) {
	var blocks []block
	if f.think {
		blocks = append(blocks, block{Type: "thinking", Thinking: "hm", Signature: "sig=="})
	}
	stop := "end_turn"
	if r.Text != "" && q.ToolChoice.Type == "tool" {
		blocks = append(blocks, block{Type: "tool_use", ID: "toolu_answer", Name: q.ToolChoice.Name, Input: json.RawMessage(r.Text)})
		stop = "tool_use"
	} else if r.Text != "" {
		blocks = append(blocks, block{Type: "text", Text: r.Text})
	}
	for _, c := range r.Calls {
		blocks = append(blocks, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Input})
		stop = "tool_use"
	}
	details := json.RawMessage("null")
	switch {
	case r.Fault == llmtest.Refused:
		stop, blocks = "refusal", nil
		details = json.RawMessage(`{"type":"refusal","category":"cyber","explanation":"no"}`)
	case r.MaxTokens:
		stop = "max_tokens"
	}
	usage := map[string]any{
		"input_tokens":            r.Usage.Input - r.Usage.Cached - r.Usage.CacheWrite,
		"cache_read_input_tokens": r.Usage.Cached, "cache_creation_input_tokens": r.Usage.CacheWrite,
		"output_tokens": r.Usage.Output,
	}
	if q.Stream {
		stream(w, q, r, blocks, stop, details, usage)
		return
	}
	for i, b := range blocks {
		if b.Type == "tool_use" && !json.Valid(b.Input) {
			wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": string(b.Input)})
			blocks[i].Input = wrapped
		}
	}
	if blocks == nil {
		blocks = []block{}
	}
	out, _ := json.Marshal(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": blocks,
		"stop_reason": stop, "stop_sequence": nil, "stop_details": details, "usage": usage,
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

func stream(w http.ResponseWriter, q wireRequest, r llmtest.Reply, blocks []block, stop string, details json.RawMessage, usage map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	event := func(kind string, fields map[string]any) {
		fields["type"] = kind
		b, _ := json.Marshal(fields)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	event("message_start", map[string]any{"message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "stop_details": nil, "usage": usage,
	}})
	event("ping", map[string]any{})
	for i, b := range blocks {
		open, deltas := b, []map[string]any(nil)
		parts := func(kind, field, whole string) {
			for _, part := range strings.SplitAfterN(whole, "m", 2) {
				deltas = append(deltas, map[string]any{"type": kind, field: part})
			}
		}
		switch b.Type {
		case "text":
			parts("text_delta", "text", b.Text)
			open.Text = ""
		case "tool_use":
			parts("input_json_delta", "partial_json", string(b.Input))
			open.Input = json.RawMessage("{}")
		case "thinking":
			deltas = []map[string]any{{"type": "thinking_delta", "thinking": b.Thinking}, {"type": "signature_delta", "signature": b.Signature}}
			open.Thinking, open.Signature = "", ""
		}
		event("content_block_start", map[string]any{"index": i, "content_block": open})
		for _, d := range deltas {
			event("content_block_delta", map[string]any{"index": i, "delta": d})
			if r.Fault == llmtest.Cut {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		}
		event("content_block_stop", map[string]any{"index": i})
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil, "stop_details": details},
		"usage": map[string]any{"output_tokens": usage["output_tokens"]},
	})
	event("message_stop", map[string]any{})
}
