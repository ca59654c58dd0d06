package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pipelinebot/pipelinebot/flows"
)

// values is the state of a walk. It is changed in place, key by key, and
// remembers what it was until the node is committed: a node that fails leaves
// no trace in it. Only the walk's goroutine changes it, and never while an
// action works.
type values struct {
	flow  *flows.Flow
	pairs []flows.Pair // sorted by key
	size  int          // of the state as JSON
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
	v := &values{flow: f, pairs: s.Pairs(), size: 2}
	for _, p := range v.pairs {
		v.size += pair(p.Key, p.Value)
	}
	return v
}

// pair is the bytes that a key needs, its comma included. A planned end is the
// engine's own and always fits.
func pair(key string, raw json.RawMessage) int {
	if key == flows.StopKey {
		return 0
	}
	return len(key) + len(raw) + 4
}

// view is the state as guards see it. It must not outlive the next change.
func (v *values) view() flows.State { return flows.SortedState(v.pairs) }

// copy is the state for others, without what the engine keeps in it.
func (v *values) copy() flows.State { return flows.SortedState(slices.Clone(v.pairs)).Public() }

// at is where a key is or would be.
func (v *values) at(key string) (int, bool) {
	return slices.BinarySearchFunc(v.pairs, key, func(p flows.Pair, key string) int { return strings.Compare(p.Key, key) })
}

// raw is a key's value, nil for none.
func (v *values) raw(key string) json.RawMessage { return v.view().Raw(key) }

// only is the state narrowed to keys.
func (v *values) only(keys []string) flows.State {
	if len(keys) == 0 {
		return flows.State{}
	}
	return v.view().Only(keys)
}

// set replaces a value; nil takes it away.
func (v *values) set(key string, raw json.RawMessage) {
	old := v.put(key, raw)
	if !slices.ContainsFunc(v.changes, func(c change) bool { return c.key == key }) {
		v.changes = append(v.changes, change{key, old})
	}
}

// put is set without a memory; it returns what was there.
func (v *values) put(key string, raw json.RawMessage) json.RawMessage {
	at, had := v.at(key)
	var old json.RawMessage
	if had {
		old = v.pairs[at].Value
		v.size -= pair(key, old)
	}
	switch {
	case raw == nil && had:
		v.pairs = slices.Delete(v.pairs, at, at+1)
	case raw == nil:
	case had:
		v.pairs[at].Value = raw
	default:
		v.pairs = slices.Insert(v.pairs, at, flows.Pair{Key: key, Value: raw})
	}
	if raw != nil {
		v.size += pair(key, raw)
	}
	return old
}

// rollback undoes everything since the last commit.
func (v *values) rollback() {
	for _, c := range v.changes {
		v.put(c.key, c.old)
	}
	v.reset()
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

func encodeSlowly(key string, value any) (_ json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil { // by the value's own encoder
			err = invalid(key, "can't be kept as JSON: panic: %v", p)
		}
	}()
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
	n, kept := 1, 0
	for _, c := range v.changes {
		now := v.raw(c.key)
		if bytes.Equal(now, c.old) && (now == nil) == (c.old == nil) {
			v.put(c.key, c.old) // the new one is in the buffer
			continue
		}
		v.changes[kept] = c
		kept++
		n += pair(c.key, now) + len("null")
	}
	changed := v.changes[:kept]
	if kept == 0 {
		v.reset()
		return nil
	}
	slices.SortFunc(changed, func(a, b change) int { return strings.Compare(a.key, b.key) })
	out := make([]byte, 0, n)
	for i, c := range changed {
		out = append(out, ",\""...)
		if i == 0 {
			out[0] = '{'
		}
		out = append(out, c.key...)
		out = append(out, "\":"...)
		at, has := v.at(c.key)
		if !has {
			out = append(out, "null"...)
			continue
		}
		from := len(out)
		out = append(out, v.pairs[at].Value...)
		v.pairs[at].Value = out[from:len(out):len(out)]
	}
	v.reset()
	return append(out, '}')
}

func (v *values) reset() { v.changes, v.buf = v.changes[:0], v.buf[:0] }

// json is the whole state, without the engine's own part if public.
func (v *values) json(public bool) json.RawMessage {
	out := make([]byte, 1, v.size+1)
	out[0] = '{'
	for i := range v.pairs {
		p := &v.pairs[i]
		if public && p.Key == flows.StopKey {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, p.Key...)
		out = append(out, "\":"...)
		out = append(out, p.Value...)
	}
	return append(out, '}')
}
