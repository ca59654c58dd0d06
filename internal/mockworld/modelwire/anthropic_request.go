package modelwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// anthropic is the Messages API. Source of the rules: the API reference
// (platform.claude.com/docs/en/api/messages) and its error messages.
type anthropic struct{}

func (anthropic) name() string { return "anthropic" }

func (anthropic) authorise(r *http.Request, key string) string {
	got := r.Header.Get("X-Api-Key")
	if got == "" {
		got, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	if got != key {
		return "invalid x-api-key"
	}
	return ""
}

func (anthropic) headers(r *http.Request) string {
	if r.Header.Get("Anthropic-Version") == "" {
		return "anthropic-version: header is required"
	}
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		return "content-type: must be application/json"
	}
	return ""
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (a anthropic) parse(body []byte) (asked, error) {
	var err error
	q := asked{vendor: a.name(), bytes: len(body), all: string(body)}
	root := object{unknown: &q.unknown, err: &err}
	o := root.open("", body,
		"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k",
		"stop_sequences", "metadata", "thinking", "service_tier", "output_config", "cache_control", "container", "inference_geo")
	if err != nil {
		return q, errors.New("the request body is not valid JSON")
	}
	q.model = o.need("model")
	if !o.has("max_tokens") {
		o.fail("max_tokens: Field required")
	}
	o.get("max_tokens", &q.maxTokens)
	if q.maxTokens < 1 {
		o.fail("max_tokens: Input should be greater than or equal to 1")
	}
	o.get("stream", &q.stream)
	if o.has("temperature") {
		var t float64
		if o.get("temperature", &t); t < 0 || t > 1 {
			o.fail("temperature: range: 0..1")
		}
	}
	system := a.system(o)
	q.prompt = promptOf(system)
	a.tools(o, &q)
	a.choice(o, &q)
	a.format(o, &q)
	a.messages(o, &q)
	if n := strings.Count(q.all, `"cache_control":{`); n > 4 {
		o.fail("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	q.hash = hashOf(system, string(o.fields["messages"]))
	return q, err
}

func (a anthropic) system(o object) string {
	if !o.has("system") {
		return ""
	}
	if isString(o.fields["system"]) {
		return o.str("system")
	}
	var text []string
	for i, raw := range o.list("system") {
		b := o.open(fmt.Sprintf("system.%d", i), raw, "type", "text", "cache_control", "citations")
		if b.str("type") != "text" {
			o.fail("system.%d.type: Input should be 'text'", i)
		}
		text = append(text, b.need("text"))
	}
	return strings.Join(text, "\n")
}

func (a anthropic) tools(o object, q *asked) {
	q.tools = map[string]json.RawMessage{}
	for i, raw := range o.list("tools") {
		path := fmt.Sprintf("tools.%d", i)
		t := o.open(path, raw, "name", "description", "input_schema", "type", "cache_control", "strict", "input_examples", "eager_input_streaming", "defer_loading", "allowed_callers")
		if typ := t.str("type"); typ != "" && typ != "custom" {
			o.fail("%s.type: the scripted model offers custom tools only", path)
		}
		name := t.need("name")
		if !toolName.MatchString(name) {
			o.fail("%s.custom.name: String should match pattern '%s'", path, toolName)
		}
		if _, dup := q.tools[name]; dup {
			o.fail("tools: Tool names must be unique.")
		}
		if !t.has("input_schema") {
			o.fail("%s.custom.input_schema: Field required", path)
			continue
		}
		var head struct{ Type string }
		if json.Unmarshal(t.fields["input_schema"], &head) != nil || head.Type != "object" {
			o.fail("%s.custom.input_schema.type: Input should be 'object'", path)
		}
		var strict bool
		if t.get("strict", &strict); strict {
			if err := checkStrict(path+".custom.input_schema", t.fields["input_schema"], "anthropic"); err != nil {
				o.fail("%v", err)
			}
		}
		q.tools[name] = t.fields["input_schema"]
	}
}

func (a anthropic) choice(o object, q *asked) {
	if !o.has("tool_choice") {
		return
	}
	c := o.open("tool_choice", o.fields["tool_choice"], "type", "name", "disable_parallel_tool_use")
	switch typ := c.str("type"); typ {
	case "auto", "any", "none":
		if typ == "any" && len(q.tools) == 1 {
			for name := range q.tools {
				q.force = name
			}
		}
	case "tool":
		q.force = c.need("name")
		if _, ok := q.tools[q.force]; !ok {
			o.fail("tool_choice: Tool '%s' not found in provided tools", q.force)
		}
	default:
		o.fail("tool_choice.type: Input tag '%s' does not match any of: auto, any, tool, none", typ)
	}
	if len(q.tools) == 0 {
		o.fail("tool_choice may only be specified while providing tools")
	}
}

func (a anthropic) format(o object, q *asked) {
	if !o.has("output_config") {
		return
	}
	oc := o.open("output_config", o.fields["output_config"], "format", "effort", "task_budget")
	if e := oc.str("effort"); e != "" && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, e) {
		o.fail("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	if !oc.has("format") {
		return
	}
	f := o.open("output_config.format", oc.fields["format"], "type", "schema")
	if f.str("type") != "json_schema" {
		o.fail("output_config.format.type: Input should be 'json_schema'")
	}
	if !f.has("schema") {
		o.fail("output_config.format.schema: Field required")
		return
	}
	q.schema = f.fields["schema"]
	if err := checkStrict("output_config.format.schema", q.schema, "anthropic"); err != nil {
		o.fail("%v", err)
	}
}

func (a anthropic) messages(o object, q *asked) {
	list := o.list("messages")
	if len(list) == 0 {
		o.fail("messages: at least one message is required")
		return
	}
	var open []string // tool uses of the last message, to be answered now
	for i, raw := range list {
		path := fmt.Sprintf("messages.%d", i)
		m := o.open(path, raw, "role", "content")
		role := m.str("role")
		if role != "user" && role != "assistant" {
			o.fail("%s.role: Input should be 'user' or 'assistant'", path)
		}
		if i == 0 && role == "assistant" {
			o.fail("messages: first message must use the \"user\" role")
		}
		if role == "assistant" {
			q.turns++
			if i == len(list)-1 {
				o.fail("This model does not support assistant message prefill. The conversation must end with a user message.")
			}
		}
		open = a.content(o, m, path, role, open, q)
	}
	if len(open) > 0 {
		o.fail("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", len(list)-1, strings.Join(open, ", "))
	}
}

// content checks one message and returns its tool uses.
func (a anthropic) content(o, m object, path, role string, open []string, q *asked) []string {
	q.last = ""
	if !m.has("content") {
		o.fail("%s.content: Field required", path)
		return nil
	}
	if isString(m.fields["content"]) {
		q.last = m.str("content")
		if q.last == "" {
			o.fail("%s: user messages must have non-empty content", path)
		}
		if len(open) > 0 {
			o.fail("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", path, strings.Join(open, ", "))
		}
		return nil
	}
	var uses, texts []string
	blocks := m.list("content")
	if len(blocks) == 0 {
		o.fail("%s: all messages must have non-empty content", path)
	}
	sawText := false
	for i, raw := range blocks {
		bp := fmt.Sprintf("%s.content.%d", path, i)
		b := o.open(bp, raw, "type", "text", "id", "name", "input", "tool_use_id", "content", "is_error", "cache_control", "citations", "thinking", "signature", "data", "caller")
		switch typ := b.str("type"); {
		case typ == "text":
			sawText = true
			texts = append(texts, b.need("text"))
		case typ == "tool_use" && role == "assistant":
			uses = append(uses, b.need("id"))
			b.need("name")
			if !strings.HasPrefix(string(b.fields["input"]), "{") {
				o.fail("%s.tool_use.input: Input should be a valid dictionary", bp)
			}
		case typ == "tool_result" && role == "user":
			id := b.need("tool_use_id")
			at := slices.Index(open, id)
			if at < 0 {
				o.fail("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", bp, id)
				continue
			}
			if sawText {
				o.fail("%s: `tool_result` blocks must come before text", bp)
			}
			open = slices.Delete(slices.Clone(open), at, at+1)
			texts = append(texts, a.result(o, b, bp))
		case (typ == "thinking" || typ == "redacted_thinking") && role == "assistant":
		default:
			o.fail("%s.type: Input tag '%s' does not fit a message of the %s", bp, typ, role)
		}
	}
	if len(open) > 0 {
		o.fail("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", path, strings.Join(open, ", "))
	}
	q.last = strings.Join(texts, "\n")
	return uses
}

func (a anthropic) result(o, b object, path string) string {
	if !b.has("content") {
		return ""
	}
	if isString(b.fields["content"]) {
		return b.str("content")
	}
	var texts []string
	for i, raw := range b.list("content") {
		p := fmt.Sprintf("%s.content.%d", path, i)
		c := o.open(p, raw, "type", "text", "cache_control", "citations")
		if c.str("type") != "text" {
			o.fail("%s.type: the scripted model reads text only", p)
		}
		texts = append(texts, c.need("text"))
	}
	return strings.Join(texts, "\n")
}
