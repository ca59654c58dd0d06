package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/pipelinebot/pipelinebot/llm"
	"github.com/pipelinebot/pipelinebot/llm/driver"
)

const (
	// answerTool is the tool whose arguments are the answer (Tool).
	answerTool = "answer"
	// invalidKey wraps arguments that are no JSON object, as the vendor
	// documents it for fine-grained streaming.
	invalidKey = "INVALID_JSON"
)

// unsupported are keywords that the vendor's structured output refuses
// (platform.claude.com/docs/en/build-with-claude/structured-outputs).
func unsupported() []string {
	return []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "$schema",
	}
}

func (b *Backend) params(r llm.Request) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{Model: r.Model, MaxTokens: int64(r.MaxTokens)}
	if r.Model == "" || r.MaxTokens <= 0 || len(r.Messages) == 0 {
		return p, fmt.Errorf("asking %q: model, max tokens and messages are required", r.Prompt)
	}
	p.OutputConfig.Effort = anthropic.OutputConfigEffort(b.opts.Effort)
	for _, t := range r.Tools {
		tool, err := toolParam(t.Name, t.Description, t.Input)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	system := "[prompt " + r.Prompt + "]\n" + r.System
	if len(r.Schema) > 0 {
		extra, err := b.demand(&p, r)
		if err != nil {
			return p, err
		}
		system += extra
	}
	// The mark on the system text covers the tools, which come before it.
	block := anthropic.TextBlockParam{Text: system, CacheControl: anthropic.NewCacheControlEphemeralParam()}
	p.System = []anthropic.TextBlockParam{block}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	for i, m := range r.Messages {
		// A conversation with tools grows: what was said until now is read
		// again with the next turn.
		mp, err := messageParam(m, i == len(r.Messages)-1 && len(r.Tools) > 0)
		if err != nil {
			return p, fmt.Errorf("message %d: %w", i, err)
		}
		p.Messages = append(p.Messages, mp)
	}
	return p, nil
}

// demand asks for an answer of r.Schema and returns what must be added to the
// system text.
func (b *Backend) demand(p *anthropic.MessageNewParams, r llm.Request) (string, error) {
	if b.opts.Structured == Tool {
		t, err := toolParam(answerTool, "Give the answer.", r.Schema)
		if err != nil {
			return "", err
		}
		p.Tools = append(p.Tools, t)
		if len(r.Tools) > 0 {
			return "\n\nGive your final answer by calling the tool " + answerTool + ".", nil
		}
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfTool: &anthropic.ToolChoiceToolParam{Name: answerTool}}
		return "", nil
	}
	if !driver.Closed(r.Schema, false) {
		// An object with free keys can't be held to by the vendor.
		return "\n\n" + driver.Instruction(r.Schema), nil
	}
	schema, err := driver.Loosen(r.Schema, unsupported()...)
	if err != nil {
		return "", err
	}
	p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schema}
	return "", nil
}

func toolParam(name, description string, schema json.RawMessage) (anthropic.ToolUnionParam, error) {
	fields, err := driver.Loosen(schema)
	if err != nil {
		return anthropic.ToolUnionParam{}, fmt.Errorf("tool %s: %w", name, err)
	}
	in := anthropic.ToolInputSchemaParam{ExtraFields: map[string]any{}}
	for k, v := range fields {
		switch k {
		case "type":
		case "properties":
			in.Properties = v
		case "required":
			if list, ok := v.([]any); ok {
				for _, e := range list {
					in.Required = append(in.Required, fmt.Sprint(e))
				}
			}
		default:
			in.ExtraFields[k] = v
		}
	}
	t := &anthropic.ToolParam{Name: name, InputSchema: in}
	if description != "" {
		t.Description = anthropic.String(description)
	}
	return anthropic.ToolUnionParam{OfTool: t}, nil
}

func messageParam(m llm.Message, mark bool) (anthropic.MessageParam, error) {
	if m.Role == llm.Assistant {
		if blocks, ok := echo(m); ok {
			return anthropic.NewAssistantMessage(blocks...), nil
		}
	}
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range m.Results { // results come before text, or the vendor refuses
		text := r.Text
		if text == "" {
			text = "(empty)"
		}
		blocks = append(blocks, anthropic.NewToolResultBlock(r.ID, text, r.Error))
	}
	if m.Text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(m.Text))
	}
	for _, c := range m.Calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, dictionary(c.Input), c.Name))
	}
	if len(blocks) == 0 {
		return anthropic.MessageParam{}, fmt.Errorf("it is empty")
	}
	switch m.Role {
	case llm.User:
		if mark {
			last := &blocks[len(blocks)-1]
			if cc := last.GetCacheControl(); cc != nil {
				*cc = anthropic.NewCacheControlEphemeralParam()
			}
		}
		return anthropic.NewUserMessage(blocks...), nil
	case llm.Assistant:
		return anthropic.NewAssistantMessage(blocks...), nil
	default:
		return anthropic.MessageParam{}, fmt.Errorf("role %q is unknown", m.Role)
	}
}

// dictionary is a call's arguments as the wire wants them: an object.
func dictionary(in json.RawMessage) any {
	var m map[string]json.RawMessage
	if json.Unmarshal(in, &m) == nil && m != nil {
		return in
	}
	var s string
	if json.Unmarshal(in, &s) != nil {
		s = string(in)
	}
	return map[string]string{invalidKey: s}
}

// echo is an assistant's turn exactly as it came, if it still says the same.
func echo(m llm.Message) ([]anthropic.ContentBlockParamUnion, bool) {
	var raws []json.RawMessage
	if len(m.Opaque) == 0 || json.Unmarshal(m.Opaque, &raws) != nil || len(raws) == 0 {
		return nil, false
	}
	var ids []string
	blocks := make([]anthropic.ContentBlockParamUnion, len(raws))
	for i, raw := range raws {
		var head struct{ Type, ID string }
		if json.Unmarshal(raw, &head) != nil || head.Type == "" {
			return nil, false
		}
		if head.Type == "tool_use" {
			ids = append(ids, head.ID)
		}
		blocks[i] = param.Override[anthropic.ContentBlockParamUnion](raw)
	}
	if !slices.EqualFunc(ids, m.Calls, func(id string, c llm.ToolCall) bool { return id == c.ID }) {
		return nil, false
	}
	return blocks, true
}
