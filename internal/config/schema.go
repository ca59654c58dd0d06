package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of config.yaml, made from Raw.
func Schema() ([]byte, error) {
	s, err := jsonschema.For[Raw](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Duration](): {Type: "string", Pattern: `^[0-9.]+(ns|us|ms|s|m|h)([0-9.]+(ns|us|ms|s|m|h))*$`},
		reflect.TypeFor[Amount]():        {AnyOf: []*jsonschema.Schema{{Type: "number", Minimum: jsonschema.Ptr(0.0)}, {Enum: []any{Unlimited}}}},
	}})
	if err != nil {
		return nil, fmt.Errorf("making the schema: %w", err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "pipelinebot configuration"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the schema: %w", err)
	}
	return append(out, '\n'), nil
}
