package modelwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// object reads a JSON object key by key, notes keys that the vendor does not
// know, and keeps the first problem as the vendor words it.
type object struct {
	path    string
	fields  map[string]json.RawMessage
	unknown *[]string
	err     *error
}

func (o object) fail(format string, args ...any) {
	if *o.err == nil {
		*o.err = fmt.Errorf(format, args...)
	}
}

// open reads raw as an object that may have the given keys.
func (o object) open(path string, raw json.RawMessage, allowed ...string) object {
	sub := object{path: path, unknown: o.unknown, err: o.err}
	if err := json.Unmarshal(raw, &sub.fields); err != nil || sub.fields == nil {
		o.fail("%s: Input should be a valid dictionary", path)
		sub.fields = map[string]json.RawMessage{}
	}
	keys := make([]string, 0, len(sub.fields))
	for k := range sub.fields {
		if !slices.Contains(allowed, k) {
			keys = append(keys, sub.at(k))
		}
	}
	slices.Sort(keys)
	*o.unknown = append(*o.unknown, keys...)
	return sub
}

func (o object) at(key string) string {
	if o.path == "" {
		return key
	}
	return o.path + "." + key
}

func (o object) has(key string) bool {
	v, ok := o.fields[key]
	return ok && !bytes.Equal(v, []byte("null"))
}

// get decodes a field; absent leaves v untouched.
func (o object) get(key string, v any) {
	if o.has(key) {
		if err := json.Unmarshal(o.fields[key], v); err != nil {
			o.fail("%s: Input should be of another type: %s", o.at(key), clip(string(o.fields[key]), 40))
		}
	}
}

func (o object) str(key string) string {
	var s string
	o.get(key, &s)
	return s
}

// need is a string that must be there and not be empty.
func (o object) need(key string) string {
	if !o.has(key) {
		o.fail("%s: Field required", o.at(key))
		return ""
	}
	s := o.str(key)
	if s == "" {
		o.fail("%s: String should have at least 1 character", o.at(key))
	}
	return s
}

// list decodes an array of raw values.
func (o object) list(key string) []json.RawMessage {
	var l []json.RawMessage
	o.get(key, &l)
	return l
}

func isString(raw json.RawMessage) bool {
	t := bytes.TrimSpace(raw)
	return len(t) > 0 && t[0] == '"'
}
