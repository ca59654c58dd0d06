package flows

import (
	"encoding/json"
	"fmt"
)

// JSONSchema is the JSON Schema of the file format, for editors. It knows the
// keys and their types; what only the whole flow shows is left to Load.
func JSONSchema() ([]byte, error) {
	field := object("type", map[string]any{
		"type": enum([]string{"int", "string", "bool", "enum", "artifact", "list", "object"}), "values": texts(), "default": true,
		"required": kind("boolean"), "input": kind("boolean"), "max_len": count(), "max_items": count(), "max_bytes": count(), "of": enum([]string{"string", "int"}),
	})
	var nodes []any
	for _, word := range kindWords() {
		spec, ok := kindOf(Kind(word))
		if !ok {
			continue
		}
		props := map[string]any{"id": name(), "kind": map[string]any{"const": word}}
		for _, key := range spec.keys {
			p, ok := nodeKey(key)
			if !ok {
				return nil, fmt.Errorf("writing the JSON Schema: key %s of kind %s has none", key, word)
			}
			props[key] = p
		}
		node := object("", props)
		node["required"] = append([]string{"id", "kind"}, neededKeys(Kind(word))...)
		nodes = append(nodes, node)
	}
	edge := object("", map[string]any{
		"from": name(), "to": name(), "on": texts(), "when": kind("string"), "set": map[string]any{"type": "object"},
	})
	edge["required"] = []string{"from", "to"}
	top := object("", map[string]any{
		"apiVersion": map[string]any{"const": "flows/v1"}, "name": kind("string"), "version": count(), "phase": kind("string"),
		"entry": name(), "sink": name(), "finally": texts(),
		"state":  map[string]any{"type": "object", "additionalProperties": field},
		"stop":   object("to", map[string]any{"to": name()}),
		"limits": object("", map[string]any{"max_steps": count(), "wall": durationText(), "tokens": count(), "tool_calls": count(), "cost_usd": kind("number"), "warn_at": kind("number")}),
		"nodes":  map[string]any{"type": "array", "items": map[string]any{"oneOf": nodes}},
		"edges":  map[string]any{"type": "array", "items": edge},
	})
	top["required"] = []string{"apiVersion", "name", "phase", "entry", "sink", "state", "nodes"}
	top["$schema"], top["title"] = "https://json-schema.org/draft/2020-12/schema", "pipelinebot flow, flows/v1"
	out, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the JSON Schema: %w", err)
	}
	return append(out, '\n'), nil
}

// neededKeys are those without which Load refuses a node of the kind.
func neededKeys(k Kind) []string {
	switch k {
	case Step, Gate:
		return []string{"uses"}
	case Loop:
		return []string{"back_to", "max"}
	case Wait:
		return []string{"event", "expires"}
	case Sink, Approval, Command, Merge, Subflow, Fanout:
	}
	return nil
}

func nodeKey(key string) (any, bool) {
	switch key {
	case "uses", "match":
		return kind("string"), true
	case "with":
		return true, true
	case "in", "writes":
		return texts(), true
	case "budget":
		return object("", map[string]any{"tokens": count(), "cost_usd": kind("number"), "tool_calls": count(), "wall": durationText()}), true
	case "timeout", "idle", "expires":
		return durationText(), true
	case "retry":
		return object("max", map[string]any{
			"max": count(), "on": map[string]any{"type": "array", "items": enum(retryCauses())}, "backoff": durationText(), "factor": kind("number"),
			"max_backoff": durationText(), "jitter": enum([]string{"full", "none"}),
		}), true
	case "required":
		return kind("boolean"), true
	case "back_to", "event":
		return kind("string"), true
	case "max":
		return count(), true
	case "take":
		return map[string]any{"type": "object", "additionalProperties": kind("string")}, true
	case "on_expire":
		return enum([]string{"timeout", "denied", "exhausted"}), true
	}
	return nil, false
}

func object(required string, props map[string]any) map[string]any {
	o := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if required != "" {
		o["required"] = []string{required}
	}
	return o
}

func kind(name string) map[string]any { return map[string]any{"type": name} }

func count() map[string]any { return map[string]any{"type": "integer", "minimum": 1} }

func texts() map[string]any {
	return map[string]any{"type": "array", "items": kind("string"), "uniqueItems": true}
}

func enum(words []string) map[string]any { return map[string]any{"enum": words} }

func name() map[string]any { return map[string]any{"type": "string", "pattern": idForm.String()} }

func durationText() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
}
