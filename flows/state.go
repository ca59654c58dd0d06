package flows

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// State is a set of typed values by key; immutable. Reading a key that is not
// set gives the zero value, Has tells.
type State struct{ values map[string]json.RawMessage }

// NewState wraps values, which must not be changed afterwards.
func NewState(values map[string]json.RawMessage) State { return State{values} }

// StateOf encodes Go values; for tests and callers that build inputs.
func StateOf(values map[string]any) (State, error) {
	m := make(map[string]json.RawMessage, len(values))
	for k, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return State{}, fmt.Errorf("encoding state key %s: %w", k, err)
		}
		m[k] = b
	}
	return State{m}, nil
}

// DecodeState reads a JSON object; empty input is the empty state.
func DecodeState(raw json.RawMessage) (State, error) {
	m := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			return State{}, fmt.Errorf("decoding state: %w", err)
		}
	}
	return State{m}, nil
}

// MarshalJSON encodes the state as an object with sorted keys.
func (s State) MarshalJSON() ([]byte, error) {
	if s.values == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(s.values)
}

// Has reports that a key is set and not null.
func (s State) Has(key string) bool {
	v, ok := s.values[key]
	return ok && string(v) != "null"
}

// Keys are the set keys, sorted.
func (s State) Keys() []string { return slices.Sorted(maps.Keys(s.values)) }

// Values are all values by key, a copy.
func (s State) Values() map[string]json.RawMessage { return maps.Clone(s.values) }

// Raw is a value's JSON, nil when not set.
func (s State) Raw(key string) json.RawMessage { return s.values[key] }

// Decode reads a value into a Go value; a key that is not set leaves it
// untouched.
func (s State) Decode(key string, into any) error {
	if !s.Has(key) {
		return nil
	}
	if err := json.Unmarshal(s.values[key], into); err != nil {
		return fmt.Errorf("reading state key %s: %w", key, err)
	}
	return nil
}

// Str is a string value, "" when not set or of another type; the loader
// checks types, so that these readers need no error.
func (s State) Str(key string) string { return get[string](s, key) }

// Int is a whole number.
func (s State) Int(key string) int { return get[int](s, key) }

// Bool is a truth value.
func (s State) Bool(key string) bool { return get[bool](s, key) }

// Artifact is a reference to content.
func (s State) Artifact(key string) Artifact { return get[Artifact](s, key) }

// Strings is a list of strings.
func (s State) Strings(key string) []string { return get[[]string](s, key) }

// With returns the state with the given keys replaced.
func (s State) With(changed map[string]json.RawMessage) State {
	m := maps.Clone(s.values)
	if m == nil {
		m = map[string]json.RawMessage{}
	}
	maps.Copy(m, changed)
	return State{m}
}

// Only returns the state narrowed to keys.
func (s State) Only(keys []string) State {
	m := make(map[string]json.RawMessage, len(keys))
	for _, k := range keys {
		if v, ok := s.values[k]; ok {
			m[k] = v
		}
	}
	return State{m}
}

func get[T any](s State, key string) T {
	var v T
	if s.Has(key) {
		if json.Unmarshal(s.values[key], &v) != nil {
			var zero T
			return zero
		}
	}
	return v
}
