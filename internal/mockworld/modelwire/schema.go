package modelwire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// conforms checks a scripted value against the schema that a request sent.
func conforms(schema, value json.RawMessage) error {
	if len(schema) == 0 {
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("resolving the schema: %w", err)
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}

// anthropicLimits are keywords that Anthropic's structured outputs refuse.
func anthropicLimits() []string {
	return []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems"}
}

// checkStrict walks a schema that the vendor compiles to a grammar. Every
// object must close itself (additionalProperties: false); OpenAI also wants
// every property required, Anthropic refuses numeric and length bounds.
func checkStrict(path string, raw json.RawMessage, vendor string) error {
	var n map[string]json.RawMessage
	if json.Unmarshal(raw, &n) != nil {
		return nil //nolint:nilerr // a schema may be true or false, which holds nothing to walk
	}
	if vendor == "anthropic" {
		for _, k := range anthropicLimits() {
			if _, ok := n[k]; ok {
				return fmt.Errorf("%s: For this type, property '%s' is not supported", path, k)
			}
		}
	}
	var props map[string]json.RawMessage
	_ = json.Unmarshal(n["properties"], &props)
	if isObject(n["type"]) || props != nil {
		if string(n["additionalProperties"]) != "false" {
			return fmt.Errorf("%s: For 'object' type, 'additionalProperties' must be explicitly set to false", path)
		}
		if vendor == "openai" {
			var required []string
			_ = json.Unmarshal(n["required"], &required)
			for _, p := range slices.Sorted(maps.Keys(props)) {
				if !slices.Contains(required, p) {
					return fmt.Errorf("%s: 'required' is required to be supplied and to be an array including every key in properties. Missing '%s'", path, p)
				}
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(props)) {
		if err := checkStrict(path+".properties."+p, props[p], vendor); err != nil {
			return err
		}
	}
	if items, ok := n["items"]; ok {
		if err := checkStrict(path+".items", items, vendor); err != nil {
			return err
		}
	}
	for _, key := range []string{"$defs", "definitions"} {
		var defs map[string]json.RawMessage
		_ = json.Unmarshal(n[key], &defs)
		for _, d := range slices.Sorted(maps.Keys(defs)) {
			if err := checkStrict(path+"."+key+"."+d, defs[d], vendor); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"anyOf", "allOf"} {
		var list []json.RawMessage
		_ = json.Unmarshal(n[key], &list)
		for i, sub := range list {
			if err := checkStrict(fmt.Sprintf("%s.%s.%d", path, key, i), sub, vendor); err != nil {
				return err
			}
		}
	}
	return nil
}

func isObject(typ json.RawMessage) bool {
	var one string
	if json.Unmarshal(typ, &one) == nil {
		return one == "object"
	}
	var many []string
	return json.Unmarshal(typ, &many) == nil && slices.Contains(many, "object")
}
