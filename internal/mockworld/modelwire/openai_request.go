package modelwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// openai is the Chat Completions API. Source of the rules: the API reference
// (platform.openai.com/docs/api-reference/chat) and its error messages.
type openai struct{}

func (openai) name() string { return "openai" }

func (openai) authorise(r *http.Request, key string) string {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "You didn't provide an API key."
	}
	if got != key {
		return "Incorrect API key provided."
	}
	return ""
}

func (openai) headers(r *http.Request) string {
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		return "content-type: must be application/json"
	}
	return ""
}

func (v openai) parse(body []byte) (asked, error) {
	var err error
	q := asked{vendor: v.name(), bytes: len(body), all: string(body)}
	root := object{unknown: &q.unknown, err: &err}
	o := root.open("", body,
		"model", "messages", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls",
		"response_format", "stream", "stream_options", "temperature", "top_p", "n", "stop", "seed", "user", "metadata", "store",
		"reasoning_effort", "presence_penalty", "frequency_penalty", "logprobs", "service_tier", "verbosity", "prompt_cache_key", "safety_identifier")
	if err != nil {
		return q, errors.New("We could not parse the JSON body of your request.") //nolint:staticcheck // the vendor's words
	}
	q.model = o.need("model")
	if o.has("max_tokens") && o.has("max_completion_tokens") {
		o.fail("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	o.get("max_tokens", &q.maxTokens)
	o.get("max_completion_tokens", &q.maxTokens)
	if (o.has("max_tokens") || o.has("max_completion_tokens")) && q.maxTokens < 1 {
		o.fail("Invalid 'max_tokens': integer below minimum value. Expected a value >= 1.")
	}
	o.get("stream", &q.stream)
	if o.has("stream_options") {
		if !q.stream {
			o.fail("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
		}
		so := o.open("stream_options", o.fields["stream_options"], "include_usage", "include_obfuscation")
		so.get("include_usage", &q.streamUsage)
	}
	v.tools(o, &q)
	v.choice(o, &q)
	v.format(o, &q)
	system := v.messages(o, &q)
	q.prompt = promptOf(system)
	q.hash = hashOf(string(o.fields["messages"]))
	return q, err
}

func (v openai) tools(o object, q *asked) {
	q.tools = map[string]json.RawMessage{}
	for i, raw := range o.list("tools") {
		path := fmt.Sprintf("tools[%d]", i)
		t := o.open(path, raw, "type", "function")
		if t.str("type") != "function" {
			o.fail("Invalid value: '%s'. Supported values are: 'function'. (%s.type)", t.str("type"), path)
			continue
		}
		f := o.open(path+".function", t.fields["function"], "name", "description", "parameters", "strict")
		name := f.need("name")
		if !toolName.MatchString(name) {
			o.fail("Invalid '%s.function.name': string does not match pattern.", path)
		}
		if _, dup := q.tools[name]; dup {
			o.fail("Invalid 'tools': function names must be unique.")
		}
		var strict bool
		if f.get("strict", &strict); strict {
			if err := checkStrict(path+".function.parameters", f.fields["parameters"], "openai"); err != nil {
				o.fail("Invalid schema for function '%s': %v", name, err)
			}
		}
		q.tools[name] = f.fields["parameters"]
	}
}

func (v openai) choice(o object, q *asked) {
	if !o.has("tool_choice") {
		return
	}
	if len(q.tools) == 0 {
		o.fail("'tool_choice' is only allowed when 'tools' are specified.")
	}
	if isString(o.fields["tool_choice"]) {
		word := o.str("tool_choice")
		if !slices.Contains([]string{"none", "auto", "required"}, word) {
			o.fail("Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required'.", word)
		}
		if word == "required" && len(q.tools) == 1 {
			for name := range q.tools {
				q.force = name
			}
		}
		return
	}
	c := o.open("tool_choice", o.fields["tool_choice"], "type", "function")
	f := o.open("tool_choice.function", c.fields["function"], "name")
	q.force = f.need("name")
	if _, ok := q.tools[q.force]; !ok {
		o.fail("Tool choice '%s' not found in 'tools' parameter.", q.force)
	}
}

func (v openai) format(o object, q *asked) {
	if !o.has("response_format") {
		return
	}
	f := o.open("response_format", o.fields["response_format"], "type", "json_schema")
	switch typ := f.str("type"); typ {
	case "text":
	case "json_object":
		q.schema = json.RawMessage(`{"type":"object"}`)
	case "json_schema":
		s := o.open("response_format.json_schema", f.fields["json_schema"], "name", "description", "schema", "strict")
		if !toolName.MatchString(s.need("name")) {
			o.fail("Invalid 'response_format.json_schema.name': string does not match pattern.")
		}
		if !s.has("schema") {
			o.fail("Missing required parameter: 'response_format.json_schema.schema'.")
			return
		}
		q.schema = s.fields["schema"]
		var strict bool
		if s.get("strict", &strict); strict {
			if err := checkStrict("schema", q.schema, "openai"); err != nil {
				o.fail("Invalid schema for response_format '%s': %v", s.str("name"), err)
			}
		}
	default:
		o.fail("Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", typ)
	}
}

// messages checks the conversation and returns the system text.
func (v openai) messages(o object, q *asked) string {
	list := o.list("messages")
	if len(list) == 0 {
		o.fail("Invalid 'messages': empty array. Expected an array with minimum length 1.")
	}
	var system string
	var open, tail []string
	for i, raw := range list {
		path := fmt.Sprintf("messages.[%d]", i)
		m := o.open(path, raw, "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content")
		role := m.str("role")
		if role != "tool" && len(open) > 0 {
			o.fail("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
			open = nil
		}
		text := v.content(o, m, path)
		if role != "tool" {
			tail = nil
		}
		switch role {
		case "system", "developer":
			if system == "" {
				system = text
			}
		case "user":
			tail = append(tail, text)
			if !m.has("content") {
				o.fail("Invalid value for 'content': expected a string, got null. (%s)", path)
			}
		case "assistant":
			q.turns++
			open = v.calls(o, m, path)
			if len(open) == 0 && !m.has("content") {
				o.fail("Invalid value for 'content': expected a string, got null. (%s)", path)
			}
		case "tool":
			id := m.need("tool_call_id")
			at := slices.Index(open, id)
			if at < 0 {
				o.fail("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. (%s)", path) //nolint:misspell // the vendor's own spelling
				continue
			}
			open = slices.Delete(slices.Clone(open), at, at+1)
			tail = append(tail, text)
		default:
			o.fail("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'. (%s.role)", role, path)
		}
	}
	if len(open) > 0 {
		o.fail("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
	}
	q.last = strings.Join(tail, "\n")
	return system
}

func (v openai) content(o, m object, path string) string {
	if !m.has("content") {
		return ""
	}
	if isString(m.fields["content"]) {
		return m.str("content")
	}
	var texts []string
	for i, raw := range m.list("content") {
		p := o.open(fmt.Sprintf("%s.content[%d]", path, i), raw, "type", "text")
		if p.str("type") != "text" {
			o.fail("%s.content[%d].type: the scripted model reads text only", path, i)
		}
		texts = append(texts, p.str("text"))
	}
	return strings.Join(texts, "\n")
}

func (v openai) calls(o, m object, path string) []string {
	var ids []string
	for i, raw := range m.list("tool_calls") {
		p := fmt.Sprintf("%s.tool_calls[%d]", path, i)
		c := o.open(p, raw, "id", "type", "function", "index")
		if c.str("type") != "function" {
			o.fail("Missing required parameter: '%s.type'.", p)
		}
		f := o.open(p+".function", c.fields["function"], "name", "arguments")
		f.need("name")
		if !f.has("arguments") || !isString(f.fields["arguments"]) {
			o.fail("Missing required parameter: '%s.function.arguments'.", p)
		}
		ids = append(ids, c.need("id"))
	}
	return ids
}
