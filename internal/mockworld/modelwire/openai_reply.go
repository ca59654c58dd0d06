package modelwire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// created is a fixed instant: equal scripts give equal bytes.
const created = 1_760_000_000

func (openai) stop(a answer) string {
	switch {
	case a.truncated:
		return "length"
	case len(a.calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (openai) usage(a answer) map[string]any {
	return map[string]any{
		"prompt_tokens": a.usage.Input, "completion_tokens": a.usage.Output, "total_tokens": a.usage.Input + a.usage.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": a.usage.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0},
	}
}

func (v openai) body(q asked, a answer) any {
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	if a.text != "" {
		m["content"] = a.text
	}
	var calls []any
	for _, c := range a.calls {
		calls = append(calls, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.input}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return map[string]any{
		"id": a.id, "object": "chat.completion", "created": created, "model": q.model, "service_tier": "default",
		"choices": []any{map[string]any{"index": 0, "message": m, "logprobs": nil, "finish_reason": v.stop(a)}},
		"usage":   v.usage(a),
	}
}

func (v openai) stream(w http.ResponseWriter, q asked, a answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	chunk := func(choices []any, usage any) {
		m := map[string]any{"id": a.id, "object": "chat.completion.chunk", "created": created, "model": q.model, "choices": choices}
		if q.streamUsage {
			m["usage"] = usage
		}
		b, _ := json.Marshal(m) // maps of plain values
		_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
	}
	delta := func(d map[string]any, finish any) {
		chunk([]any{map[string]any{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if a.text != "" {
		for i, part := range halves(a.text) {
			if i == 1 && a.cut {
				cut(w, nil)
			}
			delta(map[string]any{"content": part}, nil)
		}
	}
	for n, c := range a.calls {
		delta(map[string]any{"tool_calls": []any{map[string]any{
			"index": n, "id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": ""},
		}}}, nil)
		for i, part := range halves(c.input) {
			if i == 1 && a.cut {
				cut(w, nil)
			}
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": n, "function": map[string]any{"arguments": part}}}}, nil)
		}
	}
	if a.cut {
		cut(w, nil)
	}
	delta(map[string]any{}, v.stop(a))
	if q.streamUsage {
		chunk([]any{}, v.usage(a))
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

func (openai) fail(w http.ResponseWriter, reqID string, status int, retryAfter time.Duration, message string) {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case status == http.StatusBadRequest && message == "":
		code, message = "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, your messages resulted in 210000 tokens."
	case status >= 500:
		kind = "server_error"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	writeError(w, reqID, status, retryAfter, map[string]any{
		"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code},
	})
}
