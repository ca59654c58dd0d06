package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/pipelinebot/pipelinebot/flows"
)

// values is the state of a walk. It is changed in place, key by key, and
// remembers what it was until the node is committed: a node that fails leaves
// no trace in it. Only the walk's goroutine changes it, and never while an
// action works.
type values struct {
	flow *flows.Flow
	m    map[string]json.RawMessage
	keys []string // of m, sorted
	size int      // of the state as JSON
	// changes is what was touched since the last commit, each key once.
	changes []change
	// buf holds encoded values until they are sealed, order is scratch.
	buf   []byte
	order []string
}

// change is a key's value before it was touched; nil for none.
type change struct {
	key string
	old json.RawMessage
}

// newValues takes a decoded state over.
func newValues(f *flows.Flow, s flows.State) *values {
	v := &values{flow: f, m: s.Values(), keys: s.Keys(), size: 2}
	if v.m == nil {
		v.m = map[string]json.RawMessage{}
	}
	for key, raw := range v.m {
		v.size += pair(key, raw)
	}
	return v
}

// pair is the bytes that a key needs, its comma included.
func pair(key string, raw json.RawMessage) int { return len(key) + len(raw) + 4 }

// view is the state as guards see it. It must not outlive the next change.
func (v *values) view() flows.State { return flows.NewState(v.m) }

// copy is the state for others, without what the engine keeps in it.
func (v *values) copy() flows.State { return flows.NewState(v.view().Values()).Public() }

// only is the state narrowed to keys.
func (v *values) only(keys []string) flows.State {
	if len(keys) == 0 {
		return flows.State{}
	}
	return v.view().Only(keys)
}

// set replaces a value; nil takes it away.
func (v *values) set(key string, raw json.RawMessage) {
	old, had := v.m[key]
	if !slices.ContainsFunc(v.changes, func(c change) bool { return c.key == key }) {
		v.changes = append(v.changes, change{key, old})
	}
	v.put(key, old, had, raw)
}

func (v *values) put(key string, old json.RawMessage, had bool, raw json.RawMessage) {
	switch {
	case raw == nil && had:
		delete(v.m, key)
		v.size -= pair(key, old)
		at, _ := slices.BinarySearch(v.keys, key)
		v.keys = slices.Delete(v.keys, at, at+1)
	case raw == nil:
	case had:
		v.m[key] = raw
		v.size += len(raw) - len(old)
	default:
		v.m[key] = raw
		v.size += pair(key, raw)
		at, _ := slices.BinarySearch(v.keys, key)
		v.keys = slices.Insert(v.keys, at, key)
	}
}

// rollback undoes everything since the last commit.
func (v *values) rollback() {
	for _, c := range v.changes {
		now, has := v.m[c.key]
		v.put(c.key, now, has, c.old)
	}
	v.changes, v.buf = v.changes[:0], v.buf[:0]
}

func invalid(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s %w", flows.ErrInvalidState, key, fmt.Errorf(format, args...))
}

// apply puts what a node that may write the given keys has changed into the
// state. On an error the caller rolls back.
func (v *values) apply(writes []string, delta map[string]any, scrub func(*flows.Field, any) any) error {
	v.order = v.order[:0]
	for key := range delta {
		v.order = append(v.order, key)
	}
	slices.Sort(v.order)
	for _, key := range v.order {
		f := v.flow.FieldRef(key)
		switch {
		case f == nil:
			return invalid(key, "is no field of flow %s", v.flow.Name())
		case !slices.Contains(writes, key):
			return invalid(key, "is not among the keys that the node writes")
		}
		value := delta[key]
		if scrub != nil {
			value = scrub(f, value)
		}
		raw, err := v.encode(key, value)
		if err != nil {
			return err
		}
		if err := v.accept(f, raw); err != nil {
			return err
		}
	}
	return v.fits()
}

// accept takes a checked value; null takes it away where that is allowed.
func (v *values) accept(f *flows.Field, raw json.RawMessage) error {
	if string(raw) == "null" {
		if f.Default != nil || f.Required {
			return invalid(f.Key, "can't be taken away")
		}
		v.set(f.Key, nil)
		return nil
	}
	if err := f.Check(raw); err != nil {
		return invalid(f.Key, "%w", err)
	}
	v.set(f.Key, raw)
	return nil
}

// literals puts values that were checked at load into the state.
func (v *values) literals(set map[string]json.RawMessage) error {
	v.order = v.order[:0]
	for key := range set {
		v.order = append(v.order, key)
	}
	slices.Sort(v.order)
	for _, key := range v.order {
		f := v.flow.FieldRef(key)
		if f == nil {
			return invalid(key, "is no field of flow %s", v.flow.Name())
		}
		if err := v.accept(f, set[key]); err != nil {
			return err
		}
	}
	return v.fits()
}

func (v *values) fits() error {
	// The last pair has no comma.
	if n := v.size - 1; n > flows.MaxState {
		return fmt.Errorf("%w: the state has %d bytes, the limit is %d: content belongs into artifacts", flows.ErrInvalidState, n, flows.MaxState)
	}
	return nil
}

// encode turns a value into JSON, in the walk's buffer where that is easy.
func (v *values) encode(key string, value any) (json.RawMessage, error) {
	from := len(v.buf)
	switch value := value.(type) {
	case int:
		v.buf = strconv.AppendInt(v.buf, int64(value), 10)
	case int64:
		v.buf = strconv.AppendInt(v.buf, value, 10)
	case bool:
		v.buf = strconv.AppendBool(v.buf, value)
	case string:
		if !plain(value) {
			return encodeSlowly(key, value)
		}
		v.buf = append(v.buf, '"')
		v.buf = append(v.buf, value...)
		v.buf = append(v.buf, '"')
	default:
		return encodeSlowly(key, value)
	}
	return v.buf[from:len(v.buf):len(v.buf)], nil
}

func encodeSlowly(key string, value any) (json.RawMessage, error) {
	encoded, err := flows.Delta{key: value}.Encode()
	if err != nil {
		return nil, err
	}
	return encoded[key], nil
}

// plain tells texts that JSON writes as they are.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// seal makes the changes the walk's own and returns them as JSON, sorted by
// key, null for what is gone; nil when nothing has changed. The values in the
// state are then parts of what is returned.
func (v *values) seal() json.RawMessage {
	n, at := 1, 0
	for _, c := range v.changes {
		now := v.m[c.key]
		if bytes.Equal(now, c.old) && (now == nil) == (c.old == nil) {
			if now != nil {
				v.m[c.key] = c.old // the new one is in the buffer
			}
			continue
		}
		v.changes[at] = c
		at++
		n += pair(c.key, now) + len("null")
	}
	changed := v.changes[:at]
	if at == 0 {
		v.reset()
		return nil
	}
	slices.SortFunc(changed, func(a, b change) int { return cmp.Compare(a.key, b.key) })
	out := make([]byte, 0, n)
	for i, c := range changed {
		out = append(out, ",\""...)
		if i == 0 {
			out[0] = '{'
		}
		out = append(out, c.key...)
		out = append(out, "\":"...)
		from := len(out)
		raw := v.m[c.key]
		if raw == nil {
			out = append(out, "null"...)
			continue
		}
		out = append(out, raw...)
		v.m[c.key] = out[from:len(out):len(out)]
	}
	v.reset()
	return append(out, '}')
}

func (v *values) reset() { v.changes, v.buf = v.changes[:0], v.buf[:0] }

// json is the whole state, without the engine's own part if public.
func (v *values) json(public bool) json.RawMessage {
	out := make([]byte, 1, v.size+1)
	out[0] = '{'
	for _, key := range v.keys {
		if public && key == stopKey {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, key...)
		out = append(out, "\":"...)
		out = append(out, v.m[key]...)
	}
	return append(out, '}')
}

// stopKey is where flows keeps a planned early end.
const stopKey = "_stop"
