package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

func usage(u openai.Usage) llm.Usage {
	if u == (openai.Usage{}) {
		return llm.Usage{Unknown: true}
	}
	out := llm.Usage{Input: int64(u.PromptTokens), Output: int64(u.CompletionTokens)}
	if u.PromptTokensDetails != nil {
		out.Cached = int64(u.PromptTokensDetails.CachedTokens)
	}
	return out
}

// response turns an answer into llm's terms.
func (b *Backend) response(r llm.Request, got openai.ChatCompletionResponse) (llm.Response, error) {
	out := llm.Response{Model: got.Model, Usage: usage(got.Usage), Stop: llm.EndTurn}
	fail := func(kind llm.Kind, format string, args ...any) (llm.Response, error) {
		return out, &llm.Error{Kind: kind, Status: http.StatusOK, Usage: out.Usage, Err: fmt.Errorf(format, args...)}
	}
	if len(got.Choices) == 0 {
		return fail(llm.KindInvalid, "the server answered without a choice; check that the base URL is a Chat Completions API")
	}
	choice := got.Choices[0]
	out.Text = choice.Message.Content
	for _, c := range choice.Message.ToolCalls {
		in := json.RawMessage(c.Function.Arguments)
		if len(in) == 0 {
			in = json.RawMessage("{}")
		}
		out.Calls = append(out.Calls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Input: in})
	}
	switch {
	case choice.Message.Refusal != "":
		return fail(llm.KindRefused, "refused: %s", choice.Message.Refusal)
	case choice.FinishReason == openai.FinishReasonContentFilter:
		return fail(llm.KindRefused, "the vendor's content filter withheld the answer")
	case choice.FinishReason == openai.FinishReasonLength:
		out.Stop = llm.MaxTokens
	case len(out.Calls) > 0: // some servers say "stop" all the same
		out.Stop = llm.ToolUse
	}
	if len(r.Schema) == 0 {
		return out, nil
	}
	return b.structured(r, out)
}

// structured is out with the answer that r.Schema demands.
func (b *Backend) structured(r llm.Request, out llm.Response) (llm.Response, error) {
	tool := ""
	if b.opts.JSONMode == Tool {
		tool = answerTool
	}
	out, err := driver.Structured(r, out, tool)
	if err != nil {
		return out, &llm.Error{Kind: llm.KindInvalidOutput, Status: http.StatusOK, Usage: out.Usage, Err: err}
	}
	return out, nil
}

// failure types an error by status and the vendor's code and type; never by
// words.
func failure(err error, heard *driver.Heard, r llm.Request) error {
	e := &llm.Error{Status: heard.Status, RetryAfter: heard.RetryAfter(time.Now()), Err: err}
	var api *openai.APIError
	var raw *openai.RequestError
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		e.Kind = llm.KindInvalid
		e.Err = fmt.Errorf("%s takes tools over Chat Completions only with reasoning effort \"none\"; set that, or use another model: %w", r.Model, err)
	case isLocal(err):
		e.Kind = llm.KindInvalid
	case errors.As(err, &api):
		e.Kind = kindOf(api, heard.Status)
		e.Err = fmt.Errorf("%s (%s %v)", api.Message, api.Type, api.Code)
	case errors.As(err, &raw):
		e.Kind = driver.KindOf(heard.Status)
		e.Err = fmt.Errorf("status %d with no error object: %s", heard.Status, clip(string(raw.Body)))
	case heard.Status == http.StatusOK && !errors.Is(err, io.ErrUnexpectedEOF) && (errors.As(err, &syntax) || errors.As(err, &typed)):
		e.Kind = llm.KindInvalid
		e.Err = fmt.Errorf("the server answered with something that is no chat completion; check the base URL: %w", err)
	case heard.Status >= 300:
		e.Kind = driver.KindOf(heard.Status)
		e.Err = fmt.Errorf("status %d: %w", heard.Status, err)
	default:
		e.Kind, e.Status = llm.KindTransient, 0
	}
	return e
}

// isLocal reports that go-openai refused to send the request.
func isLocal(err error) bool {
	for _, e := range []error{
		openai.ErrChatCompletionInvalidModel, openai.ErrReasoningEffortUnsupported, openai.ErrReasoningSamplingUnsupported,
		openai.ErrReasoningModelMaxTokensDeprecated, openai.ErrContentFieldsMisused,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// kindOf reads the vendor's code
// (platform.openai.com/docs/guides/error-codes) before the status.
func kindOf(api *openai.APIError, status int) llm.Kind {
	code, ok := api.Code.(string)
	if !ok {
		code = ""
	}
	switch code {
	case "context_length_exceeded", "string_above_max_length":
		return llm.KindTooLong
	case "content_filter", "content_policy_violation":
		return llm.KindRefused
	case "insufficient_quota", "billing_hard_limit_reached":
		return llm.KindAuth // waiting does not help, somebody must act
	}
	if api.Type == "exceed_context_size_error" { // llama.cpp's server
		return llm.KindTooLong
	}
	return driver.KindOf(status)
}

func clip(s string) string {
	const most = 300
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
