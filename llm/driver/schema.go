// Package driver is what the vendor drivers share: checking an answer against
// its schema, an HTTP client that gives up on silent connections, and the
// reading of statuses and headers.
//
// It must not know any vendor; it may import llm and a JSON Schema library.
package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Check validates raw, which must be exactly one JSON value, against a JSON
// Schema. The error says what does not fit.
func Check(schema, raw json.RawMessage) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the answer is more than one JSON value")
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("resolving the schema: %w", err)
	}
	if err := r.Validate(v); err != nil {
		return fmt.Errorf("the answer does not fit the schema: %w", err)
	}
	return nil
}

// Object is the JSON object in text: the text itself, or what a Markdown code
// fence around it holds, as models write it that have no structured output.
func Object(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		if body, ok := strings.CutSuffix(rest, "```"); ok {
			if _, after, ok := strings.Cut(body, "\n"); ok {
				text = strings.TrimSpace(after)
			}
		}
	}
	return json.RawMessage(text)
}

// Instruction asks for an answer of a schema in words, for models and servers
// that can't be held to one.
func Instruction(schema json.RawMessage) string {
	return "Answer with one JSON object and nothing else. It must fit this JSON Schema: " + string(schema)
}

// Closed reports that a grammar can be made of the schema: every object lists
// its properties and forbids others. With required, every property must be
// required as well.
func Closed(schema json.RawMessage, required bool) bool {
	var n node
	if json.Unmarshal(schema, &n) != nil {
		return false
	}
	return n.closed(required)
}

// node is the part of a JSON Schema that Closed looks at.
type node struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Additional json.RawMessage            `json:"additionalProperties"`
	Items      json.RawMessage            `json:"items"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	Defs       map[string]json.RawMessage `json:"$defs"`
}

func (n node) closed(required bool) bool {
	if bytes.Contains(n.Type, []byte(`"object"`)) || n.Properties != nil {
		if string(n.Additional) != "false" && !isNot(n.Additional) {
			return false
		}
		for name := range n.Properties {
			if required && !slices.Contains(n.Required, name) {
				return false
			}
		}
	}
	subs := slices.Clone(n.AnyOf)
	for _, m := range []map[string]json.RawMessage{n.Properties, n.Defs} {
		for _, s := range m {
			subs = append(subs, s)
		}
	}
	if n.Items != nil {
		subs = append(subs, n.Items)
	}
	for _, s := range subs {
		if !Closed(s, required) {
			return false
		}
	}
	return true
}

// isNot reports the other spelling of the schema that nothing fits.
func isNot(raw json.RawMessage) bool {
	return strings.Join(strings.Fields(string(raw)), "") == `{"not":{}}`
}

// Loosen returns the schema without the given keywords, at every level: some
// vendors refuse bounds. What they say is still checked by Check.
func Loosen(schema json.RawMessage, keywords ...string) (map[string]any, error) {
	var m map[string]any
	if err := json.Unmarshal(schema, &m); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	loosen(m, keywords)
	return m, nil
}

// loosen walks schemas only: a property may well be named "minimum".
func loosen(m map[string]any, keywords []string) {
	for _, k := range keywords {
		delete(m, k)
	}
	each := func(v any) {
		if s, ok := v.(map[string]any); ok {
			loosen(s, keywords)
		}
	}
	for _, k := range []string{"items", "additionalProperties", "not"} {
		each(m[k])
	}
	for _, k := range []string{"properties", "$defs"} {
		if s, ok := m[k].(map[string]any); ok {
			for _, v := range s {
				each(v)
			}
		}
	}
	for _, k := range []string{"anyOf", "allOf", "oneOf"} {
		if s, ok := m[k].([]any); ok {
			for _, v := range s {
				each(v)
			}
		}
	}
	if s, ok := m["additionalProperties"].(map[string]any); ok && len(s) == 1 {
		if not, ok := s["not"].(map[string]any); ok && len(not) == 0 {
			m["additionalProperties"] = false
		}
	}
}
