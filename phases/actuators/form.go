package actuators

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// FieldType is the type of a Form's field.
type FieldType string

// The types. A Texts field is a list of strings.
const (
	Text   FieldType = "string"
	Number FieldType = "int"
	Truth  FieldType = "bool"
	Texts  FieldType = "list"
)

// FieldTypes are all types.
func FieldTypes() []FieldType { return []FieldType{Text, Number, Truth, Texts} }

// Field is one field of a Form.
type Field struct {
	Type FieldType
	// About says what belongs there, for the model.
	About string
	// Max is the most bytes of a text, or items of a list; 0 is no bound.
	Max int
}

// Form is an answer's shape that is only known at run time: its fields by
// name, all of them required. Where the shape is known, use a struct (Ask,
// Work).
type Form map[string]Field

// maxFields bounds a form.
const maxFields = 32

var fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// Check tells what is wrong with a form.
func (f Form) Check() error {
	switch {
	case len(f) == 0:
		return errors.New("the form has no fields: name at least one")
	case len(f) > maxFields:
		return fmt.Errorf("the form has %d fields, more than %d", len(f), maxFields)
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		switch t := f[name].Type; {
		case !fieldName.MatchString(name):
			return fmt.Errorf("a field can't be called %q: use small letters, digits and _", name)
		case !slices.Contains(FieldTypes(), t):
			return fmt.Errorf("field %s: no type is called %q", name, t)
		}
	}
	return nil
}

// answer is the schema of the form.
func (f Form) answer() (answer[map[string]json.RawMessage], error) {
	var a answer[map[string]json.RawMessage]
	if err := f.Check(); err != nil {
		return a, err
	}
	s := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{}, Required: slices.Sorted(maps.Keys(f)),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for name, fd := range f {
		p := &jsonschema.Schema{Description: fd.About}
		switch fd.Type {
		case Text:
			p.Type = "string"
		case Number:
			p.Type = "integer"
		case Truth:
			p.Type = "boolean"
		case Texts:
			p.Type, p.Items = "array", &jsonschema.Schema{Type: "string"}
		}
		s.Properties[name] = p
	}
	var err error
	if a.schema, err = json.Marshal(s); err != nil {
		return a, fmt.Errorf("encoding the schema of a form: %w", err)
	}
	if a.resolved, err = s.Resolve(nil); err != nil {
		return a, fmt.Errorf("resolving the schema of a form: %w", err)
	}
	return a, nil
}

// values reads an answer that fits the schema, and holds it to the bounds.
func (f Form) values(raw map[string]json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		v, err := f[name].value(raw[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}

func (fd Field) value(raw json.RawMessage) (any, error) {
	switch fd.Type {
	case Text:
		var v string
		err := json.Unmarshal(raw, &v)
		if err == nil && fd.Max > 0 && len(v) > fd.Max {
			err = fmt.Errorf("has %d bytes; at most %d are kept, so say it shorter", len(v), fd.Max)
		}
		return v, err
	case Texts:
		v := []string{}
		err := json.Unmarshal(raw, &v)
		if err == nil && fd.Max > 0 && len(v) > fd.Max {
			err = fmt.Errorf("has %d items; at most %d are kept", len(v), fd.Max)
		}
		return v, err
	case Truth:
		var v bool
		return v, json.Unmarshal(raw, &v)
	default:
		var v int64
		return v, json.Unmarshal(raw, &v)
	}
}
