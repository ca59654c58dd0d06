package cassette

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/llm"
)

// brokenKey marks text that was meant to be JSON and is none.
const brokenKey = "$broken"

// value is a JSON value. In the file it is YAML; JSON that is broken is kept
// as text under brokenKey.
type value struct{ v any }

// newValue reads raw, with every text in it scrubbed; nil for none.
func newValue(raw json.RawMessage, scrub func(string) string) *value {
	if len(raw) == 0 {
		return nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if !json.Valid(raw) || d.Decode(&v) != nil {
		return &value{map[string]any{brokenKey: scrub(strings.ToValidUTF8(string(raw), "\uFFFD"))}}
	}
	return &value{plain(v, scrub)}
}

// plain turns numbers into Go's own, as far as they stay the same, and scrubs
// texts.
func plain(v any, scrub func(string) string) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return whole(f)
	case string:
		return scrub(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i], scrub)
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k], scrub)
		}
		return v
	}
	return v
}

// whole makes 1e3 and 1000 the same.
func whole(f float64) any {
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return int64(f)
	}
	return f
}

// raw is the value as JSON, or the broken text it was.
func (v *value) raw() json.RawMessage {
	if v == nil {
		return nil
	}
	if m, ok := v.v.(map[string]any); ok && len(m) == 1 {
		if s, ok := m[brokenKey].(string); ok {
			return json.RawMessage(s)
		}
	}
	b, err := json.Marshal(v.v)
	if err != nil {
		return nil // not reached: only JSON's types get in
	}
	return b
}

// MarshalJSON implements json.Marshaler, for the hash.
func (v *value) MarshalJSON() ([]byte, error) { return json.Marshal(v.v) }

// MarshalYAML implements yaml.Marshaler.
func (v *value) MarshalYAML() (any, error) { return v.v, nil }

// UnmarshalYAML implements yaml.Unmarshaler. It takes what JSON has and
// nothing else: no dates, no infinities, no keys that are no text.
func (v *value) UnmarshalYAML(n *yaml.Node) error {
	got, err := jsonOf(n, 0)
	if err != nil {
		return err
	}
	v.v = got
	return nil
}

// maxDepth bounds nesting.
const maxDepth = 100

func jsonOf(n *yaml.Node, depth int) (any, error) {
	bad := func(what string) (any, error) { return nil, fmt.Errorf("line %d: %s", n.Line, what) }
	if depth > maxDepth {
		return bad("nested too deeply")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := []any{}
		for _, e := range n.Content {
			v, err := jsonOf(e, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
				return bad("a key must be text; put it in quotes")
			}
			if _, dup := m[k.Value]; dup {
				return bad(fmt.Sprintf("key %q is there twice", k.Value))
			}
			v, err := jsonOf(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			m[k.Value] = v
		}
		return m, nil
	case yaml.ScalarNode:
		return scalar(n)
	default:
		return bad("anchors and aliases are not allowed")
	}
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!str":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return nil, err
		}
		return b, nil
	case "!!int":
		var i int64
		if err := n.Decode(&i); err != nil {
			return nil, err
		}
		return i, nil
	case "!!float":
		var f float64
		if err := n.Decode(&f); err != nil {
			return nil, err
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("line %d: %s is no number in JSON", n.Line, n.Value)
		}
		return whole(f), nil
	default:
		return nil, fmt.Errorf("line %d: a value of type %s; put it in quotes", n.Line, n.ShortTag())
	}
}

// empty is the request without anything, to tell a missing one.
func (q request) empty() bool {
	return q.Model == "" && q.Prompt == "" && len(q.Messages) == 0
}

func kinds() []llm.Kind {
	return []llm.Kind{
		llm.KindRateLimited, llm.KindOverloaded, llm.KindTransient, llm.KindTooLong, llm.KindRefused, llm.KindInvalidOutput, llm.KindAuth, llm.KindInvalid,
	}
}
