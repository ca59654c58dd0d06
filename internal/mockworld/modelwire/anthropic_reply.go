package modelwire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"
)

func (anthropic) stop(q asked, a answer) string {
	switch {
	case a.truncated:
		return "max_tokens"
	case len(a.calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (anthropic) usage(a answer) map[string]any {
	return map[string]any{
		// The vendor counts what came from the cache apart.
		"input_tokens":            max(a.usage.Input-a.usage.Cached, 0),
		"cache_read_input_tokens": a.usage.Cached, "cache_creation_input_tokens": 0,
		"output_tokens": a.usage.Output, "service_tier": "standard",
	}
}

// input is a tool's arguments as the wire can carry them: broken JSON cannot
// stand inside JSON, so it travels as the vendor's documentation wraps it.
func (c answerCall) object() any {
	if c.malformed {
		return map[string]string{"INVALID_JSON": c.input}
	}
	return json.RawMessage(c.input)
}

func (v anthropic) body(q asked, a answer) any {
	content := []any{}
	if a.text != "" {
		content = append(content, map[string]any{"type": "text", "text": a.text})
	}
	for _, c := range a.calls {
		content = append(content, map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": c.object()})
	}
	return map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": q.model, "content": content,
		"stop_reason": v.stop(q, a), "stop_sequence": nil, "usage": v.usage(a),
	}
}

func (v anthropic) stream(w http.ResponseWriter, q asked, a answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	send := func(kind string, fields map[string]any) {
		fields["type"] = kind
		b, _ := json.Marshal(fields) // maps of plain values
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	start := v.usage(a)
	start["output_tokens"] = 1
	send("message_start", map[string]any{"message": map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": q.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": start,
	}})
	send("ping", map[string]any{})
	index := 0
	block := func(open map[string]any, kind, field, whole string) {
		send("content_block_start", map[string]any{"index": index, "content_block": open})
		for i, part := range halves(whole) {
			if i == 1 && a.cut {
				cut(w, nil)
			}
			send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": kind, field: part}})
		}
		send("content_block_stop", map[string]any{"index": index})
		index++
	}
	if a.text != "" {
		block(map[string]any{"type": "text", "text": ""}, "text_delta", "text", a.text)
	}
	for _, c := range a.calls {
		block(map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": map[string]any{}}, "input_json_delta", "partial_json", c.input)
	}
	if a.cut {
		cut(w, nil)
	}
	send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": v.stop(q, a), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": a.usage.Output},
	})
	send("message_stop", map[string]any{})
}

func (anthropic) fail(w http.ResponseWriter, reqID string, status int, retryAfter time.Duration, message string) {
	kinds := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
	}
	kind, ok := kinds[status]
	if !ok {
		kind = "api_error"
		if status < 500 {
			kind = "invalid_request_error"
		}
	}
	if message == "" {
		message = map[int]string{
			400: "prompt is too long: 210000 tokens > 200000 maximum", 401: "invalid x-api-key",
			429: "This request would exceed your organization's rate limit", 529: "Overloaded",
		}[status]
	}
	if message == "" {
		message = "Internal server error"
	}
	writeError(w, reqID, status, retryAfter, map[string]any{
		"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": reqID,
	})
}

func writeError(w http.ResponseWriter, reqID string, status int, retryAfter time.Duration, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", reqID)
	if retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(retryAfter.Seconds()))))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// halves cuts a text in two at a rune's border, so that a reader of a stream
// must join them.
func halves(s string) []string {
	at := len(s) / 2
	for at > 0 && at < len(s) && s[at]&0xC0 == 0x80 {
		at--
	}
	if at == 0 {
		return []string{s}
	}
	return []string{s[:at], s[at:]}
}
