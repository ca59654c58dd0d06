package flows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// FieldType is the type of a state field.
type FieldType string

// The types of state fields.
const (
	IntField      FieldType = "int"
	StringField   FieldType = "string"
	BoolField     FieldType = "bool"
	EnumField     FieldType = "enum"
	ArtifactField FieldType = "artifact"
	ListField     FieldType = "list"
	ObjectField   FieldType = "object"
)

// Sizes of the state. Content belongs into artifacts.
const (
	// MaxState is the most bytes of a whole state as JSON.
	MaxState = 64 << 10
	// DefaultMaxLen bounds a text, DefaultMaxItems a list, DefaultMaxBytes
	// an object, where the flow says nothing.
	DefaultMaxLen   = 4 << 10
	DefaultMaxItems = 100
	DefaultMaxBytes = 8 << 10
)

// resultKey is the field that every flow ends with; noResult its default.
const (
	resultKey = "result"
	noResult  = "none"
)

// StopKey holds a Stop in a stored state until the sink is reached; StopGuard
// is how the shared stop edge, which asks for it, reads in a run's record.
const (
	StopKey   = "_stop"
	StopGuard = "has(state." + StopKey + ")"
)

// Field is one field of the closed state schema.
type Field struct {
	Key  string
	Type FieldType
	// Values are an enum's.
	Values []string
	// Default is JSON; nil for none.
	Default json.RawMessage
	// Required must be given at the start, Input may be.
	Required, Input bool
	// MaxLen bounds texts in bytes, MaxItems lists, MaxBytes objects.
	MaxLen, MaxItems, MaxBytes int
	// Of is the type of a list's items: string or int.
	Of FieldType
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check tells what is wrong with a value; null is not a value.
func (f *Field) Check(raw json.RawMessage) error {
	if f.quick(raw) {
		return nil
	}
	return f.check(raw)
}

func (f *Field) check(raw json.RawMessage) error {
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return fmt.Errorf("is no JSON")
	}
	switch f.Type {
	case IntField:
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return fmt.Errorf("must be a whole number, got %s", short(raw))
		}
	case BoolField:
		if s := string(raw); s != "true" && s != "false" {
			return fmt.Errorf("must be true or false, got %s", short(raw))
		}
	case StringField:
		return f.checkText(raw)
	case EnumField:
		s, ok := text(raw)
		if !ok || !slices.Contains(f.Values, s) {
			return fmt.Errorf("must be one of %v, got %s", f.Values, short(raw))
		}
	case ArtifactField:
		return checkArtifact(raw)
	case ListField:
		return f.checkList(raw)
	case ObjectField:
		if raw[0] != '{' {
			return fmt.Errorf("must be an object, got %s", short(raw))
		}
		if len(raw) > f.MaxBytes {
			return fmt.Errorf("has %d bytes, the limit is %d: content belongs into an artifact", len(raw), f.MaxBytes)
		}
	}
	return nil
}

func (f *Field) checkText(raw json.RawMessage) error {
	s, ok := text(raw)
	if !ok {
		return fmt.Errorf("must be a text, got %s", short(raw))
	}
	if len(s) > f.MaxLen {
		return fmt.Errorf("has %d bytes, the limit is %d: content belongs into an artifact", len(s), f.MaxLen)
	}
	return nil
}

func (f *Field) checkList(raw json.RawMessage) error {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return fmt.Errorf("must be a list, got %s", short(raw))
	}
	if len(items) > f.MaxItems {
		return fmt.Errorf("has %d items, the limit is %d", len(items), f.MaxItems)
	}
	item := Field{Type: f.Of, MaxLen: f.MaxLen}
	for i, raw := range items {
		if err := item.Check(raw); err != nil {
			return fmt.Errorf("item %d %w", i, err)
		}
	}
	return nil
}

func checkArtifact(raw json.RawMessage) error {
	var a Artifact
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil || raw[0] != '{' {
		return fmt.Errorf("must be an artifact (path, sha256, bytes), got %s", short(raw))
	}
	if a.Path == "" || !sha256Form.MatchString(a.SHA256) || a.Bytes < 0 {
		return fmt.Errorf("is no artifact that was stored: %s", short(raw))
	}
	return nil
}

func text(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// short is the beginning of a value, for messages.
func short(raw []byte) string {
	if len(raw) > 60 {
		return string(bytes.ToValidUTF8(raw[:60], nil)) + "…"
	}
	return string(raw)
}

func invalid(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s %w", ErrInvalidState, key, fmt.Errorf(format, args...))
}

// Initial is the state at the start: the defaults and the input, whose keys
// must be declared as input, with everything that is required.
func (f *Flow) Initial(input State) (State, error) {
	m := map[string]json.RawMessage{}
	for _, fd := range f.fields {
		if fd.Default != nil {
			m[fd.Key] = fd.Default
		}
	}
	for _, e := range input.pairs {
		key, raw := e.Key, e.Value
		fd, ok := f.byKey[key]
		switch {
		case !ok:
			return State{}, invalid(key, "is no field of flow %s", f.name)
		case !fd.Input && !fd.Required:
			return State{}, invalid(key, "is not an input of flow %s", f.name)
		case string(raw) == "null":
			continue
		}
		m[key] = raw
	}
	s := NewState(m)
	return s, f.Check(s)
}

// InputOf narrows a state to what the flow takes as input and what fits it;
// for the hand-off between phases.
func (f *Flow) InputOf(s State) State {
	var pairs []Pair
	for _, e := range s.pairs {
		fd, ok := f.byKey[e.Key]
		if ok && (fd.Input || fd.Required) && fd.Check(e.Value) == nil {
			pairs = append(pairs, e)
		}
	}
	return State{pairs}
}

// Check tells whether a whole state fits the schema.
func (f *Flow) Check(s State) error {
	for _, e := range s.pairs {
		fd, ok := f.byKey[e.Key]
		switch {
		case e.Key == StopKey:
		case !ok:
			return invalid(e.Key, "is no field of flow %s", f.name)
		default:
			if err := fd.Check(e.Value); err != nil {
				return invalid(e.Key, "%w", err)
			}
		}
	}
	for _, fd := range f.fields {
		if fd.Required && !s.Has(fd.Key) {
			return invalid(fd.Key, "is required and not set")
		}
	}
	if n := s.size(); n > MaxState {
		return tooLarge(n)
	}
	return nil
}

// Apply returns the state after a node that may write the given keys has
// changed delta. A null takes a value away where the field has no default. s
// must fit the schema: what is not changed is not looked at again.
func (f *Flow) Apply(s State, writes []string, delta map[string]json.RawMessage) (State, error) {
	if len(delta) == 0 {
		return s, nil
	}
	keys := make([]string, 0, len(delta))
	for key := range delta {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fd, ok := f.byKey[key]
		switch {
		case !ok:
			return s, invalid(key, "is no field of flow %s", f.name)
		case !slices.Contains(writes, key):
			return s, invalid(key, "is not among the keys that the node writes")
		}
		raw := delta[key]
		if string(raw) == "null" {
			if fd.Default != nil || fd.Required {
				return s, invalid(key, "can't be taken away")
			}
			continue
		}
		if err := fd.Check(raw); err != nil {
			return s, invalid(key, "%w", err)
		}
	}
	next := s.Values()
	for key, raw := range delta {
		if string(raw) == "null" {
			delete(next, key)
		} else {
			next[key] = raw
		}
	}
	after := NewState(next)
	if n := after.size(); n > MaxState {
		return s, tooLarge(n)
	}
	return after, nil
}

func tooLarge(n int) error {
	return fmt.Errorf("%w: the state has %d bytes, the limit is %d: content belongs into artifacts", ErrInvalidState, n, MaxState)
}

// size is the bytes of the state as a JSON object, as its values stand. A
// planned end is the engine's and does not count: it must always fit.
func (s State) size() int {
	n := 2
	for _, e := range s.pairs {
		if e.Key == StopKey {
			continue
		}
		n += len(e.Key) + len(e.Value) + len(`"":,`)
	}
	return max(n-1, 2)
}

// Encode turns a delta into JSON; a value that would not survive the trip is
// an error.
func (d Delta) Encode() (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(d))
	for key, v := range d {
		if bad := invalidText(v); bad {
			return nil, invalid(key, "is no valid UTF-8")
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, invalid(key, "can't be kept as JSON: %w", err)
		}
		out[key] = raw
	}
	return out, nil
}

// invalidText finds texts that JSON would silently change.
func invalidText(v any) bool {
	switch v := v.(type) {
	case string:
		return !utf8.ValidString(v)
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return !utf8.ValidString(s) })
	case json.RawMessage:
		return !utf8.Valid(v)
	}
	return false
}

// Stop returns the planned early end that a stored state holds, if any.
func (s State) Stop() (Stop, bool) {
	var st Stop
	if !s.Has(StopKey) || json.Unmarshal(s.Raw(StopKey), &st) != nil {
		return Stop{}, false
	}
	return st, true
}

// WithStop returns the state with a planned early end, which is set once.
func (s State) WithStop(st Stop) (State, error) {
	if s.Has(StopKey) {
		return s, nil
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return s, fmt.Errorf("keeping stop %s: %w", st.Code, err)
	}
	return s.With(map[string]json.RawMessage{StopKey: raw}), nil
}

// Public returns the state without what the engine keeps in it.
func (s State) Public() State {
	is := func(e Pair) bool { return e.Key == StopKey }
	if !slices.ContainsFunc(s.pairs, is) {
		return s
	}
	return State{slices.DeleteFunc(slices.Clone(s.pairs), is)}
}
