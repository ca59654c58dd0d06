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
			p, ok := nodeKey(Kind(word), key)
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
		"from": name(), "to": name(), "on": texts(), "when": kind("string"), "set": map[string]any{"type": "object"}, "priority": kind("integer"),
	})
	edge["required"] = []string{"from", "to"}
	top := object("", map[string]any{
		"apiVersion": map[string]any{"const": "flows/v1"}, "name": kind("string"), "version": count(), "phase": kind("string"),
		"entry": name(), "sink": name(), "finally": texts(),
		"state":       map[string]any{"type": "object", "additionalProperties": field},
		"stop":        object("to", map[string]any{"to": name()}),
		"limits":      object("", map[string]any{"max_steps": count(), "wall": durationText(), "tokens": count(), "tool_calls": count(), "cost_usd": kind("number"), "warn_at": kind("number")}),
		"nodes":       map[string]any{"type": "array", "items": map[string]any{"oneOf": nodes}},
		"edges":       map[string]any{"type": "array", "items": edge},
		"concurrency": object("key", map[string]any{"key": kind("string"), "on_conflict": enum([]string{"queue", "replace", "reject"})}),
		"flows":       map[string]any{"type": "object", "additionalProperties": map[string]any{"$ref": "#"}},
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
	case Approval:
		return []string{"message", "approvers", "expires"}
	case Command:
		return []string{"argv"}
	case Fanout:
		return []string{"branches", "join"}
	case Merge:
		return []string{"of"}
	case Subflow:
		return []string{"flow", "key"}
	case Sink:
	}
	return nil
}

func nodeKey(k Kind, key string) (any, bool) {
	switch key {
	case "uses", "match":
		return kind("string"), true
	case "with":
		return true, true
	case "in", "writes":
		return texts(), true
	case "budget":
		if k == Command {
			return object("", map[string]any{"wall": durationText()}), true
		}
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
	case "back_to", "event", "message", "join", "report", "flow", "key":
		return kind("string"), true
	case "max", "max_parallel":
		return count(), true
	case "approvers":
		return map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": approverForm.String()}, "minItems": 1, "uniqueItems": true}, true
	case "argv":
		return argvWords(), true
	case "accept":
		return map[string]any{"type": "array", "items": argvWords(), "maxItems": maxAccept}, true
	case "env":
		return map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": envForm.String()}, "additionalProperties": word()}, true
	case "branches", "of":
		return map[string]any{"type": "array", "items": name(), "minItems": 1, "maxItems": maxBranches, "uniqueItems": true}, true
	case "wait":
		return kind("boolean"), true
	case "close":
		return enum([]string{"cancel", "abandon"}), true
	case "cache":
		return enum([]string{"run"}), true
	case "take", "give":
		return map[string]any{"type": "object", "additionalProperties": kind("string")}, true
	case "on_expire":
		return enum([]string{"timeout", "denied", "exhausted"}), true
	}
	return nil, false
}

// word is a text, or a number that is taken as it is written.
func word() map[string]any { return map[string]any{"type": []string{"string", "integer"}} }

func argvWords() map[string]any {
	return map[string]any{"type": "array", "items": word(), "minItems": 1, "maxItems": maxArgs}
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
