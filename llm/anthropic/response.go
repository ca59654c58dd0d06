package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

func usage(u anthropic.Usage) llm.Usage {
	if !u.JSON.InputTokens.Valid() {
		return llm.Usage{Unknown: true}
	}
	return llm.Usage{
		Input:  u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		Output: u.OutputTokens,
		Cached: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens,
	}
}

// response turns a complete answer into llm's terms.
func (b *Backend) response(r llm.Request, got received) (llm.Response, error) {
	m := got.message
	out := llm.Response{Model: m.Model, Usage: usage(m.Usage), Stop: llm.EndTurn}
	var text strings.Builder
	var raws []json.RawMessage
	keep, sound := false, true
	for i, c := range m.Content {
		raws = append(raws, json.RawMessage(c.RawJSON()))
		switch c.Type {
		case "text":
			text.WriteString(c.Text)
		case "tool_use":
			in := written(c.Input, got.inputs[int64(i)])
			sound = sound && json.Valid(in)
			out.Calls = append(out.Calls, llm.ToolCall{ID: c.ID, Name: c.Name, Input: in})
		default: // thinking, and what this version of the library does not know
			keep = true
		}
	}
	out.Text = text.String()
	if keep && sound {
		b, err := json.Marshal(raws)
		if err != nil {
			return out, &llm.Error{Kind: llm.KindTransient, Usage: out.Usage, Err: fmt.Errorf("keeping the answer's blocks: %w", err)}
		}
		out.Opaque = b
	}
	fail := func(kind llm.Kind, format string, args ...any) (llm.Response, error) {
		return out, &llm.Error{Kind: kind, Status: http.StatusOK, Usage: out.Usage, Err: fmt.Errorf(format, args...)}
	}
	switch m.StopReason {
	case anthropic.StopReasonRefusal:
		return fail(llm.KindRefused, "refused (%s): %s", orNone(string(m.StopDetails.Category)), orNone(m.StopDetails.Explanation))
	case anthropic.StopReasonModelContextWindowExceeded:
		return fail(llm.KindTooLong, "the answer reached the end of the model's context")
	case anthropic.StopReasonMaxTokens:
		out.Stop = llm.MaxTokens
	case anthropic.StopReasonToolUse:
		out.Stop = llm.ToolUse
	default: // llm.EndTurn
	}
	if len(r.Schema) == 0 {
		return out, nil
	}
	return b.structured(r, out)
}

// structured is out with the answer that r.Schema demands.
func (b *Backend) structured(r llm.Request, out llm.Response) (llm.Response, error) {
	tool := ""
	if b.opts.Structured == Tool {
		tool = answerTool
	}
	out, err := driver.Structured(r, out, tool)
	if err != nil {
		return out, &llm.Error{Kind: llm.KindInvalidOutput, Status: http.StatusOK, Usage: out.Usage, Err: err}
	}
	return out, nil
}

// written is what the model wrote as arguments.
func written(parsed json.RawMessage, partial string) json.RawMessage {
	if partial != "" {
		return json.RawMessage(partial)
	}
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(parsed, &wrapped) == nil && len(wrapped) == 1 {
		var s string
		if raw, ok := wrapped[invalidKey]; ok && json.Unmarshal(raw, &s) == nil {
			return json.RawMessage(s)
		}
	}
	if len(parsed) == 0 {
		return json.RawMessage("{}")
	}
	return parsed
}

func orNone(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}

// failure types an error by status, the vendor's error type and its error
// code; never by words.
func failure(err error, heard *driver.Heard, spent llm.Usage) error {
	e := &llm.Error{Status: heard.Status, RetryAfter: heard.RetryAfter(time.Now()), Usage: spent, Err: err}
	if spent.Unknown {
		e.Usage = llm.Usage{}
	}
	var api *anthropic.Error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &api):
		e.Kind = kindOf(api, heard.Status)
		e.Err = fmt.Errorf("%s: %s (request %s)", orNone(string(api.Type())), orNone(api.Message), orNone(api.RequestID))
		if heard.Status == http.StatusOK { // the error came inside a stream
			e.Status = 0
		}
	case heard.Status >= 300:
		e.Kind = driver.KindOf(heard.Status)
	case heard.Status == http.StatusOK && errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF), notMessages(heard):
		e.Kind = llm.KindInvalid
		e.Err = fmt.Errorf("the server answered with something that is no Messages API; check the base URL: %w", err)
	default:
		e.Kind, e.Status = llm.KindTransient, 0
	}
	return e
}

// notMessages reports a good answer of a type that the API never gives.
func notMessages(heard *driver.Heard) bool {
	ct := heard.Header.Get("Content-Type")
	return heard.Status == http.StatusOK && !strings.HasPrefix(ct, "text/event-stream") && !strings.Contains(ct, "json")
}

func kindOf(api *anthropic.Error, status int) llm.Kind {
	switch api.ErrorCode() {
	case "contract_spend_limit_reached", "enforced_spend_limit_reached", "organization_on_hold":
		return llm.KindAuth // waiting does not help, somebody must act
	default: // what the type says
	}
	switch api.Type() {
	case anthropic.ErrorTypeRateLimitError:
		return llm.KindRateLimited
	case anthropic.ErrorTypeOverloadedError:
		return llm.KindOverloaded
	case anthropic.ErrorTypeAPIError, anthropic.ErrorTypeTimeoutError:
		return llm.KindTransient
	case anthropic.ErrorTypeAuthenticationError, anthropic.ErrorTypePermissionError, anthropic.ErrorTypeBillingError:
		return llm.KindAuth
	default:
		if status == http.StatusOK {
			return llm.KindTransient // inside a stream
		}
		return driver.KindOf(status)
	}
}
