package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pipelinebot/pipelinebot/internal/mockworld/modelwire"
)

// Schema is the JSON Schema of a scenario file, made from Scenario, for
// editors. Load says more, and with places.
func Schema() ([]byte, error) {
	duration := &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+(ns|us|ms|s|m|h)([0-9.]+(ns|us|ms|s|m|h))*$`}
	count := &jsonschema.Schema{Types: []string{"integer", "string"}, Minimum: jsonschema.Ptr(0.0), Pattern: countForm.String()}
	s, err := jsonschema.For[Scenario](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Duration]():      duration,
		reflect.TypeFor[modelwire.Duration](): duration,
		reflect.TypeFor[Count]():              count,
		// A tool's input and a structured answer are whatever their schema asks for.
		reflect.TypeFor[modelwire.Call](): {
			Type: "object", Required: []string{"name"}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}, "input": {Type: "object"}},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("making the schema: %w", err)
	}
	optional(s)
	s.Required = []string{"name", "covers", "world", "expect"}
	s.Properties["covers"].Items.Enum = anyOf(Kinds())
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "pipelinebot scenario"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// optional takes back that every field without omitempty is required, below s.
func optional(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.AdditionalProperties == nil || s.Properties["name"] == nil || s.Properties["input"] == nil {
		s.Required = nil // but of a call, which says so itself
	}
	for _, p := range s.Properties {
		optional(p)
	}
	for _, p := range s.AnyOf {
		optional(p)
	}
	optional(s.Items)
	optional(s.AdditionalProperties)
}

func anyOf(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}
