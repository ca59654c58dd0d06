package flows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State is a set of typed values by key; immutable. Reading a key that is not
// set gives the zero value, Has tells.
type State struct{ pairs []Pair }

// Pair is a key of a state and its value.
type Pair struct {
	Key   string
	Value json.RawMessage
}

// NewState wraps values, which must not be changed afterwards.
func NewState(values map[string]json.RawMessage) State {
	if len(values) == 0 {
		return State{}
	}
	pairs := make([]Pair, 0, len(values))
	for key, value := range values {
		pairs = append(pairs, Pair{key, value})
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
	return State{pairs}
}

// SortedState wraps pairs that are sorted by key, each key once, and must not
// be changed while the state is in use. A state is small and read more often
// than made, so that a list serves it better than a map.
func SortedState(pairs []Pair) State { return State{pairs} }

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
	return NewState(m), nil
}

// DecodeState reads a JSON object; empty input is the empty state.
func DecodeState(raw json.RawMessage) (State, error) {
	m := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			return State{}, fmt.Errorf("decoding state: %w", err)
		}
	}
	return NewState(m), nil
}

// MarshalJSON encodes the state as an object with sorted keys.
func (s State) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, s.size()+1), '{')
	for i, p := range s.pairs {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(p.Key)
		if err != nil {
			return nil, fmt.Errorf("encoding state key %s: %w", p.Key, err)
		}
		// As it was checked: to escape it anew would make it larger.
		value := bytes.NewBuffer(append(append(out, key...), ':'))
		if p.Value == nil {
			value.WriteString("null")
		} else if err := json.Compact(value, p.Value); err != nil {
			return nil, fmt.Errorf("encoding state key %s: %w", p.Key, err)
		}
		out = value.Bytes()
	}
	return append(out, '}'), nil
}

// Has reports that a key is set and not null.
func (s State) Has(key string) bool {
	v := s.Raw(key)
	return v != nil && string(v) != "null"
}

// Keys are the set keys, sorted.
func (s State) Keys() []string {
	keys := make([]string, 0, len(s.pairs))
	for i := range s.pairs {
		keys = append(keys, s.pairs[i].Key)
	}
	return keys
}

// Pairs are all keys and values, sorted by key, a copy.
func (s State) Pairs() []Pair { return slices.Clone(s.pairs) }

// Values are all values by key, a copy.
func (s State) Values() map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(s.pairs))
	for i := range s.pairs {
		values[s.pairs[i].Key] = s.pairs[i].Value
	}
	return values
}

// Raw is a value's JSON, nil when not set.
func (s State) Raw(key string) json.RawMessage {
	for i := range s.pairs {
		if s.pairs[i].Key == key {
			return s.pairs[i].Value
		}
	}
	return nil
}

// Decode reads a value into a Go value; a key that is not set leaves it
// untouched.
func (s State) Decode(key string, into any) error {
	if !s.Has(key) {
		return nil
	}
	if err := json.Unmarshal(s.Raw(key), into); err != nil {
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
	m := s.Values()
	maps.Copy(m, changed)
	return NewState(m)
}

// Only returns the state narrowed to keys.
func (s State) Only(keys []string) State {
	pairs := make([]Pair, 0, len(keys))
	for i := range s.pairs {
		if slices.Contains(keys, s.pairs[i].Key) {
			pairs = append(pairs, s.pairs[i])
		}
	}
	return State{pairs}
}

func get[T any](s State, key string) T {
	var v T
	if s.Has(key) {
		if json.Unmarshal(s.Raw(key), &v) != nil {
			var zero T
			return zero
		}
	}
	return v
}
