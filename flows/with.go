package flows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// WithError is what is wrong with one key of a `with`.
type WithError struct {
	// Key is the key, at any depth.
	Key string
	// Msg reads on after the action's name, e.g. "takes no scop"; Hint says
	// what to do.
	Msg, Hint string
}

// Error implements error.
func (e *WithError) Error() string {
	if e.Hint == "" {
		return "`with` " + e.Msg
	}
	return fmt.Sprintf("`with` %s (%s)", e.Msg, e.Hint)
}

// With decodes a node's `with` strictly into T; use it in CheckWith (through
// CheckWith[T]) and in Run. Absent `with` gives the zero T. The error is a
// *WithError where a key is to blame.
func With[T any](raw json.RawMessage) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, inWords(err, reflect.TypeFor[T]())
	}
	if _, err := d.Token(); err != io.EOF {
		return v, errors.New("reading `with`: trailing content")
	}
	return v, nil
}

// CheckWith is an Action.CheckWith that decodes into T.
func CheckWith[T any](raw json.RawMessage) error {
	_, err := With[T](raw)
	return err
}

// inWords says what the JSON decoder means without speaking of Go.
func inWords(err error, t reflect.Type) error {
	var already *WithError
	if errors.As(err, &already) {
		return already
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		key := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		if key == "" {
			return fmt.Errorf("`with` must be %s", kindWord(wrong.Type))
		}
		return &WithError{Key: key, Msg: fmt.Sprintf("wants %s for %s, got %s", kindWord(wrong.Type), key, gotWord(wrong.Value))}
	}
	// The decoder has no type for this error.
	if _, name, ok := strings.Cut(err.Error(), `unknown field "`); ok {
		name, _, _ = strings.Cut(name, `"`)
		return &WithError{Key: name, Msg: "takes no " + name, Hint: didYouMean(name, keysOf(t))}
	}
	return fmt.Errorf("reading `with`: %w", err)
}

// keysOf are the JSON keys of a struct, those of embedded ones too.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			keys = append(keys, keysOf(f.Type)...)
		case name != "" && name != "-":
			keys = append(keys, name)
		}
	}
	return keys
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func kindWord(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the others are no types of a `with`
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	}
	return "another value"
}

func gotWord(value string) string {
	word, rest, _ := strings.Cut(value, " ")
	switch word {
	case "string":
		return "a text"
	case "bool":
		return "a truth value"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "number":
		return strings.TrimSpace("the number " + rest)
	}
	return value
}
