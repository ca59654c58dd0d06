package flows

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reserved names can't be state keys or node ids: guards and the engine use
// them.
func reserved(name string) bool {
	return strings.HasPrefix(name, "_") || slices.Contains([]string{
		"run", "state", "outcome", "visits", "has", "len", "event", "true", "false", "nil", "null", "in", "not", "and", "or", "let", "if", "else",
	}, name)
}

func (l *loader) readState() {
	n := l.top.value("state")
	if n == nil {
		return
	}
	m, ok := l.mapping(n, "", "state", nil)
	if !ok {
		return
	}
	if len(m.order) > maxKeys {
		l.add(at(n, ""), "too-large", "", "the state has %d fields, the limit is %d", len(m.order), maxKeys)
		return
	}
	for _, key := range m.order {
		switch {
		case reserved(key):
			l.add(at(m.key(key), ""), "reserved-name", "choose another name", "the name %s is reserved", key)
			continue
		case !idForm.MatchString(key):
			l.add(at(m.key(key), ""), "bad-name", idLetters, "the state key %q is no name", key)
			continue
		}
		// A field that is refused stays known, so that what reads it is not
		// refused as well.
		l.flow.fields = append(l.flow.fields, l.readField(key, m.value(key)))
	}
	for i := range l.flow.fields {
		l.flow.byKey[l.flow.fields[i].Key] = &l.flow.fields[i]
	}
	l.checkResult(m)
}

// checkResult wants the field with which every run ends.
func (l *loader) checkResult(m mapping) {
	f, hint := l.flow.byKey[resultKey], "result: {type: enum, values: [none, …], default: none}"
	switch {
	case f == nil:
		l.add(l.top.where("state"), "no-result", hint, "the state has no field result")
	case f.Type != EnumField || string(f.Default) != `"`+noResult+`"`:
		l.add(m.where(resultKey), "no-result", hint, "result must be an enum with the default none")
	}
}

func (l *loader) readField(key string, n *yaml.Node) Field {
	before := len(l.problems)
	m, ok := l.mapping(n, "", "state field "+key, []string{"type", "values", "default", "required", "input", "max_len", "max_items", "max_bytes", "of"})
	if !ok {
		return Field{Key: key}
	}
	m.need("type")
	f := Field{Key: key, Type: FieldType(m.str("type")), Required: m.boolean("required"), Input: m.boolean("input")}
	types := []string{"int", "string", "bool", "enum", "artifact", "list", "object"}
	if f.Type != "" && !slices.Contains(types, string(f.Type)) {
		l.add(m.where("type"), "bad-value", didYouMean(string(f.Type), types), "no type is called %s", f.Type)
	}
	only := func(key string, types ...FieldType) bool {
		if m.has(key) && !slices.Contains(types, f.Type) {
			m.bad(key, "does not go with type %s", f.Type)
			return false
		}
		return slices.Contains(types, f.Type)
	}
	if only("values", EnumField) {
		m.need("values")
		f.Values = m.texts("values")
		if m.has("values") && len(f.Values) == 0 {
			m.bad("values", "must name at least one value")
		}
	}
	if only("of", ListField) {
		m.need("of")
		if f.Of = FieldType(m.str("of")); f.Of != "" && f.Of != StringField && f.Of != IntField {
			m.bad("of", "must be string or int")
		}
	}
	f.MaxLen = l.size(m, "max_len", DefaultMaxLen, only("max_len", StringField, ListField))
	f.MaxItems = l.size(m, "max_items", DefaultMaxItems, only("max_items", ListField))
	f.MaxBytes = l.size(m, "max_bytes", DefaultMaxBytes, only("max_bytes", ObjectField))
	if f.Required && m.has("default") {
		m.bad("default", "makes no sense with required: true")
	}
	if m.has("default") && len(l.problems) == before {
		f.Default = l.json(m.value("default"), "")
		if err := f.Check(f.Default); err != nil {
			m.bad("default", "%v", err)
		}
	}
	return f
}

func (l *loader) size(m mapping, key string, otherwise int, applies bool) int {
	if !applies {
		return 0
	}
	if !m.has(key) {
		return otherwise
	}
	v := m.integer(key, 1)
	if v > MaxState {
		m.bad(key, "must be at most %d: content belongs into artifacts", MaxState)
	}
	return int(v)
}
