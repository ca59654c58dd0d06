package actuators

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// checker is an optional method of an answer type: rules that a schema can't
// say. The error is shown to the model, so it should teach.
type checker interface{ Check() error }

// answer is the schema of T and what decodes it.
type answer[T any] struct {
	schema   json.RawMessage
	resolved *jsonschema.Resolved
}

// newAnswer infers the schema of T, which must be a struct. Field docs come
// from `jsonschema:"…"` tags, allowed words from `enum:"a,b,c"` tags; fields
// with omitempty are optional.
func newAnswer[T any]() (answer[T], error) {
	var a answer[T]
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return a, fmt.Errorf("inferring the schema of %s: an answer must be a struct", t)
	}
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return a, fmt.Errorf("inferring the schema of %s: %w", t, err)
	}
	if err := refine(s, t); err != nil {
		return a, fmt.Errorf("inferring the schema of %s: %w", t, err)
	}
	if a.schema, err = json.Marshal(s); err != nil {
		return a, fmt.Errorf("encoding the schema of %s: %w", t, err)
	}
	if a.resolved, err = s.Resolve(nil); err != nil {
		return a, fmt.Errorf("resolving the schema of %s: %w", t, err)
	}
	return a, nil
}

// decode validates raw and reads it into a T.
func (a answer[T]) decode(raw json.RawMessage) (T, error) {
	var zero, v T
	var any any
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&any); err != nil {
		return zero, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return zero, fmt.Errorf("not one JSON value: there is text after it")
	}
	if err := a.resolved.Validate(any); err != nil {
		return zero, fmt.Errorf("does not fit the schema: %w", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return zero, fmt.Errorf("does not fit: %w", err)
	}
	if c, ok := anyOf(&v).(checker); ok {
		if err := c.Check(); err != nil {
			return zero, fmt.Errorf("not acceptable: %w", err)
		}
	}
	return v, nil
}

func anyOf(v any) any { return v }

// refine makes lists never null and puts the enum tags into the schema.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items == nil {
			return nil
		}
		s.Type, s.Types = "array", nil
		return refine(s.Items, t.Elem())
	case reflect.Map:
		if s.AdditionalProperties != nil {
			return refine(s.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			p := s.Properties[name]
			if p == nil || f.Anonymous || !f.IsExported() {
				continue
			}
			if err := refine(p, f.Type); err != nil {
				return err
			}
			if err := setEnum(p, f); err != nil {
				return err
			}
		}
	default: // holds no other type
	}
	return nil
}

func setEnum(p *jsonschema.Schema, f reflect.StructField) error {
	words, ok := f.Tag.Lookup("enum")
	if !ok {
		return nil
	}
	if p.Type == "array" && p.Items != nil {
		p = p.Items
	}
	if p.Type != "string" {
		return fmt.Errorf("field %s: an enum tag needs a string or a list of strings", f.Name)
	}
	for w := range strings.SplitSeq(words, ",") {
		p.Enum = append(p.Enum, w)
	}
	return nil
}
