package flows

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The values that nodes write are nearly always of a plain form, which is
// recognised here without taking memory. What is not recognised is neither
// right nor wrong: it is checked the long way.

// quick tells that a value is surely right.
func (f *Field) quick(raw json.RawMessage) bool {
	switch f.Type {
	case IntField:
		return plainInt(raw)
	case BoolField:
		return string(raw) == "true" || string(raw) == "false"
	case StringField:
		s, ok := plainText(raw)
		return ok && len(s) <= f.MaxLen
	case EnumField:
		s, ok := plainText(raw)
		return ok && slices.ContainsFunc(f.Values, func(v string) bool { return v == string(s) })
	case ArtifactField:
		return plainArtifact(raw)
	case ListField:
		return f.plainList(raw)
	case ObjectField:
	}
	return false
}

// plainText is the inside of a JSON text of printable ASCII without escapes.
func plainText(raw json.RawMessage) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, false
	}
	inner := raw[1 : len(raw)-1]
	for _, c := range inner {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return nil, false
		}
	}
	return inner, true
}

// plainInt recognises whole numbers of at most 18 digits.
func plainInt(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 || len(raw) > 18 || raw[0] == '0' && len(raw) > 1 {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func (f *Field) plainList(raw json.RawMessage) bool {
	if len(raw) < 2 || raw[0] != '[' || raw[len(raw)-1] != ']' {
		return false
	}
	rest := raw[1 : len(raw)-1]
	if len(rest) == 0 {
		return true
	}
	for n := 1; ; n++ {
		end := itemEnd(rest)
		item := rest[:end]
		switch {
		case n > f.MaxItems:
			return false
		case f.Of == IntField && !plainInt(item):
			return false
		case f.Of == StringField:
			if s, ok := plainText(item); !ok || len(s) > f.MaxLen {
				return false
			}
		}
		if end == len(rest) {
			return f.Of == IntField || f.Of == StringField
		}
		rest = rest[end+1:]
	}
}

// plainListHas looks for a text in a list of texts; ok only if the list is of
// the plain form up to there.
func plainListHas(raw json.RawMessage, want []byte) (found, ok bool) {
	if len(raw) < 2 || raw[0] != '[' || raw[len(raw)-1] != ']' {
		return false, false
	}
	rest := raw[1 : len(raw)-1]
	for len(rest) > 0 {
		end := itemEnd(rest)
		item, ok := plainText(rest[:end])
		switch {
		case !ok:
			return false, false
		case bytes.Equal(item, want):
			return true, true
		case end == len(rest):
			return false, true
		}
		rest = rest[end+1:]
	}
	return false, true
}

// itemEnd is where the first item of a list without blanks ends.
func itemEnd(rest []byte) int {
	from := 0
	if len(rest) > 0 && rest[0] == '"' {
		closing := bytes.IndexByte(rest[1:], '"')
		if closing < 0 {
			return len(rest)
		}
		from = closing + 2
	}
	if comma := bytes.IndexByte(rest[from:], ','); comma >= 0 {
		return from + comma
	}
	return len(rest)
}

// plainArtifact recognises artifacts as they are encoded.
func plainArtifact(raw json.RawMessage) bool {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"path":`))
	if !ok {
		return false
	}
	end := itemEnd(rest)
	path, ok := plainText(json.RawMessage(rest[:end]))
	if !ok || len(path) == 0 || end == len(rest) {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest[end+1:], []byte(`"sha256":"`)); !ok || len(rest) < 66 {
		return false
	}
	for _, c := range rest[:64] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	if rest, ok = bytes.CutPrefix(rest[64:], []byte(`","bytes":`)); !ok {
		return false
	}
	size, ok := bytes.CutSuffix(rest, []byte("}"))
	return ok && plainInt(size) && size[0] != '-'
}
