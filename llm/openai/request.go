package openai

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

// answerTool is the function whose arguments are the answer (Tool).
const answerTool = "answer"

func (b *Backend) request(r llm.Request) (openai.ChatCompletionRequest, error) {
	req := openai.ChatCompletionRequest{Model: r.Model, ReasoningEffort: b.opts.Effort}
	if r.Model == "" || r.MaxTokens <= 0 || len(r.Messages) == 0 {
		return req, fmt.Errorf("asking %q: model, max tokens and messages are required", r.Prompt)
	}
	if b.newField(r.Model) {
		req.MaxCompletionTokens = r.MaxTokens
	} else {
		req.MaxTokens = r.MaxTokens //nolint:staticcheck // compatible servers know no other name
	}
	for _, t := range r.Tools {
		if !json.Valid(t.Input) {
			return req, fmt.Errorf("tool %s: its schema is not JSON", t.Name)
		}
		req.Tools = append(req.Tools, function(t.Name, t.Description, t.Input))
	}
	system := "[prompt " + r.Prompt + "]\n" + r.System
	if len(r.Schema) > 0 {
		if !json.Valid(r.Schema) {
			return req, fmt.Errorf("asking %q: the schema is not JSON", r.Prompt)
		}
		system += b.demand(&req, r)
	}
	req.Messages = append(req.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: system})
	for i, m := range r.Messages {
		ms, err := messages(m)
		if err != nil {
			return req, fmt.Errorf("message %d: %w", i, err)
		}
		req.Messages = append(req.Messages, ms...)
	}
	return req, nil
}

// newField reports that the output bound is called max_completion_tokens. The
// vendor wants it, older compatible servers know max_tokens alone; go-openai
// itself refuses the old name for the vendor's reasoning models anywhere.
func (b *Backend) newField(model string) bool {
	for _, p := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	u, err := url.Parse(b.opts.BaseURL)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".openai.azure.com"))
}

// demand asks for an answer of r.Schema and returns what must be added to the
// system text.
func (b *Backend) demand(req *openai.ChatCompletionRequest, r llm.Request) string {
	switch b.opts.JSONMode {
	case Tool:
		req.Tools = append(req.Tools, function(answerTool, "Give the answer.", r.Schema))
		if len(r.Tools) > 0 {
			return "\n\nGive your final answer by calling the function " + answerTool + "."
		}
		req.ToolChoice = openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: answerTool}}
		return ""
	case Object:
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
		return "\n\n" + driver.Instruction(r.Schema)
	default:
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name: "answer", Schema: r.Schema,
				// The strict form refuses optional properties and free keys.
				Strict: driver.Closed(r.Schema, true),
			},
		}
		return ""
	}
}

func function(name, description string, schema json.RawMessage) openai.Tool {
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: name, Description: description, Parameters: schema,
	}}
}

// messages are what one turn is on the wire: each tool result is a message of
// its own there.
func messages(m llm.Message) ([]openai.ChatCompletionMessage, error) {
	var out []openai.ChatCompletionMessage
	switch m.Role {
	case llm.Assistant:
		a := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: m.Text}
		for _, c := range m.Calls {
			a.ToolCalls = append(a.ToolCalls, openai.ToolCall{
				ID: c.ID, Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: c.Name, Arguments: arguments(c.Input)},
			})
		}
		if m.Text != "" || len(m.Calls) > 0 {
			out = append(out, a)
		}
	case llm.User:
		for _, r := range m.Results {
			text := r.Text
			if r.Error {
				text = "Error: " + text // the wire has no flag for it
			}
			if text == "" {
				text = "(empty)"
			}
			out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: r.ID, Content: text})
		}
		if m.Text != "" {
			out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: m.Text})
		}
	default:
		return nil, fmt.Errorf("role %q is unknown", m.Role)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	return out, nil
}

// arguments undoes what keeps broken arguments storable: the wire carries
// them as a string anyway.
func arguments(in json.RawMessage) string {
	var s string
	if json.Unmarshal(in, &s) == nil {
		return s
	}
	return string(in)
}
