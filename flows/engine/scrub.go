package engine

import (
	"bytes"
	"encoding/json"

	"github.com/pipelinebot/pipelinebot/flows"
)

// scrubber takes secrets out of the texts of a delta, never out of values
// that must stay what they are; nil when there is nothing to take out.
func (w *walk) scrubber() func(*flows.Field, any) any {
	if !w.e.scrubs {
		return nil
	}
	return w.scrubField
}

func (w *walk) scrubField(f *flows.Field, value any) any {
	if f.Type != flows.StringField && f.Type != flows.ListField && f.Type != flows.ObjectField {
		return value
	}
	if s, ok := value.(string); ok {
		return w.e.Scrub(s)
	}
	raw, err := encodeSlowly(f.Key, value)
	if err != nil {
		return value // refused when it is encoded
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return value // refused by the type check
	}
	return w.scrubbed(v)
}

func (w *walk) scrubbed(v any) any {
	switch v := v.(type) {
	case string:
		return w.e.Scrub(v)
	case []any:
		for i := range v {
			v[i] = w.scrubbed(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = w.scrubbed(v[key])
		}
	}
	return v
}
